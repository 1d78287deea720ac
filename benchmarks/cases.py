"""The data sets of the benchmark: seeded, so that every run and every process sees the same."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

Kind = Literal["noise", "decaying", "clustered"]


@dataclass(frozen=True)
class Case:
    """n points with m features, factorized to s components."""

    name: str
    n: int
    m: int
    s: int
    kind: Kind
    seed: int = 20240


FULL = (
    Case("tall-noise", 20_000, 600, 180, "noise"),
    Case("tall-decaying", 20_000, 600, 180, "decaying"),
    Case("tall-clustered", 20_000, 600, 180, "clustered"),
    Case("long-noise", 100_000, 200, 60, "noise"),
    Case("square-noise", 3_000, 3_000, 1_200, "noise"),
)
QUICK = (Case("quick-noise", 800, 60, 18, "noise"),)


def data(case: Case) -> np.ndarray:
    """The points of a case, (n, m) float64, C-ordered.

    `noise` is white: no direction is better than another, the worst case for any reduction.
    `decaying` has standard deviations 1/1, 1/2, ..., 1/m along random orthogonal axes.
    `clustered` is 50 tight groups, so that neighbours of a pivot stop mattering at once.
    """
    rng = np.random.default_rng(case.seed)
    X = rng.standard_normal((case.n, case.m))
    if case.kind == "decaying":
        axes = np.linalg.qr(rng.standard_normal((case.m, case.m)))[0]
        X = (X / np.arange(1, case.m + 1)) @ axes
    elif case.kind == "clustered":
        centres = rng.standard_normal((50, case.m))
        X *= 0.1
        X += centres[rng.integers(50, size=case.n)]
    return X
