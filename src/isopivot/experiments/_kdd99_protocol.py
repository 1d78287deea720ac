"""The protocol of the intrusion experiment: rows, test sets, kernel width, thresholds."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import pdist
from sklearn.preprocessing import MinMaxScaler

Floats = NDArray[np.float64]
Words = NDArray[np.str_]
Flags = NDArray[np.bool_]


class Day(NamedTuple):
    """A test set of the paper: its make-up, and the percentages found there."""

    name: str
    size: int
    anomalies: int
    detected: float
    false_alarms: float  # of the size of the set, not of its normal rows (errata 27)


PAPER = (
    Day("Mon", 1321, 1, 100.0, 0.68),
    Day("Tue", 1140, 53, 100.0, 0.53),
    Day("Wed", 1321, 16, 100.0, 0.08),
    Day("Thu", 1320, 24, 96.0, 1.74),
    Day("Fri", 1320, 18, 100.0, 0.15),
)
THURSDAY = 3
PAPER_MU, PAPER_EPSILON, PAPER_S, PAPER_FEATURES = 1e-7, 0.6, 138, 14
N_TRAINING = 6195  # the paper's
N_CALIBRATION = 2000
FALSE_ALARM_RATE = 0.01

# Counts and bytes span up to nine decades; what is left are rates and yes/no columns.
LOGARITHMIC = frozenset(
    (
        *("duration", "src_bytes", "dst_bytes", "wrong_fragment", "urgent", "hot"),
        *("num_failed_logins", "num_compromised", "num_root", "num_file_creations"),
        *("num_shells", "num_access_files", "num_outbound_cmds", "count", "srv_count"),
        *("dst_host_count", "dst_host_srv_count"),
    )
)


@dataclass(frozen=True, eq=False)
class Pool:
    """Distinct rows to draw from, logarithms taken."""

    normal: Floats
    attacks: Floats
    kinds: Words  # of the attacks


@dataclass(frozen=True, eq=False)
class Draw:
    """One training set, calibration rows, and the five test sets one under the other."""

    training: Floats
    calibration: Floats
    test: Floats
    day: NDArray[np.intp]  # place in PAPER, of every test row
    anomalous: Flags
    box: MinMaxScaler


@dataclass(frozen=True, eq=False)
class Rated:
    """What a model says of a draw."""

    mu: float
    n_components: int
    mu_strict: float
    strict: float  # thresholds
    calibrated: float
    rates: Floats  # of the test rows


class Shares(NamedTuple):
    """Percentages of one set of rows."""

    detected: float
    of_size: float
    of_normal: float


def pool_of(X: Floats, labels: Words, names: Sequence[str], besides: Floats | None = None) -> Pool:
    """Return the distinct normal rows and attacks; no row is both, none is in `besides`.

    An attack that cannot be told from a normal row by these columns is left out.
    """
    logarithmic = [name in LOGARITHMIC for name in names]
    prepared = np.where(logarithmic, np.log1p(X), X)
    is_normal = labels == "normal"
    known = _keys(besides) if besides is not None else set()
    normal = np.unique(prepared[is_normal], axis=0)
    normal = normal[[row.tobytes() not in known for row in normal]]
    attacks, first = np.unique(prepared[~is_normal], axis=0, return_index=True)
    known |= _keys(normal)
    alone = np.array([row.tobytes() not in known for row in attacks], dtype=bool)
    return Pool(normal, attacks[alone], labels[~is_normal][first][alone])


def _keys(rows: Floats) -> set[bytes]:
    return {row.tobytes() for row in rows}


def draw(pool: Pool, seed: Sequence[int], n_training: int, n_calibration: int) -> Draw:
    """Return training, calibration and test rows, all different, in the training rows' box."""
    rng = np.random.default_rng(seed)
    normal = rng.permutation(pool.normal)
    training, calibration, fresh = np.split(normal, [n_training, n_training + n_calibration])
    rows, day, anomalous = five_sets(fresh, rng.permutation(pool.attacks))
    # Columns that are constant in training are only shifted; new rows may leave the box.
    box = MinMaxScaler().fit(training)
    training, calibration, test = (box.transform(part) for part in (training, calibration, rows))
    return Draw(training, calibration, test, day, anomalous, box)


def with_test_rows_of(drawn: Draw, other: Pool, seed: Sequence[int]) -> Draw:
    """Return the same training with test rows from another pool."""
    rng = np.random.default_rng(seed)
    rows, day, anomalous = five_sets(rng.permutation(other.normal), rng.permutation(other.attacks))
    test = drawn.box.transform(rows)
    return Draw(drawn.training, drawn.calibration, test, day, anomalous, drawn.box)


def five_sets(normal: Floats, attacks: Floats) -> tuple[Floats, NDArray[np.intp], Flags]:
    """Return rows made up like the paper's sets, the set each is in, and which are attacks."""
    days = np.arange(len(PAPER))
    ordinary = np.repeat(days, [day.size - day.anomalies for day in PAPER])
    hostile = np.repeat(days, [day.anomalies for day in PAPER])
    rows = np.vstack([normal[: len(ordinary)], attacks[: len(hostile)]])
    return rows, np.r_[ordinary, hostile], np.arange(len(rows)) >= len(ordinary)


def epsilon_of(training: Floats, power: int = 2) -> float:
    """Return twice the median of all mutual distances to this power (errata 26)."""
    return 2.0 * float(np.median(pdist(training) ** power))


def rate(model: Any, drawn: Draw) -> Rated:
    """Return the rates of the test rows and both thresholds, of a model not yet calibrated."""
    model = copy(model)  # calibration is not to show outside
    rates = model.distortion_rate(drawn.test)
    strict = model.threshold_
    calibrated = model.calibrate(drawn.calibration, FALSE_ALARM_RATE).threshold_
    return Rated(model.mu, model.n_components_, model.mu_strict_, strict, calibrated, rates)


def shares(alarms: Flags, anomalous: Flags) -> Shares:
    """Return detections in percent, and false alarms of all rows and of the normal ones."""
    false = 100.0 * np.count_nonzero(alarms & ~anomalous)
    detected = 100.0 * float(np.mean(alarms[anomalous]))
    return Shares(detected, false / len(alarms), false / np.count_nonzero(~anomalous))
