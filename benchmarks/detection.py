"""Novelty detection on ADBench: isopivot against scikit-learn and PyOD.

    export ISOPIVOT_DATA=...                       a folder with adbench/*.npz
    python benchmarks/detection.py                 all contestants on all sets, seeds 0-4
    python benchmarks/detection.py --grid          kernel x scale x mu: where the defaults are from
    python benchmarks/detection.py --conformal     false alarms asked for and had
    python benchmarks/detection.py --quick --all   three sets, one seed: does everything still run?

Writes `detection.{md,csv,png}`, `detection-grid.{md,csv,png}` and `detection-conformal.{md,csv}`
into `benchmarks/results`. PyOD is needed for four of the peers (`pip install pyod`); without it
they are reported as failed.

The protocol: shuffle the normal rows with the seed, train on the first half (at most 1,500), test
on the other half (at most 3,000) and on the anomalies (at most 1,500); a StandardScaler is fitted
on the training rows. Defaults for everybody, on all sets.
"""

import argparse
import csv
import math
import sys
import time
import warnings
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import betabinom
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.preprocessing import StandardScaler

import detection_tables as tables
import measure
from detectors import Detector, Split, detectors, load, set_names, split
from isopivot import KernelICPQR

HERE = Path(__file__).parent
QUICK_SETS = ["14_glass", "47_yeast", "4_breastw"]
KERNELS = ("rbf", "exponential", "laplacian", "matern32")
SCALES = (0.125, 0.25, 0.5, 1.0, 2.0)
MUS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.7)
RATES = (Fraction(1, 100), Fraction(1, 20), Fraction(1, 10))  # exact, for the ceiling in k
GRID_SEEDS = 2  # the grid takes the first so many seeds
THIRD_ROWS = 1_500

Row = dict[str, Any]


# -- all contestants ------------------------------------------------------------------------------


def contest(sets: list[str], seeds: list[int]) -> list[Row]:
    """One row per contestant, set and seed."""
    rows = []
    for name in sets:
        normal, anomalies = load(name)
        for seed in seeds:
            cut = split(normal, anomalies, seed)
            rows += [{"set": name, "seed": seed} | run(d, cut, seed) for d in detectors()]
        print(f"  {name}", file=sys.stderr, flush=True)
    return rows


def run(detector: Detector, cut: Split, seed: int) -> Row:
    """Quality and time of one contestant; chance level and the reason when it fails."""
    chance = cut.labels.mean()
    row: Row = {"contestant": detector.name, "auc": 0.5, "ap": chance, "fit_s": np.nan}
    row |= {"score_s": np.nan, "share": np.nan, "failed": ""}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # constant features and the like: told by the scores
            scorer = detector.make(seed)
            start = time.perf_counter()
            scorer.fit(cut.train)
            middle = time.perf_counter()
            rates = scorer.rates(cut.test)
            end = time.perf_counter()
    except Exception as error:  # a peer may fail in its own way; it is reported, not hidden
        return row | {"failed": f"{type(error).__name__}: {error}".splitlines()[0]}
    row |= {"fit_s": middle - start, "score_s": end - middle, "share": share(scorer, cut)}
    if not np.isfinite(rates).all():
        return row | {"failed": f"{np.count_nonzero(~np.isfinite(rates))} scores are not finite"}
    return row | quality(cut.labels, rates)


def quality(labels: np.ndarray, rates: np.ndarray) -> Row:
    return {
        "auc": roc_auc_score(labels, rates),
        "ap": average_precision_score(labels, rates),
    }


def share(scorer: Any, cut: Split) -> float:
    """Dictionary size over training rows; NaN for those without a dictionary."""
    dictionary = getattr(scorer.model, "dictionary_indices_", None)
    return np.nan if dictionary is None else len(dictionary) / len(cut.train)


# -- the grid -------------------------------------------------------------------------------------


def grid(sets: list[str], seeds: list[int]) -> list[Row]:
    """One row per cell, set and seed."""
    rows = []
    for name in sets:
        normal, anomalies = load(name)
        for seed in seeds:
            cut = split(normal, anomalies, seed)
            for kernel in KERNELS:
                for scale in SCALES:
                    path = along_mu(kernel, scale, cut)
                    rows += [{"set": name, "seed": seed} | row for row in path]
        print(f"  {name}", file=sys.stderr, flush=True)
    return rows


def along_mu(kernel: str, scale: float, cut: Split) -> list[Row]:
    """All mu from one fit and one scoring: a larger mu keeps a head of the same dictionary.

    The squared rate after s pivots is k(x, x) = 1 minus the first s squared coordinates: what
    `truncate(mu=...).distortion_rate` gives, without solving the triangle again for every mu.
    """
    finest = KernelICPQR(mu=min(MUS), kernel=kernel, epsilon_scale=scale).fit(cut.train)
    explained = np.cumsum(finest.transform(cut.test) ** 2, axis=1)
    rows = []
    for mu in MUS:
        s = int(np.argmax(finest.path_[:, 0] <= mu))
        rates = np.sqrt(np.maximum(1.0 - explained[:, s - 1], 0.0))
        row: Row = {"kernel": kernel, "epsilon_scale": scale, "mu": mu}
        rows.append(row | {"share": s / len(cut.train)} | quality(cut.labels, rates))
    return rows


