"""DiffusionICPQR: the paper's comparison with muIDM, and cost against n.

    python benchmarks/diffusion.py              both tables, about ten minutes on two cores
    python benchmarks/diffusion.py --million    also 1,000,000 points, low_rank only
    python benchmarks/diffusion.py --quick      seconds: does everything still run?
    python benchmarks/diffusion.py --only million    one part; the others stay as they were

Table 1 repeats the paper's table: Swiss roll, n = 3,000, epsilon = 3, t = 1, noise 0.05 (what
the paper's figures fit best, see docs/errata.md), rows ordered from the inner part of the roll to
the outer. The actual distortion is exact, over all pairs, against the exact diffusion geometry,
which is built here and not by the library.

Table 2: Swiss rolls of growing n, epsilon = 25, mu = 0.1. Every contestant runs in a fresh
process, one at a time, when other programs leave the processors alone; rows that were disturbed
nevertheless are measured once more at the end. Time: median of three fits (one where a fit takes
over 10 s). GB: growth of the peak resident set in the first fit, beyond X and imported modules.
Distortion: the largest change of a diffusion distance among 200 points, 100 drawn at random and
the 100 of smallest degree, where every method errs most. Their exact coordinates come from exact
degrees, a blocked pass over all n^2 kernel values. Beyond 100,000 points that pass takes too
long: there the model's own degrees are used, after comparing them with exact ones at the 200.

DiffusionMaps (spectral, ours) is asked for as many coordinates as DiffusionICPQR took. pydiffmap
keeps the kernel to 64 nearest neighbours by default: another, sparse graph, with coordinates that
are no diffusion distances; only its time and memory are shown.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from scipy.spatial.distance import pdist
from sklearn.datasets import make_swiss_roll

from measure import _OtherPrograms, _reset_peak_resident, _status, surroundings

PAPER = {  # mu: (ICPQR-DM s, time, distortion), (muIDM s, time, distortion)
    0.1: ((1246, "43 s", 0.01), (2305, "7 h", 0.03)),
    1.0: ((752, "27 s", 0.23), (1293, "71 min", 0.61)),
    5.0: ((382, "17 s", 3.91), (630, "15 min", 4.46)),
    10.0: ((190, "9 s", 12.81), (284, "4 min", 13.24)),
}
SIZES = (1_000, 3_000, 10_000, 30_000, 100_000)
DENSE_MOST = 10_000  # points up to which the routes with n x n matrices are run anyway
MEMORY_MOST = 12.0  # GB; beyond, a contestant is not started
EXACT_MOST = 100_000  # points up to which exact degrees are computed
DISTURBED = 10.0  # percent of the processors taken by others; beyond, a row is measured again
EPSILON, MU = 25.0, 0.1
LOW_RANK, DENSE = "DiffusionICPQR low_rank", "DiffusionICPQR dense"
SPECTRAL, PYDIFFMAP = "DiffusionMaps", "pydiffmap, 64 neighbours"


# -- exact diffusion geometry, by the benchmark itself ------------------------------------


def kernel(X, Y, epsilon):
    """exp(-||x - y||^2 / epsilon) with one matrix product; X and Y are centred by the caller."""
    one_x, one_y = np.ones((len(X), 1)), np.ones((len(Y), 1))
    left = np.hstack([2 * X, -np.vecdot(X, X)[:, None], one_x])
    right = np.hstack([Y, one_y, -np.vecdot(Y, Y)[:, None]])
    K = left @ (right.T / epsilon)
    np.minimum(K, 0.0, out=K)
    return np.exp(K, out=K)


def degrees(X, epsilon):
    """Row sums of the kernel matrix in blocks: half of the blocks, by symmetry."""
    blocks = [slice(i, i + 2000) for i in range(0, len(X), 2000)]

    def row(i):
        part = np.zeros(len(X))
        for rows in blocks[i:]:
            K = kernel(X[blocks[i]], X[rows], epsilon)
            part[blocks[i]] += K.sum(axis=1)
            if rows is not blocks[i]:
                part[rows] += K.sum(axis=0)
        return part

    total = np.zeros(len(X))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for part in pool.map(row, range(len(blocks))):
            total += part
    return total


def exact_rows(X, rows, d, epsilon):
    """Rows of Z = vol^1/2 D^-1 K D^-1/2: their distances are diffusion distances, t = 1."""
    Z = kernel(X[rows], X, epsilon)
    Z /= d[rows, None]
    Z *= np.sqrt(d.sum() / d)
    return Z


def sampled_distortion(X, embedding, epsilon, guess=None):
    """Largest change of a distance among 200 points, and how their degrees were had.

    `guess` are degrees to use for want of exact ones, which then come for the 200 only.
    """
    start = time.perf_counter()
    d = degrees(X, epsilon) if guess is None else guess.copy()
    seconds = time.perf_counter() - start
    drawn = np.random.default_rng(0).choice(len(X), min(100, len(X)), replace=False)
    rows = np.union1d(drawn, np.argsort(d, kind="stable")[:100])
    found = {"degrees seconds": seconds}
    if guess is not None:
        exact = kernel(X[rows], X, epsilon).sum(axis=1)
        found = {"degrees error": float(np.abs(exact / d[rows] - 1.0).max())}
        d[rows] = exact
    distances = pdist(exact_rows(X, rows, d, epsilon))
    return {"distortion": float(np.abs(distances - pdist(embedding[rows])).max()), **found}


# -- contestants, each in a fresh process -------------------------------------------------


def contestant(task):
    from isopivot import DiffusionICPQR
    from isopivot.baselines import DiffusionMaps, MuIDM

    what, epsilon, mu, s = (task[key] for key in ("what", "epsilon", "mu", "s"))
    if what in (LOW_RANK, DENSE):
        return DiffusionICPQR(mu, epsilon=epsilon, method=what.split()[-1])
    if what == "MuIDM":
        return MuIDM(mu, epsilon=epsilon)
    if what == SPECTRAL:
        return DiffusionMaps(s, epsilon=epsilon)
    from pydiffmap.diffusion_map import DiffusionMap

    # Its kernel is exp(-||x - y||^2 / (4 epsilon)).
    return DiffusionMap.from_sklearn(alpha=0.0, k=64, epsilon=epsilon / 4, n_evecs=s)


def measure(task):
    """Run one contestant in this very process and print what came out as JSON."""
    n, epsilon = task["n"], task["epsilon"]
    X, roll = make_swiss_roll(n, noise=0.05, random_state=task["seed"])
    X -= X.mean(axis=0)
    if task["ordered"]:
        X = X[np.argsort(roll, kind="stable")]
    small = np.ascontiguousarray(X[:: max(1, n // 300)])
    contestant({**task, "mu": 10.0, "s": 3, "epsilon": 100.0}).fit(small)  # loads what is lazy
    before = _reset_peak_resident()  # ru_maxrss would start from the parent's
    others = _OtherPrograms()
    seconds = []
    while len(seconds) < 3 and sum(seconds) < 10.0:
        model = contestant(task)
        start = time.perf_counter()
        model.fit(X)
        seconds.append(time.perf_counter() - start)
        if len(seconds) == 1:
            peak = _status("VmHWM")
    embedding = model.dmap if task["what"] == PYDIFFMAP else model.embedding_
    row = {
        "seconds": statistics.median(seconds),
        "fits": len(seconds),
        "GB": (peak - before) / 2**30,
        "others_cpu_percent": others.percent(),
        "s": embedding.shape[1],
        **properties(model),
    }
    if task["exact"]:
        from isopivot import actual_distortion

        Z = exact_rows(X, np.arange(n), degrees(X, epsilon), epsilon)
        row["distortion"] = actual_distortion(Z, embedding)
    elif task["what"] != PYDIFFMAP:
        guess = model.degrees_ if n > EXACT_MOST else None
        row |= sampled_distortion(X, embedding, epsilon, guess)
    print(json.dumps(row, default=float))


def properties(model):
    """Rank of the kernel's factor and what is promised: by certificate or analytically."""
    if hasattr(model, "certificate_"):
        geometry = model._walk.geometry
        rank = len(geometry.pivots) if hasattr(geometry, "pivots") else None
        certificate = model.certificate_
        return {
            "rank": rank,
            "bound": certificate.distortion_bound,
            "route error": certificate.route_error,
            "certified": certificate.certified,
            "kernel evaluations": certificate.kernel_evaluations,
        }
    if hasattr(model, "distortion_bound_"):
        return {"rank": None, "bound": model.distortion_bound_}
    return {"rank": None, "bound": getattr(model, "analytic_bound_", None)}


