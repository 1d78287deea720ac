"""Points: the rows of a matrix in memory, dense or sparse, as a source of vectors.

Rows of `X` (n x m) are points; the paper's A is `X.T`. The source never copies X: it shifts
rows by the mean and divides them by a power of two while it hands out blocks of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from isopivot import _native
from isopivot._arrays import (
    Array,
    Rows,
    Vector,
    binary_exponent,
    eps_of,
    like,
    namespace,
    row_blocks,
    take_rows,
    times_power_of_two,
    to_numpy,
    zeros,
)
from isopivot._validation import assert_finite

Selection = Rows | slice


class Points:
    """Dense rows of any array namespace.

    Parameters
    ----------
    X : array of shape (n, m), float32 or float64
    center : bool
        Whether points are measured from their mean instead of the origin.

    Attributes
    ----------
    exponent : int
        Everything below is in units of 2**exponent (0 unless squares would overflow).
    mean : array of shape (m,) or None
    norms2 : (n,) float64
        Squared norms of the (centred) points.
    reach : (n,) float64
        Norms that rounding errors are relative to: uncentred, plus that of the mean.
    largest : float
        Largest uncentred norm, the M of every accuracy floor.
    """

    def __init__(self, X: Array, *, center: bool) -> None:
        self.X = X
        self.xp = namespace(X)
        self.n, self.m = (int(k) for k in X.shape)
        self.eps = eps_of(X)
        self.exponent = 0
        self._buffer = np.empty((0, self.m))
        raw2, total = self._read_once()
        if not self._safe(raw2):
            if isinstance(X, np.ndarray):  # no other reading may have looked for them
                assert_finite(X)
            self.exponent = binary_exponent(self._largest_entry(), self.eps)
            raw2, total = self._read_once()
        self.largest = float(np.sqrt(raw2.max()))
        self.mean: Array | None = like(total / self.n, X, dtype=X.dtype) if center else None
        self.norms2 = self._centred_norms2(raw2) if center else raw2
        # Rows that can be gathered as they are, without scaling.
        self._plain = isinstance(X, np.ndarray) and X.flags.c_contiguous and not self.exponent
        # Rows that can be multiplied where they lie.
        self.in_place = _native.available(X) and not self.exponent
        offset = 0.0 if self.mean is None else float(np.linalg.norm(to_numpy(self.mean)))
        self.reach: Vector = np.sqrt(raw2) + offset

    # -- what the factors ask for ---------------------------------------------------------

    def vectors(self, rows: Selection) -> Array:
        """Return the (centred) rows, dense; a copy unless they are a slice."""
        block = self._dense(self.raw(rows))
        if self.mean is None:
            return block
        if isinstance(block, np.ndarray) and not isinstance(rows, slice):
            block -= self.mean  # a fresh copy: no second one
            return block
        return block - self.mean

    def project(self, rows: Selection, V: Array) -> Array:
        """Return `V @ vectors(rows).T`, shape (k, len(rows)), without centring the rows."""
        C = self._times(V, rows)
        # The shift is applied to the k x b product: rows need not be copied to be centred.
        return C if self.mean is None else C - (V @ self.mean)[:, None]

    def gram(self, rows: Rows) -> Vector:
        """Return the inner products of the rows, in float64."""
        Y = self.vectors(rows)
        return to_numpy(Y @ Y.T).astype(np.float64, copy=False)

    def zeros(self, n_rows: int, n_columns: int) -> Array:
        """Return a zero matrix in the namespace, dtype and device of the points."""
        return zeros((n_rows, n_columns), self.X)

    @property
    def row_bytes(self) -> int:
        """Bytes of one dense row, which sets the size of blocks."""
        return self.m * (4 if self.eps > 1e-10 else 8)

    @property
    def stored_bytes(self) -> int:
        """Bytes of one row as it is stored."""
        return self.row_bytes

    @property
    def data_bytes(self) -> int:
        """Bytes of all rows as they are stored."""
        return self.n * self.stored_bytes

    def times_mean(self) -> Vector:
        """Return the inner products of the uncentred rows with the mean, in float64."""
        return np.concatenate([self._times_mean(rows) for rows in self._blocks()])

    # -- reading --------------------------------------------------------------------------

    def raw(self, rows: Selection) -> Array:
        """Return the rows as given, up to the power of two."""
        block = self.X[rows, :] if isinstance(rows, slice) else take_rows(self.X, rows)
        return times_power_of_two(block, -self.exponent)

    def _dense(self, block: Array) -> Array:
        return block

    def _times(self, V: Array, rows: Selection) -> Array:
        if isinstance(rows, slice) or not self._plain:
            return V @ self.raw(rows).T
        return V @ self._gathered(rows).T

    def _gathered(self, rows: Rows) -> Array:
        """Return the rows in a buffer that the next call overwrites.

        A new block for every call would be mapped and unmapped each time, and touching
        fresh pages costs as much as the product.
        """
        if len(self._buffer) < len(rows):
            self._buffer = np.empty((len(rows), self.m), dtype=self.X.dtype)
        return np.take(self.X, rows, axis=0, out=self._buffer[: len(rows)], mode="clip")

    def _norms2(self, block: Array) -> Vector:
        # float32 sums of squares would lose digits that the floor does not account for.
        wide = self.xp.astype(block, self.xp.float64, copy=False)
        return np.asarray(to_numpy(self.xp.vecdot(wide, wide)))

    def _sum(self, block: Array) -> Vector:
        ones = self.xp.ones_like(block[:, 0])
        return to_numpy(ones @ block).astype(np.float64)

    def _blocks(self) -> Any:
        return row_blocks(self.n, self.row_bytes)

    def _read_once(self) -> tuple[Vector, Vector]:
        """Return squared uncentred norms and the sum of the rows, in one pass."""
        if not self.exponent and _native.available(self.X):
            return _native.read_once(self.X)
        raw2, total = np.empty(self.n), np.zeros(self.m)
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            for rows in self._blocks():
                block = self.raw(rows)
                raw2[rows] = self._norms2(block)
                total += self._sum(block)
        return raw2, total

    def _safe(self, raw2: Vector) -> bool:
        limit = 2.0**50 if self.eps > 1e-10 else 2.0**600
        return 1.0 / limit < float(raw2.max()) < limit

    def _largest_entry(self) -> float:
        return max(float(self.xp.max(self.xp.abs(self.X[rows, :]))) for rows in self._blocks())

    def _centred_norms2(self, raw2: Vector) -> Vector:
        """Return squared norms of the centred points; explicitly where terms would cancel."""
        mean = to_numpy(self.mean).astype(np.float64)
        if not self.exponent and _native.available(self.X):
            norms2 = _native.norms2(self.X, mean)
        else:
            norms2 = self._expanded_norms2(raw2, mean)
        # Identical rows differ from their rounded mean by rounding alone.
        norms2[norms2 <= (10 * self.eps * self.largest) ** 2] = 0.0
        return norms2

    def _expanded_norms2(self, raw2: Vector, mean: Vector) -> Vector:
        norms2: Vector = raw2 - 2.0 * self.times_mean() + mean @ mean
        near = np.flatnonzero(norms2 < 0.25 * raw2)
        for block in row_blocks(len(near), self.row_bytes):
            norms2[near[block]] = self._norms2(self.vectors(near[block]))
        return norms2

    def _times_mean(self, rows: Selection) -> Vector:
        wide = self.xp.astype(self.raw(rows), self.xp.float64, copy=False)
        mean = self.xp.astype(self.mean, self.xp.float64)
        return np.asarray(to_numpy(wide @ mean))


class SparsePoints(Points):
    """Rows of a `scipy.sparse` CSR matrix; centring stays implicit, nothing is densified."""

    def gram(self, rows: Rows) -> Vector:
        S = self.raw(rows).astype(np.float64)
        G = np.asarray((S @ S.T).todense())
        if self.mean is None:
            return G
        mean = self.mean.astype(np.float64)
        cross = S @ mean
        return np.asarray(G - cross[:, None] - cross[None, :] + mean @ mean)

    def _dense(self, block: Any) -> Array:
        return block.toarray()

    def _times(self, V: Array, rows: Selection) -> Array:
        return (self.raw(rows) @ np.ascontiguousarray(V.T)).T

    def _norms2(self, block: Any) -> Vector:
        if not sparse.issparse(block):
            return super()._norms2(block)
        return np.asarray(block.astype(np.float64).power(2).sum(axis=1)).ravel()

    def _sum(self, block: Any) -> Vector:
        return np.asarray(block.astype(np.float64).sum(axis=0)).ravel()

    @property
    def stored_bytes(self) -> int:
        """Bytes of one row as it is stored, on average."""
        return max(1, int(self.X.data.nbytes + self.X.indices.nbytes) // self.n)

    def _blocks(self) -> Any:
        return row_blocks(self.n, self.stored_bytes)

    def _largest_entry(self) -> float:
        return float(np.abs(self.X.data).max()) if self.X.nnz else 0.0

    def _times_mean(self, rows: Selection) -> Vector:
        assert self.mean is not None
        return np.asarray(self.raw(rows) @ self.mean.astype(np.float64))


def as_points(X: Any, *, center: bool) -> Points:
    """Return the source for `X` by its type."""
    return (SparsePoints if sparse.issparse(X) else Points)(X, center=center)
