"""Algorithm 1 on rows in memory, with the compiled products of `_native`.

The same arithmetic as `_factors.Orthonormal`, and the same results. Rows are multiplied where
they lie, each with the directions it has not seen yet, in one call whatever rows they are.

Rows of float32 are first multiplied in float32. Once many residuals are too small for that, the
basis is made again in float64, and every product and sum is from then on in float64, of the same
rows: half the bytes are read, and no digits are lost.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from isopivot import _native
from isopivot._arrays import Array, Rows, Vector, take_rows
from isopivot._buffer import RowBuffer
from isopivot._factors import Orthonormal, VectorSource, inner, less_combined, orthonormalised

WIDEN = 1 / 16  # part of the rows whose residuals float32 has lost, before it is given up
SPARE = 0.05  # part of X that may be copied of the basis
WORTH = 0.6  # part of a panel that was in the one before, so that its products are kept
_CHUNK = 64  # pivots that are orthogonalised together when the basis is made again


class Compiled(Orthonormal):
    """An explicit orthonormal basis; coordinates in lines until they are released."""

    def __init__(self, points: VectorSource, capacity: int = 0) -> None:
        super().__init__(points, capacity)
        self.wide = points.eps < 1e-10  # whether products are summed in float64
        self._lost = 0
        self._products: tuple[Rows, Vector] = (np.empty(0, dtype=np.intp), np.empty((0, 0)))

    def _coordinate_buffer(self, points: VectorSource, capacity: int) -> Any:
        return _native.Lines(points.n, points.X.dtype, capacity)

    def refresh(self, rows: Rows, stop2: float) -> None:
        """Bring `rows` up to the current directions, none blurred."""
        self._advance_in_place(rows)
        lost = self._unsettled(rows, stop2, stale=False)
        self._lost += len(lost)
        if not self.wide and self._lost > WIDEN * self.n:
            self._widen(stop2)
        else:
            self.recompute(lost)

    def refresh_all(self, stop2: float) -> None:
        """Bring every row up to the current directions."""
        self.refresh(np.arange(self.n), stop2)

    def release(self) -> tuple[Array | None, Array]:
        """Return Q and F; the coordinates of the pivots made exactly triangular."""
        Q, F = super().release()
        return np.asarray(Q, dtype=self.points.X.dtype), F

    def _fresh(self, rows: Rows | slice) -> Array:
        return self._F.of(rows)

    def _vectors(self, rows: Rows) -> Array:
        return _centred(self.points, rows, self.Q.dtype)

    def _difference(self, rows: Rows) -> Vector:
        G = self._products_of(rows)
        self._products = (rows, G.copy())
        F = self._fresh(rows)
        _native.combine(F, F, G, -1)
        return G

    def _products_of(self, rows: Rows) -> Vector:
        """Return the Gram matrix of points; most of them were in the last panel, too."""
        before, G_before = self._products
        at = np.minimum(np.searchsorted(before, rows), max(0, len(before) - 1))
        known = before[at] == rows if len(before) else np.zeros(len(rows), dtype=bool)
        if known.sum() < WORTH * len(rows):
            return _native.gram(self.points.X, rows, self.points.mean, wide=self.wide)
        Y = self._vectors(rows[~known])
        shift = None if self.points.mean is None else inner(Y, self._mean())[:, 0]
        fresh = np.empty((len(rows), len(Y)), dtype=self.points.X.dtype)
        X, B, where = self.points.X, _native.pack(Y), _native.columns_of(fresh)
        _native.multiply(X, rows, B, where, len(Y), shift=shift, scatter=False)
        G = np.empty((len(rows), len(rows)))
        G[np.ix_(known, known)] = G_before[np.ix_(at[known], at[known])]
        G[:, ~known] = fresh
        G[~known, :] = fresh.T
        return G

    def _mean(self) -> Array:
        return np.asarray(self.points.mean, dtype=self.Q.dtype)[None, :]

    def _advance_in_place(self, rows: Rows) -> None:
        """Project `rows`, each on what it has not seen yet."""
        rows = rows[self.stage[rows] < self.s]
        if len(rows) == 0:
            return
        # Directions are copied to be multiplied with, so many at a time. Most rows lack only the
        # last ones, and are read once.
        first, most = int(self.stage[rows].min()), max(48, int(SPARE * self.n))
        for stop in reversed(range(self.s, first, -most)):
            self._advance_until(rows, stop)
        self.residual2[self.pivots] = 0.0
        self.rows_read += len(rows)

    def _advance_until(self, rows: Rows, stop: int) -> None:
        # Rows that have seen as much are multiplied together.
        rows, seen, stages = _native.by_stage(rows, self.stage, stop)
        B, directions, begins = self._packed(stages, stop)
        shift = None if self.points.mean is None else self._shift(directions)
        where, starts = self._F.places(directions), begins[seen - seen[0]]
        options = {"shift": shift, "starts": starts}
        captured2 = _native.multiply(self.points.X, rows, B, where, self._F.lanes, **options)
        known = (self.residual2, self.slack2, self.stage)
        _native.downdate(rows, captured2, self._unit, stop, *known)

    def _packed(self, stages: Rows, stop: int) -> tuple[Any, Rows, Any]:
        """Return directions from the first stage on, packed; which they are; where they begin.

        Those that rows begin with stand at the beginning of a vector: -1 fills up.
        """
        lanes = 64 // self.Q.dtype.itemsize
        parts, begins, at = [], np.zeros(stop - stages[0], dtype=np.int32), 0
        for start, end in zip(stages, [*stages[1:], stop], strict=True):
            padding = -(end - start) % lanes if end < stop else 0
            parts += [np.arange(start, end), np.full(padding, -1)]
            begins[start - stages[0]] = at
            at += end - start + padding
        directions = np.concatenate(parts).astype(np.intp)
        return _native.pack(self.Q, directions), directions, begins

    def _shift(self, directions: Rows) -> Vector:
        """Return what the mean has of each direction."""
        first = directions[0]
        seen = np.append(inner(self.Q[first:], self._mean())[:, 0], 0.0)
        return np.asarray(seen[np.where(directions < 0, -1, directions - first)])

    def _widen(self, stop2: float) -> None:
        """Go on in float64: the basis, and all residuals, once again."""
        points, s = self.points, self.s
        Q, entered = _orthonormal_rows(points, self.pivots)
        # Each pivot had a residual above the floor of float32, far above that of float64: this
        # cannot happen, and must not go unnoticed if it does.
        if len(entered) < s:  # pragma: no cover
            raise ArithmeticError("a pivot lies in the span of others: please report this as a bug")
        self.wide = True
        self._Q = RowBuffer(lambda k: np.zeros((k, points.m)), 0)
        self._Q.grow(s)
        self._Q.put(0, slice(None), Q)
        self.pivot_residuals = entered
        self._unit = self._rounding(float(np.finfo(np.float64).eps))
        self.residual2, self.slack2 = points.norms2.copy(), self._unit * points.reach
        self.stage[:] = 0
        self.refresh_all(stop2)


def _centred(points: VectorSource, rows: Rows, dtype: Any) -> Array:
    """Return a copy of the (centred) rows; differences are formed in the format asked for."""
    Y = take_rows(points.X, rows).astype(dtype, copy=False)
    if points.mean is not None:
        Y -= points.mean
    return Y


def _orthonormal_rows(points: VectorSource, pivots: Rows) -> tuple[Vector, Vector]:
    """Return the basis that the pivots give in their order, and R_jj, in float64."""
    Q, entered = np.zeros((0, points.m)), np.empty(0)
    for lo in range(0, len(pivots), _CHUNK):
        Y = _centred(points, pivots[lo : lo + _CHUNK], np.dtype(np.float64))
        E = less_combined(Y, inner(Q, Y), Q)
        new, residuals = orthonormalised(E, Q, 0.0)
        Q, entered = np.concatenate([Q, new]), np.concatenate([entered, residuals])
    return Q, entered
