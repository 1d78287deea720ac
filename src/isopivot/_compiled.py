"""Algorithm 1 on rows in memory, with the compiled products of `_native`.

The same arithmetic as `_factors.Orthonormal`, and the same results. Rows are multiplied where
they lie, each with the directions it has not seen yet, in one call whatever rows they are.

Rows of float32 are first multiplied in float32. Residuals that became too small for differences
are then formed explicitly, which is good for some more directions. Once that has taken as much
as it would have in float64, the basis is made again in float64, and every product and sum is from
then on in float64, of the same rows: half the bytes are read, and no digits are lost.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from isopivot import _native
from isopivot._algebra import inner, less_combined, orthonormalised
from isopivot._arrays import Array, Rows, Vector
from isopivot._buffer import RowBuffer
from isopivot._carried import Carried, centred
from isopivot._factors import Orthonormal, VectorSource

RUN = 16  # terms of float32 that are summed before they are added up; `rows.inc` has it, too
SPARE = 0.042  # part of X that may be copied of the basis
FEW = 16  # blurred rows below which they are left for later: measuring them takes as long
_CHUNK = 64  # pivots that are orthogonalised together when the basis is made again


class Compiled(Orthonormal):
    """An explicit orthonormal basis; coordinates in lines until they are released."""

    def __init__(self, points: VectorSource, capacity: int = 0) -> None:
        super().__init__(points, capacity)
        self.wide = points.eps < 1e-10  # whether products are summed in float64
        self._spent = 0  # pairs (row, direction) of explicit residuals
        self._carried = Carried(points, wide=self.wide)
        self._of_mean = np.empty(0)  # what the mean has of each direction

    def _coordinate_buffer(self, points: VectorSource, capacity: int) -> Any:
        return _native.Lines(points.n, points.X.dtype, capacity)

    def _basis_buffer(self, points: VectorSource, capacity: int) -> RowBuffer:
        # Zeros would be new pages, or written; memory that was given back is neither.
        return RowBuffer(lambda k: np.empty((k, points.m), dtype=points.X.dtype), capacity)

    def refresh(self, rows: Rows, stop2: float) -> None:
        """Bring `rows` up to the current directions, few of them blurred.

        A panel settles its own, and `finish` the others.
        """
        blurred = self._advance_in_place(rows, stop2)
        if len(blurred) >= FEW:
            self._measure(np.sort(blurred), stop2)

    def _measure(self, rows: Rows, stop2: float) -> None:
        self._spent += len(rows) * self.s
        if not self.wide and self._spent > 2 * self.n * self.s:
            self._widen(stop2)
        else:
            self.recompute(rows)

    def recompute(self, rows: Rows) -> None:
        """Measure the residuals of fresh `rows` explicitly (errata 15)."""
        points = self.points
        if len(rows) and self.Q.dtype == points.X.dtype:
            known = self._everything
            rows = self._F.measure(points.X, rows, points.mean, self.Q, known, self.floor)
        super().recompute(rows)

    def _rounding_of(self, eps: float) -> float:
        if eps < 1e-10:
            return super()._rounding_of(eps)
        # Sums of float32, of even and odd features apart: of terms, of such sums, and of as many
        # groups of these as they have sums.
        m = self.points.m
        runs = math.ceil(math.sqrt(m / (2 * RUN)))
        terms = (RUN + runs + m / (2 * RUN * runs) + 1.0) / 4.0
        return (8.0 + 2.0 * min(terms, 2.0 * math.sqrt(m))) * eps

    def refresh_all(self, stop2: float) -> None:
        """Bring every row up to the current directions."""
        self.refresh(np.arange(self.n), stop2)

    def finish(self, stop2: float) -> None:
        """Bring every point up to date, none blurred, and make the largest residuals exact."""
        self._advance_in_place(np.arange(self.n), stop2)
        self._measure(self._blurred(np.arange(self.n), stop2, self.floor), stop2)
        self._make_largest_exact()

    def release(self) -> tuple[Array | None, Array, Vector | None]:
        """Return Q and F, the coordinates of the pivots made exactly triangular, and no T."""
        self._carried = Carried(self.points, wide=self.wide)
        self.slack2 = self._unit = np.empty(0)  # their room is needed now
        self._everything = self._know()
        Q, F, _ = super().release()
        return np.asarray(Q, dtype=self.points.X.dtype), F, None

    def _fresh(self, rows: Rows | slice) -> Array:
        return self._F.of(rows)

    def residual_vectors(self, rows: Rows) -> Array:
        """Return what the current directions miss of fresh `rows`, as vectors."""
        points = self.points
        if self.Q.dtype != points.X.dtype:
            return super().residual_vectors(rows)
        E = np.empty((len(rows), points.m), dtype=self.Q.dtype)
        self._F.residuals2(points.X, rows, points.mean, self.Q, E)
        return E

    def _vectors(self, rows: Rows) -> Array:
        return centred(self.points, rows, self.Q.dtype)

    def _difference(self, rows: Rows) -> Vector:
        return self._carried.advance(rows, self._F)

    def _residuals_of(self, pivots: Rows) -> Array:
        if len(self._panel[0]):  # they were made
            return super()._residuals_of(pivots)
        C = self._carried.coordinates(pivots)
        return less_combined(self._vectors(pivots), C, self.Q)

    def _advance_in_place(self, rows: Rows, stop2: float) -> Rows:
        """Project `rows`, each on what it has not seen yet; return those that are blurred then."""
        # Directions are copied to be multiplied with, so many at a time.
        most = max(48, int(SPARE * self.n))
        given = (self.points.X, self.Q, rows, self._known(stop2, self.floor), most)
        blurred: Rows
        blurred, late = self._F.advance(*given, self._shift())
        self.rows_read += late
        if late:
            self.residual2[self.pivots] = 0.0
        return blurred

    def _shift(self) -> Vector | None:
        """Return what the mean has of each direction; None without a mean."""
        if self.points.mean is None:
            return None
        mean = np.asarray(self.points.mean, dtype=self.Q.dtype)
        new = inner(self.Q[len(self._of_mean) :], mean[None, :])[:, 0]
        self._of_mean = np.append(self._of_mean, new).astype(self.Q.dtype, copy=False)
        return self._of_mean

    def _widen(self, stop2: float) -> None:
        """Go on in float64: the basis, and all residuals, once again."""
        points, s = self.points, self.s
        Q, entered = _orthonormal_rows(points, self.pivots)
        # Each pivot had a residual above the floor of float32, far above that of float64: this
        # cannot happen, and must not go unnoticed if it does.
        if len(entered) < s:  # pragma: no cover
            raise ArithmeticError("a pivot lies in the span of others: please report this as a bug")
        self.wide = True
        self._carried, self._of_mean = Carried(points, wide=True), np.empty(0)
        self._Q = RowBuffer(lambda k: np.zeros((k, points.m)), 0)
        self._Q.grow(s)
        self._Q.put(0, slice(None), Q)
        self.pivot_residuals = entered
        self._rounding = self._rounding_of(float(np.finfo(np.float64).eps))
        self._unit = self._rounding * points.reach
        self._stored_eps = points.eps
        self.residual2, self.slack2 = points.norms2.copy(), self._unit * points.reach
        self._everything = self._know()
        self.stage[:] = 0
        self.recompute(np.sort(self._advance_in_place(np.arange(self.n), stop2)))


def _orthonormal_rows(points: VectorSource, pivots: Rows) -> tuple[Vector, Vector]:
    """Return the basis that the pivots give in their order, and R_jj, in float64."""
    Q, entered = np.zeros((0, points.m)), np.empty(0)
    for lo in range(0, len(pivots), _CHUNK):
        Y = centred(points, pivots[lo : lo + _CHUNK], np.dtype(np.float64))
        E = less_combined(Y, inner(Q, Y), Q)
        new, residuals = orthonormalised(E, Q, 0.0)
        Q, entered = np.concatenate([Q, new]), np.concatenate([entered, residuals])
    return Q, entered
