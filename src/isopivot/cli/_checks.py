"""Is a promise true? Distances measured, and compared with what bounds them.

What "distance" means depends on the model: of the prepared rows (ICPQR), of their images
(KernelICPQR), of their random walks (DiffusionICPQR).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from isopivot import KernelICPQR, actual_distortion
from isopivot._arrays import Rows, Vector, row_blocks, times_power_of_two
from isopivot.certificate import distances
from isopivot.estimators import DiffusionICPQR
from isopivot.report._rows import is_training

BLOCK = 512  # rows against rows
MOST_NUMBERS = 1 << 24  # in what is searched again for the worst pair
# Rows whose pairs are all measured; beyond, the oddest of them and others by lot.
MOST_KERNEL, MOST_DIFFUSION = 20_000, 3_000

Progress = Callable[[int, int], object]


@dataclass(frozen=True)
class Check:
    """What was measured on some rows, and what was promised about them.

    Parameters
    ----------
    actual : float
        Largest change of a distance.
    bound : float
        What it must not exceed.
    own_bound : bool
        Whether `bound` comes from the rates of these rows; else it is the certificate's.
    rounding : float
        What both may be off by.
    model_bound : float
        Bound of the certificate, for the rows that were fitted.
    beyond : int
        Rows farther from the dictionary than the model's mu.
    measured : int
        Rows whose pairs were all measured.
    pair : tuple of int, or None
        The worst pair, where it was found.
    """

    actual: float
    bound: float
    own_bound: bool
    rounding: float
    model_bound: float
    beyond: int
    measured: int
    pair: tuple[int, int] | None

    @property
    def holds(self) -> bool:
        """Whether the bound is true."""
        return self.actual <= self.bound + self.rounding

    @property
    def model_holds(self) -> bool:
        """Whether what the model promises of the rows it was fitted to is true of these."""
        return self.actual <= self.model_bound + self.rounding


def check(estimator: Any, X: Any, progress: Progress) -> Check:
    """Measure how much distances between rows of `X` change, and compare with the promise."""
    F, r, slack = estimator._measured(X)
    certificate = estimator.certificate_
    training = is_training(estimator, X, np.asarray(estimator.distortion_rate(X)))
    rounding = 2.0 * float(slack.max())
    rows = chosen_rows(r, most_rows(estimator))
    kernel = isinstance(estimator, KernelICPQR)
    if kernel:
        rounding += kernel_rounding(estimator, X)
        actual, pair = worst_of_kernel(estimator, take(X, rows), F[rows], r[rows], progress)
    else:
        V = vectors(estimator, take(X, rows))
        actual = actual_distortion(V, F[rows], r[rows], progress=progress)
        pair = worst_of_vectors(V, F[rows], r[rows], actual, rounding)
    return Check(
        actual=actual,
        bound=float(certificate.distortion_bound) if training else two_largest(r + slack),
        own_bound=not training,
        rounding=rounding,
        model_bound=float(certificate.distortion_bound),
        beyond=int((r > certificate.mu + rounding).sum()),
        measured=len(rows),
        pair=None if pair is None else (int(rows[pair[0]]), int(rows[pair[1]])),
    )


def two_largest(values: Vector) -> float:
    """Return the sum of the two largest values."""
    return float(np.sort(values)[-2:].sum())


def most_rows(estimator: Any) -> int | None:
    """Return how many rows have all their pairs measured; None for any number."""
    if isinstance(estimator, DiffusionICPQR):
        return MOST_DIFFUSION
    return MOST_KERNEL if isinstance(estimator, KernelICPQR) else None


def chosen_rows(r: Vector, most: int | None) -> Rows:
    """Return all rows, or the tenth of largest residual and others by lot."""
    if most is None or len(r) <= most:
        return np.arange(len(r))
    order = np.argsort(-r, kind="stable")
    top = most // 10
    others = np.random.default_rng(0).permutation(order[top:])[: most - top]
    return np.sort(np.concatenate([order[:top], others]))


def take(X: Any, rows: Rows) -> Any:
    """Return some rows of a matrix or a frame."""
    return X.iloc[rows] if hasattr(X, "iloc") else X[rows, :]


def vectors(estimator: Any, X: Any) -> Any:
    """Return vectors whose distances are the ones that the model keeps."""
    if not isinstance(estimator, DiffusionICPQR):
        return X if sparse.issparse(X) else np.asarray(X)
    walk = estimator._extension.walk
    return np.concatenate([Z for Z, _, _ in walk.blocks(estimator._validated(X))])


# -- the worst pair -----------------------------------------------------------------------


def worst_pair(
    true: Callable[[Rows, Rows], Vector], F: Vector, r: Vector, slack: float, progress: Progress
) -> tuple[float, tuple[int, int] | None]:
    """Return the largest |d - e| and its pair; d - e <= r_i + r_j rules blocks out."""
    order = np.argsort(-r, kind="stable")
    blocks = [order[block] for block in row_blocks(len(r), 1, BLOCK)]
    found, pair = 0.0, None
    for done, left in enumerate(blocks):
        for right in blocks[done:]:
            if pair is not None and r[left[0]] + r[right[0]] + slack <= found:
                break
            change = np.abs(true(left, right) - distances(F[left], F[right]))
            change[left[:, None] == right[None, :]] = -1.0
            i, j = np.unravel_index(int(change.argmax()), change.shape)
            if change[i, j] > found or (pair is None and change[i, j] >= 0.0):
                found, pair = float(change[i, j]), (int(left[i]), int(right[j]))
        progress(done + 1, len(blocks))
    return found, pair


def worst_of_vectors(
    V: Any, F: Vector, r: Vector, actual: float, slack: float
) -> tuple[int, int] | None:
    """Return the pair that changed so much, among the rows whose residuals allow it."""
    able = np.flatnonzero(r + r.max() + 2.0 * slack >= actual)
    if len(able) * max(len(able), V.shape[1]) > MOST_NUMBERS:
        return None
    some = V[able].toarray() if sparse.issparse(V) else V[able]
    some = np.asarray(some, dtype=np.float64)

    def true(left: Rows, right: Rows) -> Vector:
        return distances(some[left], some[right])

    _, pair = worst_pair(true, F[able], r[able], slack, lambda done, most: None)
    return None if pair is None else (int(able[pair[0]]), int(able[pair[1]]))


def worst_of_kernel(
    estimator: Any, X: Any, F: Vector, r: Vector, progress: Progress
) -> tuple[float, tuple[int, int] | None]:
    """Return the largest change of a distance in feature space, and its pair."""
    kernel, unit = estimator._kernel, estimator._unit()
    Y = estimator._frame.of(estimator._validated(X))
    k_xx = kernel.diagonal(Y)

    def true(left: Rows, right: Rows) -> Vector:
        K = kernel.matrix(Y[left], Y[right])
        d2 = k_xx[left][:, None] + k_xx[right][None, :] - 2.0 * K
        return np.asarray(times_power_of_two(np.sqrt(np.maximum(d2, 0.0)), unit))

    return worst_pair(true, F, r, kernel_rounding(estimator, X), progress)


def kernel_rounding(estimator: Any, X: Any) -> float:
    """Return what a distance in feature space may be off by: it comes from a difference."""
    k_xx = estimator._kernel.diagonal(estimator._frame.of(estimator._validated(X)))
    eps = float(np.finfo(np.float64).eps)
    d2 = 4.0 * (2.0 + estimator._roundings) * eps * float(k_xx.max())
    return float(times_power_of_two(np.sqrt(d2), estimator._unit()))