def run(what, n, epsilon, mu, *, s=None, ordered=False, exact=False, seed=0, limit=300.0):
    """Return the row of one contestant, or why there is none."""
    task = {"what": what, "n": n, "epsilon": epsilon, "mu": mu, "s": s, "seed": seed}
    task |= {"ordered": ordered, "exact": exact}
    key = {"contestant": what, "n": n, "mu": mu}
    command = [
        sys.executable,
        "-W",
        "ignore",
        __file__,
        "--measure",
        json.dumps(task),
    ]
    if n >= 1_000:  # less is not worth timing
        wait_for_quiet()
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        row = {"missing": f"stopped after {limit:.0f} s"}
    else:
        if done.returncode == 0:
            row = json.loads(done.stdout)
        else:
            lines = done.stderr.strip().splitlines() or [f"ended with code {done.returncode}"]
            row = {"missing": f"failed: {lines[-1][:200]}"}
    print(key | row, file=sys.stderr, flush=True)
    return key | row


def wait_for_quiet(patience=120.0):
    """Wait until other programs leave the processors alone, or patience ends.

    Threads of a BLAS wait for each other by spinning: one busy neighbour on two cores was seen
    to cost a factor of fifteen.
    """
    until = time.perf_counter() + patience
    while time.perf_counter() < until:
        others = _OtherPrograms()
        time.sleep(1.0)
        if (others.percent() or 0.0) < 10.0:
            return


