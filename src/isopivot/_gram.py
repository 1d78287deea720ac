"""Gram: sources that give inner products only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from isopivot import _native
from isopivot._arrays import Rows, Vector, row_blocks, times_power_of_two, to_numpy
from isopivot._points import Points, SparsePoints
from isopivot.kernels import CallableKernel, Kernel, norms2_of

DENSE_BYTES = 1 << 21  # of sparse rows that are made dense for a moment


class LinearGram:
    """Inner products of (centred) points; for sparse rows too wide for an explicit basis."""

    evaluations: int | None = None

    def __init__(self, points: Points) -> None:
        self._points = points
        self.n = points.n
        self.norms2 = points.norms2
        self.largest = points.largest
        self.roundings = points.m
        X = points.X
        # Rows that can be multiplied where they lie; else there are copies of a few kinds.
        self._in_place = sparse.issparse(X) and not points.exponent and _native.sparse_available(X)
        self.row_bytes = 0 if self._in_place else 4 * points.stored_bytes
        self.data_bytes = points.data_bytes
        self._of_mean, self._mean2 = _mean_products(points)
        self.shifted = self._of_mean is not None

    def block(self, left: Rows, right: Rows | slice) -> Vector:
        """Return the inner products of two sets of points, shape (len(left), len(right))."""
        U = self._products(left, right)
        if self._of_mean is None:
            return U
        # The shift is applied to the products: rows need not be copied to be centred.
        U -= self._of_mean[left][:, None]
        U += (self._mean2 - self._of_mean[right])[None, :]
        return U

    def _products(self, left: Rows, right: Rows | slice) -> Vector:
        """Return the inner products of uncentred points."""
        if self._in_place:
            return _native.sparse_products(self._points.X, left, right)
        others = self._raw(right)
        U = np.empty((len(left), others.shape[0]))
        for part in row_blocks(len(left), 8 * self._points.m, DENSE_BYTES):
            # Sparse times dense is faster than sparse times sparse.
            few = self._raw(left[part]).T
            dense = few.toarray(order="C") if sparse.issparse(few) else np.ascontiguousarray(few)
            U[part] = np.asarray(others @ dense).T
        return U

    def _raw(self, rows: Rows | slice) -> Any:
        block = self._points.raw(rows)
        if isinstance(self._points, SparsePoints):
            return block.astype(np.float64, copy=False)
        return to_numpy(block).astype(np.float64, copy=False)


def _mean_products(points: Points) -> tuple[Vector | None, float]:
    """Return the inner product of each point with the mean, and the mean's squared norm."""
    if points.mean is None:
        return None, 0.0
    mean = to_numpy(points.mean).astype(np.float64)
    return points.times_mean(), float(mean @ mean)


class KernelGram:
    """Inner products of points in a kernel's feature space; entries only as asked for.

    Attributes
    ----------
    evaluations : int
        Kernel entries evaluated so far.
    """

    shifted = False

    def __init__(self, X: Any, kernel: Kernel, frame: Frame) -> None:
        self._X, self._kernel, self._frame = X, kernel, frame
        self.n, m = X.shape
        self.row_bytes = 16 * m  # a copy, and another while it is measured
        self.data_bytes = 8 * self.n * m
        self.evaluations: int | None = 0
        self.smallest = np.inf  # of all entries evaluated so far
        parts, largest2 = [], 0.0
        for rows in row_blocks(self.n, self.row_bytes):
            block = frame.of(X[rows])
            parts.append(self._checked(kernel.diagonal(block)))
            largest2 = max(largest2, float(norms2_of(block).max(initial=0.0)))
        self.norms2 = np.concatenate(parts)
        if (self.norms2 == self.norms2[0]).all():  # one number stands for all
            self.norms2 = np.broadcast_to(self.norms2[0], self.n)
        self._check_diagonal()
        self.largest = float(np.sqrt(self.norms2.max()))
        roundings = kernel.roundings(m, largest2)
        if not roundings < 1.0 / np.finfo(np.float64).eps:
            raise ValueError(
                "got an epsilon so small beside the squared norms of the points that kernel "
                "entries have no correct digit; allowed are epsilon above 1e-15 of the largest; "
                "use a larger epsilon or remove outliers"
            )
        self.roundings = round(roundings)
        if isinstance(kernel, CallableKernel):
            self._check_sample()

    def block(self, left: Rows, right: Rows | slice) -> Vector:
        """Return the kernel between two sets of points, shape (len(left), len(right))."""
        A, B = self._frame.of(self._X[left]), self._frame.of(self._X[right])
        return self._checked(self._kernel.matrix(A, B))

    def _checked(self, K: Vector) -> Vector:
        self.evaluations = (self.evaluations or 0) + K.size
        least, most = float(K.min(initial=np.inf)), float(K.max(initial=-np.inf))
        self.smallest = min(self.smallest, least)
        if not (K.size == 0 or np.isfinite([least, most]).all()):  # either is NaN if any is
            raise ValueError(
                "got NaN or infinity from the kernel; allowed are finite values; rescale the "
                "data or mend the kernel"
            )
        return K

    def _check_sample(self) -> None:
        """Raise for a user's function that a few rows already show to be no kernel."""
        rows = np.arange(min(self.n, 32))
        K, k = self.block(rows, rows), self.norms2[rows]
        rounding = self.roundings * 64 * np.finfo(np.float64).eps * max(self.largest**2, 1e-300)
        if np.abs(K - K.T).max() > rounding:
            raise ValueError(
                "got a callable kernel that is not symmetric: k(x, y) and k(y, x) differ by "
                f"{np.abs(K - K.T).max():.3g}; allowed are symmetric kernels; mend the callable"
            )
        if (np.abs(K) - np.sqrt(k[:, None] * k[None, :])).max() > rounding:
            raise ValueError(
                "the kernel is not positive semi-definite: some |k(x, y)| exceeds "
                "sqrt(k(x, x) k(y, y)); use a positive semi-definite kernel"
            )

    def _check_diagonal(self) -> None:
        if self.norms2.min() < 0.0:
            raise ValueError(
                f"the kernel is not positive semi-definite: k(x, x) = {self.norms2.min():.3g} "
                f"for row {int(self.norms2.argmin())}; use a positive semi-definite kernel"
            )


