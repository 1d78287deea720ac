"""Sparse rows, kernels, single rows and many rows: each against what it cannot do without.

    python benchmarks/speed.py                 all sections, some minutes on two cores
    python benchmarks/speed.py sparse kernel   some of them

Prints a Markdown table and writes `speed.json` and `speed.md` into `benchmarks/results`. Each
section runs in a fresh process, so that no thread pool of another one spins beside it. The sparse
section needs 20 Newsgroups under $ISOPIVOT_DATA and is left out without it.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

import measure
from cases import FULL, Case, data

HERE = Path(__file__).parent
REPEATS = 5


def seconds(call: Callable[[], Any], repeats: int = REPEATS) -> float:
    """Median wall time of a call, once the threads of OpenBLAS have stopped spinning."""
    time.sleep(0.3)
    taken = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)


def microseconds(*calls: Callable[[], Any], repeats: int = 15) -> list[float]:
    """Medians of the times of short calls, in microseconds, taken in turn."""
    many = [lambda call=call: [call() for _ in range(200)] for call in calls]
    return [1e6 * taken / 200 for taken in in_turn(*many, repeats=repeats)]


def in_turn(*calls: Callable[[], Any], repeats: int) -> list[float]:
    """Median wall times of calls that take turns, so that a slow spell hits all of them."""
    time.sleep(0.3)
    taken: list[list[float]] = [[] for _ in calls]
    for _ in range(repeats):
        for call, times in zip(calls, taken, strict=True):
            start = time.perf_counter()
            call()
            times.append(time.perf_counter() - start)
    return [statistics.median(times) for times in taken]


def extra_memory(call: Callable[[], Any], kept: Callable[[Any], list[np.ndarray]]) -> int:
    """Peak bytes of Python and NumPy beyond what is kept."""
    tracemalloc.start()
    result = call()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return max(0, peak - measure.total_bytes(kept(result)))


# -- sections: each returns rows (what, value, unit, asked) -----------------------------------


def section_sparse() -> list[tuple[str, float, str, str]]:
    """20 Newsgroups counts, s = 300, against TruncatedSVD."""
    from sklearn.decomposition import TruncatedSVD

    from isopivot import icpqr

    folder = os.environ.get("ISOPIVOT_DATA")
    if folder is None:
        return []
    parts = np.load(Path(folder) / "news20" / "news20_counts.npz", allow_pickle=False)
    arrays = (parts["data_train"].astype(np.float64), parts["indices_train"], parts["indptr_train"])
    X = sparse.csr_matrix(arrays, shape=tuple(parts["shape_train"]))
    ours = seconds(lambda: icpqr(X, n_components=300))
    extra = extra_memory(
        lambda: icpqr(X, n_components=300), lambda r: [r.coordinates, r.residuals, r.triangle]
    )
    theirs = seconds(lambda: TruncatedSVD(300, random_state=0).fit_transform(X))
    dense = X.shape[0] * X.shape[1] * 8
    stored = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
    return [
        ("icpqr, 11314 x 31100 counts, s = 300", ours, "s", ""),
        ("TruncatedSVD(300) / icpqr", theirs / ours, "x", ">= 3"),
        ("extra memory / stored X", 100 * extra / stored, "%", "< 10"),
        ("extra memory / dense X", 100 * extra / dense, "%", "no densified copy"),
    ]


def section_kernel() -> list[tuple[str, float, str, str]]:
    """100,000 x 20, 1,000 pivots, against evaluating and solving those columns at once."""
    from scipy.linalg import solve_triangular

    from isopivot import KernelICPQR

    X = np.random.default_rng(0).standard_normal((100_000, 20))
    model = KernelICPQR(None, 1_000).fit(X)
    ours = seconds(lambda: KernelICPQR(None, 1_000).fit(X))
    T, D, epsilon = model._extension.T, model.dictionary_, model.epsilon_
    evaluations = model.certificate_.kernel_evaluations

    def at_once() -> np.ndarray:
        d2 = D @ X.T
        d2 *= -2.0
        d2 += np.vecdot(D, D)[:, None] + np.vecdot(X, X)[None, :]
        d2 /= -epsilon
        K = np.exp(d2, out=d2)
        return solve_triangular(T, K, lower=True, overwrite_b=True, check_finite=False)

    floor = seconds(at_once)
    del model
    extra = extra_memory(lambda: KernelICPQR(None, 1_000).fit(X), _kept_by_kernel)
    return [
        ("KernelICPQR.fit, 100000 x 20, 1000 pivots", ours, "s", ""),
        ("... / evaluating and solving the columns at once", ours / floor, "x", "<= 2"),
        ("kernel entries evaluated / n s", evaluations / 1e8, "x", ""),
        ("extra memory / X (16 MB)", 100 * extra / X.nbytes, "%", "< 10"),
        ("extra memory / embedding (800 MB)", 100 * extra / (X.shape[0] * 8_000), "%", ""),
    ]


def _kept_by_kernel(model: Any) -> list[np.ndarray]:
    return [model.embedding_, model.residuals_, model.dictionary_, model._extension.T]


def section_float32() -> list[tuple[str, float, str, str]]:
    """float32 against float64, call by call."""
    from isopivot import icpqr

    rows = []
    for case in FULL:
        wide = data(case)
        short = wide.astype(np.float32)
        calls = [partial(icpqr, X, n_components=case.s) for X in (wide, short)]
        for call in calls:  # the first ones get new memory
            call()
        taken = in_turn(*calls, repeats=max(9, int(6e10 // (case.n * case.m * case.s))))
        what = f"icpqr float64 / float32, {case.name}"
        rows.append((what, taken[0] / taken[1], "x", ">= 1.6"))
    return rows


def section_rows() -> list[tuple[str, float, str, str]]:
    """One row, and a million rows."""
    from sklearn.utils.validation import validate_data

    from isopivot import ICPQR, KernelICPQR

    rng = np.random.default_rng(0)
    X = rng.standard_normal((5_000, 50))
    x, dtypes = X[:1], [np.float64, np.float32]
    rows = []
    for model in (ICPQR(None, 20).fit(X), KernelICPQR(None, 200).fit(X)):
        check, *taken = microseconds(
            lambda model=model: validate_data(
                model, x, reset=False, accept_sparse="csr", dtype=dtypes
            ),
            *(partial(getattr(model, name), x) for name in METHODS),
        )
        for name, whole in zip(METHODS, taken, strict=True):
            what = f"{type(model).__name__}.{name}, one row of 50"
            rows.append((what, whole - check, "us", "< 100 beyond validation"))
    rows.append(("scikit-learn's validation of that row", check, "us", ""))
    model = ICPQR(None, 20).fit(X)
    many, Q = rng.standard_normal((1_000_000, 50)), rng.standard_normal((50, 20))
    time.sleep(1.0)
    ours = {name: seconds(lambda n=name: getattr(model, n)(many)) for name in METHODS}
    floor = seconds(lambda: many @ Q)
    rows += [(f"{n}, 1000000 x 50, s = 20 / GEMM", t / floor, "x", "1") for n, t in ours.items()]
    for name in METHODS:
        extra = extra_memory(lambda n=name: getattr(model, n)(many), lambda result: [result])
        rows.append((f"{name}, extra memory / X", 100 * extra / many.nbytes, "%", "< 10"))
    return rows


METHODS = ("transform", "distortion_rate")


# What the loop itself takes the time of; the rest of it chooses rows.
PARTS = {
    "products": "products",
    "explicit_residuals": "explicit residuals",
    "directions": "directions",
    "grams": "Gram matrices",
}


def section_profile() -> list[tuple[str, float, str, str]]:
    """Where the time goes in both formats: inside the loop, before it, and after it."""
    from isopivot import _compiled, icpqr

    rows, loops = [], []
    plain = _compiled.greedy

    def timed(factor: Any, **how: Any) -> Any:
        start = time.perf_counter()
        reason = plain(factor, **how)
        whole = time.perf_counter() - start
        taken = {name: getattr(factor._state, name) for name in PARTS}
        loops.append(taken | {"choosing rows": whole - sum(taken.values())})
        return reason

    for case in (c for c in FULL if c.name not in ("long-noise", "wide-noise")):
        for dtype in (np.float64, np.float32):
            X = data(case).astype(dtype)
            icpqr(X, n_components=case.s)
            loops.clear()
            _compiled.greedy = timed
            total = seconds(lambda X=X, s=case.s: icpqr(X, n_components=s), 2 * REPEATS)
            _compiled.greedy = plain
            parts = {name: statistics.median(loop[name] for loop in loops) for name in loops[0]}
            parts["before and after"] = total - sum(parts.values())
            name = f"{case.name}, {np.dtype(dtype).name}"
            rows += [
                (f"{name}: {PARTS.get(what, what)}", 1e3 * t, "ms", "") for what, t in parts.items()
            ]
            rows.append((f"{name}: all", 1e3 * total, "ms", ""))
    return rows


def section_relaxation() -> list[tuple[str, float, str, str]]:
    """gamma against s and time, 20000 x 600 decaying, mu as 180 exact pivots leave it."""
    from isopivot import icpqr

    X = data(next(case for case in FULL if case.name == "tall-decaying"))
    mu = icpqr(X, n_components=180).certificate.mu_strict
    fits = {g: partial(icpqr, X, mu=mu, relaxation=g) for g in (1.0, 0.9, 0.8, 0.7, 0.5, 0.3)}
    exact, *taken = in_turn(partial(icpqr, X, mu=mu), *fits.values(), repeats=9)
    rows = []
    for (gamma, fit), time_of_fit in zip(fits.items(), taken, strict=True):
        found = fit().certificate
        what = (
            f"relaxation {gamma:g}: s = {found.n_components}, {found.passes} passes, time / exact"
        )
        rows.append((what, time_of_fit / exact, "x", ""))
    return rows


def section_growth() -> list[tuple[str, float, str, str]]:
    """How the time grows with n, m and s, one at a time, on decaying data."""
    from isopivot import icpqr

    rows = []
    base = {"n": 20_000, "m": 300, "s": 60}
    for name, values in (
        ("n", (5_000, 10_000, 20_000, 40_000, 80_000)),
        ("m", (75, 150, 300, 600, 1_200)),
        ("s", (15, 30, 60, 120, 240)),
    ):
        for value in values:
            size = base | {name: value}
            X = data(Case("growth", size["n"], size["m"], size["s"], "decaying"))
            taken = seconds(lambda X=X, s=size["s"]: icpqr(X, n_components=s))
            rows.append((f"growth {name} = {value}", 1e3 * taken, "ms", ""))
    return rows


SECTIONS = {
    name.removeprefix("section_"): function
    for name, function in list(globals().items())
    if name.startswith("section_")
}


def table(results: dict[str, list[list[Any]]]) -> str:
    """All sections as one Markdown table."""
    lines = ["| | measured | asked |", "|---|---:|---|"]
    for rows in results.values():
        lines += [f"| {what} | {value:.3g} {unit} | {asked} |" for what, value, unit, asked in rows]
    return "\n".join(lines) + "\n"


def draw_growth(rows: list[list[Any]], path: Path) -> None:
    """Time against n, m and s, one panel each, on logarithmic axes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 3.4), layout="constrained", dpi=110)
    axes = figure.subplots(1, 3, sharey=True)
    for ax, name in zip(axes, "nms", strict=True):
        points = [(int(w.split("=")[1]), v) for w, v, *_ in rows if w.startswith(f"growth {name} ")]
        x, y = (np.array(values) for values in zip(*points, strict=True))
        ax.loglog(x, y, "-o")
        ax.loglog(x, y[-1] * x / x[-1], "--", color="grey", label="slope 1")
        ax.set_xticks(x, labels=[f"{value:,}" for value in x])
        ax.minorticks_off()
        ax.set_xlabel(name)
        ax.legend()
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("icpqr (ms)")
    figure.suptitle("decaying data; from n = 20,000, m = 300, s = 60, one varied")
    figure.savefig(path)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sections", nargs="*", help=f"of {', '.join(SECTIONS)}")
    parser.add_argument("--here", help="run one section in this process and print it as JSON")
    parser.add_argument("--out", type=Path, default=HERE / "results")
    options = parser.parse_args()
    if options.here:
        print(json.dumps(SECTIONS[options.here]()))
        return 0
    results = {}
    for name in options.sections or SECTIONS:
        print(f"  {name}", file=sys.stderr, flush=True)
        command = [sys.executable, __file__, "--here", name]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            print(done.stderr, file=sys.stderr)
            return 1
        results[name] = json.loads(done.stdout)
    options.out.mkdir(parents=True, exist_ok=True)
    everything = {"surroundings": measure.surroundings(), "results": results}
    (options.out / "speed.json").write_text(json.dumps(everything, indent=2) + "\n")
    (options.out / "speed.md").write_text(table(results))
    if "growth" in results:
        draw_growth(results["growth"], options.out / "growth.png")
    print(table(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
