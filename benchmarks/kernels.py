"""KernelICPQR at scale, and against other landmark choices of the same size.

    python benchmarks/kernels.py            both tables, a few minutes on two cores
    python benchmarks/kernels.py --quick    seconds: does everything still run?

Table 1: time and peak memory of KernelICPQR on 200,000 x 10 points with up to 1,000 pivots,
against scikit-learn's Nystroem with as many components, each in a fresh process. Nystroem
takes random landmarks and promises nothing; it solves a smaller problem.

Table 2: what is left of the kernel after s landmarks: greedy (ours), uniform Nystroem, and
randomly pivoted Cholesky (Chen, Epperly, Tropp, Webber 2022; written plainly below). Trace:
the sum of squared residuals, relative to the trace of the kernel. Largest: the largest
residual of a point, which is what mu bounds. Smaller is better.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.datasets import load_digits, make_swiss_roll
from sklearn.preprocessing import StandardScaler

from isopivot import KernelICPQR

SIZES = {"full": (200_000, 10, 1000), "quick": (5_000, 10, 100)}


def cloud(n, m):
    """Points near a curved 3-dimensional surface, so that the kernel has some structure."""
    rng = np.random.default_rng(0)
    t = rng.uniform(-1, 1, (n, 3))
    waves = np.sin(t @ rng.standard_normal((3, m)) * 2.0)
    return waves + 0.05 * rng.standard_normal((n, m))


def measure(what, size):
    """Run one contestant in this very process and print seconds and peak memory as JSON."""
    n, m, s = SIZES[size]
    X = cloud(n, m)
    epsilon = KernelICPQR(None, 1).fit(X[:2000]).epsilon_
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    if what == "KernelICPQR":
        model = KernelICPQR(None, s, epsilon=epsilon)
        if sys.stderr.isatty():
            from sklearn.callback import ProgressBar

            model.set_callbacks(ProgressBar())
        model.fit(X)
        extra = {
            "largest residual": model.mu_strict_,
            "trace": float((model.residuals_**2).mean()),
            "evaluations / (n s)": model.certificate_.kernel_evaluations / (n * s),
        }
    else:
        from sklearn.kernel_approximation import Nystroem

        F = Nystroem(gamma=1 / epsilon, n_components=s, random_state=0).fit_transform(X)
        left2 = np.maximum(1.0 - np.einsum("ij,ij->i", F, F), 0.0)
        extra = {"largest residual": float(np.sqrt(left2.max())), "trace": float(left2.mean())}
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({"seconds": seconds, "GB beyond X": (peak - before) / 2**20, **extra}))


def scale_table(size):
    n, m, s = SIZES[size]
    lines = [
        f"### {n:,} x {m} points, {s:,} landmarks, rbf",
        "",
        "| contestant | seconds | ratio | GB beyond X | largest residual | mean squared residual |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    rows = {}
    for what in ("KernelICPQR", "Nystroem"):
        command = [sys.executable, __file__, "--measure", what, "--size", size]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True, env=os.environ)
        rows[what] = json.loads(done.stdout)
    for what, row in rows.items():
        ratio = row["seconds"] / rows["Nystroem"]["seconds"]
        lines.append(
            f"| {what} | {row['seconds']:.1f} | {ratio:.2f} | {row['GB beyond X']:.2f} | "
            f"{row['largest residual']:.4f} | {row['trace']:.2e} |"
        )
    return "\n".join(lines), rows


def residual2(K, landmarks):
    """Squared residuals of all points after projection on the landmarks."""
    eigenvalues, V = np.linalg.eigh(K[np.ix_(landmarks, landmarks)])
    keep = eigenvalues > 1e-13 * eigenvalues.max()
    F = K[:, landmarks] @ (V[:, keep] / np.sqrt(eigenvalues[keep]))
    return np.maximum(K.diagonal() - np.einsum("ij,ij->i", F, F), 0.0)


def randomly_pivoted_cholesky(K, s, rng):
    """Landmarks drawn one by one with probability proportional to the squared residual."""
    left2 = K.diagonal().copy()
    F = np.zeros((len(K), s))
    chosen = []
    for j in range(s):
        p = rng.choice(len(K), p=left2 / left2.sum())
        column = K[:, p] - F[:, :j] @ F[p, :j]
        F[:, j] = column / np.sqrt(column[p])
        left2 = np.maximum(left2 - F[:, j] ** 2, 0.0)
        left2[p] = 0.0
        chosen.append(p)
    return np.array(chosen)


def sets():
    digits = StandardScaler().fit_transform(load_digits().data)
    roll = make_swiss_roll(2000, noise=0.05, random_state=0)[0]
    yield "digits", digits
    yield "Swiss roll", roll
    folder = os.environ.get("ISOPIVOT_DATA")
    if folder and (Path(folder) / "adbench").is_dir():
        for name in sorted((Path(folder) / "adbench").glob("*.npz")):
            if "satimage" in name.name.lower() or "landsat" in name.name.lower():
                X = np.load(name, allow_pickle=False)["X"][:2000]
                yield name.stem, StandardScaler().fit_transform(X.astype(float))
                return
    yield "three waves", cloud(2000, 10)


def landmark_table(repeats):
    lines = [
        "### Same number of landmarks, what is left",
        "",
        "| set | s | greedy trace | random pivots | uniform | greedy largest | random pivots "
        "| uniform |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    rows = []
    for name, X in sets():
        model = KernelICPQR(None, 200).fit(X)
        K = np.exp(-cdist(X, X, "sqeuclidean") / model.epsilon_)
        for s in (25, 100, 200):
            greedy = model.truncate(n_components=s)
            ours = residual2(K, greedy.dictionary_indices_)
            drawn = {"random": [], "uniform": []}
            for seed in range(repeats):
                rng = np.random.default_rng(seed)
                drawn["random"].append(residual2(K, randomly_pivoted_cholesky(K, s, rng)))
                uniform = rng.choice(len(X), s, replace=False)
                drawn["uniform"].append(residual2(K, uniform))
            row = {"set": name, "s": s, "greedy": (ours.mean(), np.sqrt(ours.max()))}
            for key, values in drawn.items():
                row[key] = (
                    float(np.median([v.mean() for v in values])),
                    float(np.median([np.sqrt(v.max()) for v in values])),
                )
            rows.append(row)
            lines.append(
                f"| {name} | {s} | {row['greedy'][0]:.2e} | {row['random'][0]:.2e} | "
                f"{row['uniform'][0]:.2e} | {row['greedy'][1]:.3f} | {row['random'][1]:.3f} | "
                f"{row['uniform'][1]:.3f} |"
            )
    return "\n".join(lines), rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    parser.add_argument("--measure", choices=["KernelICPQR", "Nystroem"], help=argparse.SUPPRESS)
    parser.add_argument("--size", choices=list(SIZES), default="full", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        measure(arguments.measure, arguments.size)
        return
    scale, scale_rows = scale_table("quick" if arguments.quick else "full")
    print(scale, flush=True)
    landmarks, landmark_rows = landmark_table(2 if arguments.quick else 5)
    print("\n" + landmarks)
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "kernels.md").write_text(f"{scale}\n\n{landmarks}\n")
    result = {"scale": scale_rows, "landmarks": landmark_rows}
    (arguments.out / "kernels.json").write_text(json.dumps(result, default=float, indent=1))


if __name__ == "__main__":
    main()