# -- the two tables -----------------------------------------------------------------------


def comparison(n, rates, limit):
    """Table 1, row by row."""
    for mu in rates:
        for what in (DENSE, "MuIDM"):
            yield run(what, n, 3.0, mu, ordered=True, exact=True, limit=limit)


def scaling(sizes, limit):
    """Table 2, row by row; pydiffmap last."""
    asked = {}
    for what in (LOW_RANK, DENSE, SPECTRAL, PYDIFFMAP):
        previous = None
        for n in sizes:
            key = {"contestant": what, "n": n, "mu": MU}
            why = None if what == LOW_RANK else too_large(what, n, previous, limit)
            if why is not None:
                row = key | {"missing": why}
            else:
                row = run(what, n, EPSILON, MU, s=asked.get(n), limit=limit)
            if what == LOW_RANK and "s" in row:
                asked[n] = row["s"]
            previous = row
            yield row


def again(rows, limit):
    """Measure the disturbed rows of Table 2 once more; the quieter measurement is shown."""
    for i, row in enumerate(rows):
        if row.get("missing", "").startswith("too large"):  # judged by a row that may be new
            why = too_large(row["contestant"], row["n"], rows[i - 1], limit)
            rows[i] = row | {"missing": why or row["missing"]}
        if (row.get("others_cpu_percent") or 0.0) > DISTURBED:
            new = run(row["contestant"], row["n"], EPSILON, MU, s=row["s"], limit=limit)
            quieter = new.get("others_cpu_percent", 100.0) or 0.0
            if quieter < row["others_cpu_percent"]:
                rows[i] = new | {"disturbed": row}
            yield rows[i]


def too_large(what, n, previous, limit):
    """Why this contestant is not started at n points, judged by its last row; None: it is."""
    if previous is None:
        return None
    if "missing" in previous:
        return f"not run, as {previous['n']:,} points were not"
    grown = n / previous["n"]
    if what == PYDIFFMAP:
        return None
    if n <= DENSE_MOST:
        return None
    memory, seconds = previous["GB"] * grown**2, previous["seconds"] * grown**2
    if memory > MEMORY_MOST or seconds > limit:
        return f"too large: about {memory:.0f} GB and {seconds:.0f} s if both grow with n^2"
    return None


def slopes(rows):
    """Exponent of n in seconds and GB, over all sizes and from 10,000 points on."""
    result = {}
    for what in dict.fromkeys(row["contestant"] for row in rows):
        kept = [row for row in rows if row["contestant"] == what and "seconds" in row]
        for label, least in (("all", 0), ("from 10,000", 10_000)):
            some = [row for row in kept if row["n"] >= least]
            for quantity in ("seconds", "GB"):
                points = [(row["n"], row[quantity]) for row in some if row[quantity] > 0]
                if len(points) > 1:
                    n, y = np.log(points).T
                    result[f"{what}, {quantity}, {label}"] = float(np.polyfit(n, y, 1)[0])
    return result


def number(value, digits=3):
    return "" if value is None else f"{value:.{digits}g}"


def percent(value):
    return "" if value is None else f"{value:.0f}"