# -- conformal calibration ------------------------------------------------------------------------


def conformal(sets: list[str], seeds: list[int]) -> list[Row]:
    """One row per set, seed and asked rate for which there are enough calibration rows."""
    rows = []
    for name in sets:
        normal, _ = load(name)
        for seed in seeds:
            fit, calibrate, fresh = thirds(normal, seed)
            model = KernelICPQR().fit(fit)
            for rate in RATES:
                if len(calibrate) * rate >= 1:
                    row = {"set": name, "seed": seed, "rate": float(rate)}
                    rows.append(row | false_alarms(model, calibrate, fresh, rate))
        print(f"  {name}", file=sys.stderr, flush=True)
    return rows


def thirds(normal: np.ndarray, seed: int) -> list[np.ndarray]:
    """Rows to fit, to calibrate and to test on, in the units of the first."""
    order = np.random.default_rng(seed).permutation(len(normal))
    size = min(len(normal) // 3, THIRD_ROWS)
    parts = [normal[order[i * size : (i + 1) * size]] for i in range(3)]
    scaler = StandardScaler().fit(parts[0])
    return [scaler.transform(part) for part in parts]


def false_alarms(model: Any, calibrate: np.ndarray, fresh: np.ndarray, rate: Fraction) -> Row:
    """Alarms on fresh normal rows, and the 99.9 % quantile of their law.

    The chance that a fresh row exceeds the k-th smallest of n rates is Beta(n + 1 - k, k) over the
    draws of the calibration rows; the number that do is then beta-binomial (fewer with ties).
    """
    n, n_test = len(calibrate), len(fresh)
    k = math.ceil((n + 1) * (1 - rate))
    model.calibrate(calibrate, false_alarm_rate=float(rate))
    alarms = int(np.count_nonzero(model.predict(fresh) == -1))
    limit = int(betabinom(n_test, n + 1 - k, k).ppf(0.999))
    row: Row = {"n_cal": n, "n_test": n_test, "k": k, "alarms": alarms, "limit": limit}
    return row | {"ok": alarms <= limit}


# -- running --------------------------------------------------------------------------------------


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="novelty detection on the ADBench sets")
    parser.add_argument("--quick", action="store_true", help="three small sets, one seed")
    parser.add_argument("--grid", action="store_true", help="only the grid of settings")
    parser.add_argument("--conformal", action="store_true", help="only the calibration check")
    parser.add_argument("--all", action="store_true", help="contestants, grid and calibration")
    parser.add_argument("--sets", nargs="+", help="only these, as 14_glass (default: all)")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2, 3, 4], help="0 1 2 3 4")
    parser.add_argument(
        "--tables",
        action="store_true",
        help="run nothing: tables and pictures from the CSVs (the head tells of this process)",
    )
    parser.add_argument("--out", type=Path, default=HERE / "results", help="folder for the results")
    options = parser.parse_args(arguments)
    if options.quick:
        options.sets, options.seeds = options.sets or QUICK_SETS, options.seeds[:1]
    options.sets = options.sets or set_names()
    return options


def main(arguments: list[str] | None = None) -> int:
    """Run, print, write. 1 when one of ours failed or broke its calibration promise."""
    options = parse(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    head = tables.head(measure.surroundings(), options.sets)
    bad = False

    def old(name: str) -> Path | None:
        return options.out / f"{name}.csv" if options.tables else None

    if options.all or not (options.grid or options.conformal):
        rows = read(old("detection")) or contest(options.sets, options.seeds)
        unseen = sorted({row["seed"] for row in rows})[GRID_SEEDS:]
        save(options.out, "detection", rows, head + tables.contest(rows, unseen))
        tables.draw_contest(rows, options.out / "detection.png")
        bad |= any(row["failed"] and "ICPQR" in row["contestant"] for row in rows)
    if options.all or options.grid:
        rows = read(old("detection-grid")) or grid(options.sets, options.seeds[:GRID_SEEDS])
        peers = read(options.out / "detection.csv")
        save(options.out, "detection-grid", rows, head + tables.grid(rows, peers))
        tables.draw_grid(rows, peers, options.out / "detection-grid.png")
    if options.all or options.conformal:
        rows = read(old("detection-conformal")) or conformal(options.sets, options.seeds)
        save(options.out, "detection-conformal", rows, head + tables.conformal(rows))
        bad |= not all(row["ok"] for row in rows)
    return int(bad)


def save(out: Path, name: str, rows: list[Row], text: str) -> None:
    """Every single run as CSV, the summary as Markdown, which is printed too."""
    with (out / f"{name}.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    (out / f"{name}.md").write_text(text)
    print(text)


def read(path: Path | None) -> list[Row]:
    """Rows of an earlier run, numbers as numbers; none where there was no run."""
    if path is None or not path.exists():
        return []
    with path.open(newline="") as file:
        return [{key: _value(text) for key, text in row.items()} for row in csv.DictReader(file)]


def _value(text: str) -> Any:
    if text in ("True", "False"):
        return text == "True"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


if __name__ == "__main__":
    sys.exit(main())