class PrecomputedGram:
    """Inner products read from a matrix that is already there."""

    evaluations: int | None = 0
    shifted = False

    def __init__(self, K: Any) -> None:
        self._K = K
        self.smallest = np.inf  # of all entries read so far
        self.n = K.shape[0]
        self.row_bytes = 0
        self.data_bytes = 8 * self.n * self.n
        check_symmetric(K)
        self.norms2 = np.array(K.diagonal(), dtype=np.float64)
        if self.norms2.min() < 0.0:
            raise ValueError(
                f"the kernel matrix is not positive semi-definite: its diagonal holds "
                f"{self.norms2.min():.3g}; pass a positive semi-definite matrix"
            )
        self.largest = float(np.sqrt(self.norms2.max()))
        # Entries were rounded once to the format they are stored in.
        self.roundings = round(10.0 * np.finfo(K.dtype).eps / np.finfo(np.float64).eps)

    def block(self, left: Rows, right: Rows | slice) -> Vector:
        """Return the stored entries, shape (len(left), len(right))."""
        columns = np.arange(self.n)[right] if isinstance(right, slice) else right
        K = np.asarray(self._K[np.ix_(left, columns)], dtype=np.float64)
        self.smallest = min(self.smallest, float(K.min(initial=np.inf)))
        return K


def check_symmetric(K: Any) -> None:
    """Raise unless `K` is square and symmetric up to rounding; block by block."""
    n, m = K.shape
    if n != m:
        raise ValueError(
            f"got a precomputed kernel of shape {K.shape}; allowed is a square matrix of the "
            "training points against themselves; pass k(X, X)"
        )
    lengths = np.sqrt(np.maximum(K.diagonal(), 0.0)).astype(np.float64)
    tolerance = 100.0 * float(np.finfo(K.dtype).eps) * float(np.abs(K.diagonal()).max())
    for rows in row_blocks(n, 8 * n):
        excess = (np.abs(K[rows]) - lengths[rows, None] * lengths[None, :]).max()
        if K.diagonal().min() >= 0.0 and excess > tolerance:
            raise ValueError(
                "the kernel matrix is not positive semi-definite: some |k(x, y)| exceeds "
                "sqrt(k(x, x) k(y, y)); pass a positive semi-definite matrix"
            )
        gap = np.abs(K[rows] - K[:, rows].T).max()
        if gap > tolerance:
            raise ValueError(
                f"got a precomputed kernel that is not symmetric (entries differ by {gap:.3g}); "
                "allowed is a symmetric matrix; pass (K + K.T) / 2 if that is what you mean"
            )


@dataclass(frozen=True, eq=False)
class Frame:
    """How points are measured before a kernel sees them: origin and unit.

    Translation-invariant kernels subtract the training mean, because distances by inner
    products lose digits far from the origin.
    """

    mean: Vector | None
    exponent: int

    def of(self, X: Any) -> Any:
        """Return rows in this frame, in float64."""
        wide = times_power_of_two(X.astype(np.float64), -self.exponent)
        if self.mean is None:
            return wide
        if sparse.issparse(wide):  # asked with sparse rows, fitted on dense ones
            wide = wide.toarray()
        wide -= times_power_of_two(self.mean, -self.exponent)
        # Beyond this every radial kernel is 0, and squares must not overflow.
        return np.clip(wide, -_FAR, _FAR, out=wide)


_FAR = 1e140