def comparison_markdown(rows):
    lines = [
        f"### Swiss roll, n = {rows[0]['n']:,}, epsilon = 3, t = 1, noise 0.05, inner to outer",
        "",
        "| mu | method | s | paper's s | seconds | paper's time | actual distortion | paper's "
        "| proven bound | others' CPU % |",
        "| ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in rows:
        s, duration, distortion = PAPER[row["mu"]][row["contestant"] == "MuIDM"]
        start = f"| {row['mu']:g} | {row['contestant']} |"
        if "missing" in row:
            lines.append(f"{start} {row['missing']} | {s} | | {duration} | | {distortion} | | |")
            continue
        lines.append(
            f"{start} {row['s']:,} | {s:,} | {row['seconds']:.2f} | {duration} | "
            f"{number(row['distortion'])} | {distortion} | {number(row['bound'])} | "
            f"{percent(row['others_cpu_percent'])} |"
        )
    return "\n".join(lines)


def scaling_markdown(rows):
    lines = [
        f"### Swiss rolls, epsilon = {EPSILON:g}, mu = {MU:g}",
        "",
        "| n | method | seconds | GB beyond X | s | rank | proven bound | actual, 200 points "
        "| others' CPU % |",
        "| ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in sorted(rows, key=lambda row: row["n"]):
        start = f"| {row['n']:,} | {row['contestant']} |"
        if "missing" in row:
            lines.append(f"{start} {row['missing']} | | | | | | |")
            continue
        lines.append(
            f"{start} {row['seconds']:.2f} | {row['GB']:.2f} | {row['s']} | "
            f"{row['rank'] or ''} | {number(row['bound'])} | {number(row.get('distortion'))} | "
            f"{percent(row['others_cpu_percent'])} |"
        )
    passes = [
        f"{row['degrees seconds']:.1f} s at {row['n']:,}"
        for row in rows
        if row["contestant"] == LOW_RANK and "degrees seconds" in row
    ]
    for row in rows:
        if "degrees error" in row:
            lines += [
                "",
                f"At {row['n']:,} points the distortion is measured with the degrees of the "
                f"low-rank kernel; at the 200 points these are within {row['degrees error']:.1e} "
                "of the exact ones, relatively.",
            ]
    if passes:
        lines += ["", "One pass over all kernel values, not stored: " + ", ".join(passes) + "."]
    lines += ["", "| grows like n^p | p |", "| --- | ---: |"]
    lines += [f"| {name} | {slope:.2f} |" for name, slope in slopes(rows).items()]
    return "\n".join(lines)


def picture(rows, path):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
    fitted = slopes(rows)
    for axis, quantity in zip(axes, ("seconds", "GB"), strict=True):
        for what, marker in zip((LOW_RANK, DENSE, SPECTRAL, PYDIFFMAP), "os^D", strict=True):
            kept = [row for row in rows if row["contestant"] == what and "seconds" in row]
            kept.sort(key=lambda row: row["n"])
            slope = fitted.get(f"{what}, {quantity}, all")
            label = what if slope is None else f"{what}: n^{slope:.2f}"
            axis.loglog(
                [r["n"] for r in kept], [r[quantity] for r in kept], marker + "-", label=label
            )
        axis.set(xlabel="points", ylabel={"GB": "peak GB beyond X"}.get(quantity, quantity))
        axis.grid(alpha=0.3, which="both")
        axis.legend(fontsize=8)
    figure.suptitle(f"Diffusion maps of Swiss rolls, epsilon = {EPSILON:g}, mu = {MU:g}")
    figure.savefig(path, dpi=120)
    plt.close(figure)


def write(result, folder, stem, *, final=False):
    """Write what there is so far: a run that is stopped leaves its finished rows."""
    parts = []
    if result.get("comparison"):
        parts.append(comparison_markdown(result["comparison"]))
    large = result.get("scaling", []) + result.get("million", [])
    if large:
        parts.append(scaling_markdown(large))
        if final:
            picture(large, folder / f"{stem}.png")
    (folder / f"{stem}.md").write_text("\n\n".join(parts) + "\n")
    (folder / f"{stem}.json").write_text(json.dumps(result, indent=1))
    return "\n\n".join(parts)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--million", action="store_true", help="also 1,000,000 points")
    parser.add_argument("--only", choices=["comparison", "scaling", "again", "million"])
    parser.add_argument("--limit", type=float, default=300.0, help="seconds for a contestant")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    parser.add_argument("--measure", type=json.loads, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        measure(arguments.measure)
        return
    limit = arguments.limit
    work = {
        "comparison": comparison(*((300, [5.0]) if arguments.quick else (3_000, PAPER)), limit),
        "scaling": scaling((500,) if arguments.quick else SIZES, limit),
    }
    if arguments.million or arguments.only == "million":
        n = 3_000 if arguments.quick else 1_000_000
        work["million"] = (
            run(what, n, EPSILON, MU, limit=max(limit, 1_800.0)) for what in [LOW_RANK]
        )
    stem = "diffusion-quick" if arguments.quick else "diffusion"
    arguments.out.mkdir(parents=True, exist_ok=True)
    saved = arguments.out / f"{stem}.json"
    result = json.loads(saved.read_text()) if arguments.only and saved.exists() else {}
    result.setdefault("surroundings", {})
    for part, rows in work.items():
        if arguments.only in (None, part):
            result["surroundings"][part] = surroundings()
            result[part] = []
            for row in rows:
                result[part].append(row)
                write(result, arguments.out, stem)
    if arguments.only == "again" or not (arguments.only or arguments.quick):
        for _ in again(result["scaling"], limit):
            write(result, arguments.out, stem)
    print(write(result, arguments.out, stem, final=True))


if __name__ == "__main__":
    main()
