"""Inner products of residuals that are carried from panel to panel.

Most rows of a panel were in the one before. Of the residuals of those, the inner products are
known up to the directions that came since: a few terms each. Only what involves the other rows
is computed as the products of the points less those of all their coordinates.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from isopivot import _native
from isopivot._algebra import inner
from isopivot._arrays import Array, Rows, Vector, take_rows
from isopivot._factors import VectorSource
from isopivot._native import LINE, Lines

WORTH = 0.6  # part of a panel that was in the one before, so that its products are used


class Carried:
    """Coordinates and inner products of the residuals of the rows of one panel.

    Row i of the panel has its coordinates in `F[slots[i]]`: rows that stay keep their place.
    """

    def __init__(self, points: VectorSource, *, wide: bool) -> None:
        self.points, self.wide = points, wide
        self.rows: Rows = np.empty(0, dtype=np.intp)
        self.slots: Rows = np.empty(0, dtype=np.intp)
        self.G = np.empty((0, 0))
        self.F = np.empty((0, 0))
        self.s = 0

    def advance(self, rows: Rows, lines: Lines) -> Vector:
        """Return the inner products of the residuals of `rows`, which are the panel from now on.

        They are in increasing order and up to date; `lines` has their coordinates.
        """
        at = self._places(rows)
        if (at < 0).sum() > (1.0 - WORTH) * len(rows):
            at[:] = -1
        self._take_slots(rows, at, lines)
        F = self.F[:, : lines.size]
        new = np.flatnonzero(at < 0)
        if len(new) == len(rows):
            G = _native.gram(self.points.X, rows, self.points.mean, wide=self.wide)
            G -= _native.gram(F, self.slots, wide=False)
        else:
            G = self.G.take(at, axis=0).take(at, axis=1)
            G -= _native.gram(F[:, self.s :], self.slots, wide=False)
            fresh = self._products(rows, new).astype(np.float64, copy=False)
            fresh -= _native.against(F, self.slots, _native.pack(F, self.slots[new]))
            G[new, :], G[:, new] = fresh, fresh.T
        self.rows, self.G, self.s = rows, G, lines.size
        return G

    def _products(self, rows: Rows, new: Rows) -> Array:
        """Return the inner products of new points with all of the panel."""
        X, mean = self.points.X, self.points.mean
        wide = np.dtype(np.float64) if self.wide else X.dtype
        if mean is None and X.dtype == wide:
            return _native.against(X, rows, _native.pack(X, rows[new]))
        Y = centred(self.points, rows[new], wide)
        shift = None if mean is None else inner(Y, mean.astype(wide)[None, :])[:, 0]
        return _native.against(X, rows, _native.pack(Y), shift)

    def coordinates(self, rows: Rows) -> Vector:
        """Return the coordinates (s, k) of some rows of the panel."""
        slots = self.slots[np.searchsorted(self.rows, rows)]
        return self.F[slots, : self.s].T

    def _places(self, rows: Rows) -> Rows:
        """Return where rows were in the panel before, -1 for those that were not."""
        if len(self.rows) == 0:
            return np.full(len(rows), -1)
        at = np.minimum(np.searchsorted(self.rows, rows), len(self.rows) - 1)
        return np.where(self.rows[at] == rows, at, -1)

    def _take_slots(self, rows: Rows, at: Rows, lines: Lines) -> None:
        """Give new rows the places of those that left; bring all coordinates up to date."""
        self._reserve(len(rows), lines)
        stays = at >= 0
        free = np.ones(len(self.F), dtype=bool)
        slots = np.empty(len(rows), dtype=np.intp)
        slots[stays] = self.slots[at[stays]]
        free[slots[stays]] = False
        slots[~stays] = np.flatnonzero(free)[: len(rows) - int(stays.sum())]
        lines.gather(rows[stays], self.s, self.F, slots[stays])
        lines.gather(rows[~stays], 0, self.F, slots[~stays])
        self.slots = slots

    def _reserve(self, count: int, lines: Lines) -> None:
        wide = -(-lines.size // LINE) * LINE
        if count > self.F.shape[0] or wide > self.F.shape[1]:
            F = self.F
            shape = (max(count, len(F)), max(wide + wide // 8, F.shape[1]))
            self.F = np.zeros(shape)
            self.F[: len(F), : F.shape[1]] = F


def centred(points: VectorSource, rows: Rows, dtype: Any) -> Array:
    """Return a copy of the (centred) rows; differences are formed in the format asked for."""
    Y = take_rows(points.X, rows).astype(dtype, copy=False)
    if points.mean is not None:
        Y -= points.mean
    return Y
