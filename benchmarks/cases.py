"""The data sets of the benchmark: seeded, so that every run and every process sees the same."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

Kind = Literal["noise", "decaying", "clustered", "diffusion"]


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
    Case("square-diffusion", 3_000, 3_000, 1_232, "diffusion"),
    Case("wide-noise", 2_000, 20_000, 200, "noise"),
)
QUICK = (Case("quick-noise", 800, 60, 18, "noise"),)


def data(case: Case) -> np.ndarray:
    """The points of a case, (n, m) float64, C-ordered.

    `noise` is white: no direction is better than another, the worst case for any reduction.
    `decaying` has standard deviations 1/1, 1/2, ..., 1/m along random orthogonal axes.
    `clustered` is 50 tight groups, so that neighbours of a pivot stop mattering at once.
    `diffusion` is the diffusion geometry of a Swiss roll (epsilon 3, noise 0.05), whose
    s is what mu = 0.1 needs.
    """
    rng = np.random.default_rng(case.seed)
    if case.kind == "diffusion":
        return swiss_roll_geometry(case.n)
    X = rng.standard_normal((case.n, case.m))
    if case.kind == "decaying":
        axes = np.linalg.qr(rng.standard_normal((case.m, case.m)))[0]
        X = (X / np.arange(1, case.m + 1)) @ axes
    elif case.kind == "clustered":
        centres = rng.standard_normal((50, case.m))
        X *= 0.1
        X += centres[rng.integers(50, size=case.n)]
    return X


def swiss_roll_geometry(n: int) -> np.ndarray:
    """The points whose distances are the diffusion distances of a Swiss roll, (n, n)."""
    from sklearn.datasets import make_swiss_roll

    from isopivot.diffusion import dense_geometry
    from isopivot.kernels import make_kernel

    roll = make_swiss_roll(n, noise=0.05, random_state=0)[0]
    K = make_kernel("rbf", 3.0, None, 3).matrix(roll, roll)
    return np.ascontiguousarray(dense_geometry(K, 1, 0.0)[1])
