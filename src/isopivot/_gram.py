"""Gram: sources that give inner products only."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from isopivot._arrays import Rows, Vector, row_blocks, to_numpy
from isopivot._points import Points, SparsePoints


class LinearGram:
    """Inner products of (centred) points; for sparse rows too wide for an explicit basis."""

    def __init__(self, points: Points) -> None:
        self._points = points
        self.n = points.n
        self.norms2 = points.norms2
        self.largest = points.largest
        self.roundings = points.m
        self._mean = None if points.mean is None else to_numpy(points.mean).astype(np.float64)

    def block(self, left: Rows, right: Rows | slice) -> Vector:
        """Return the inner products of two sets of points, shape (len(left), len(right))."""
        return linear_products(self._raw(left), self._raw(right), self._mean)

    def _raw(self, rows: Rows | slice) -> Any:
        block = self._points.raw(rows)
        if isinstance(self._points, SparsePoints):
            return block.astype(np.float64, copy=False)
        return to_numpy(block).astype(np.float64, copy=False)


def linear_products(left: Any, right: Any, mean: Vector | None) -> Vector:
    """Return `(left - mean) @ (right - mean).T` without centring either side."""
    U = np.empty((left.shape[0], right.shape[0]))
    for rows in row_blocks(left.shape[0], 8 * left.shape[1]):
        # Sparse times dense is faster than sparse times sparse; a few dense rows at a time.
        part = left[rows].toarray() if sparse.issparse(left) else left[rows]
        U[rows] = (right @ np.ascontiguousarray(part.T)).T
    if mean is None:
        return U
    shift: Vector = mean @ mean - (left @ mean)[:, None] - (right @ mean)[None, :]
    return np.asarray(U + shift)
