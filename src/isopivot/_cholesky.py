"""Algorithm 2: the greedy factorization from inner products alone, without a basis.

Legend: see `_factors`. U are inner products of pivots (rows) with points (columns).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np
from scipy.linalg import solve_triangular

from isopivot._algebra import (
    add_product,
    leading_cholesky,
    less_combined,
    relative_floor,
    solved,
    with_triangular_pivots,
)
from isopivot._arrays import BLOCK_BYTES, Array, Rows, Vector, row_blocks
from isopivot._buffer import RowBuffer
from isopivot._factors import Factor, squared_columns
from isopivot.certificate import Route

GROUP = 64  # directions whose coordinates are computed, or copied, together
MANY = 1 << 13  # points whose numbers are looked at together


class GramSource(Protocol):
    """Inner products only: what the Cholesky arithmetic needs (`_gram`)."""

    n: int
    norms2: Vector
    largest: float
    roundings: int
    row_bytes: int  # what a point takes beside its inner products while those are computed
    data_bytes: int
    shifted: bool  # whether a mean was subtracted from the inner products, not from the points

    @property
    def evaluations(self) -> int | None: ...
    def block(self, left: Rows, right: Rows | slice) -> Vector: ...


class Cholesky(Factor):
    """Algorithm 2: no Q, inner products only; always in float64.

    A pivoted Cholesky factorization of the Gram matrix (errata 1, 4, 7). What cancels in
    `u_ii - sum R^2` cannot be recomputed without vectors, so the floor is of order
    sqrt(eps).

    What the dictionary misses of a point is the point less a weighted sum of pivots. The rounding
    of a mean that was subtracted from inner products is common to all of them, and does not
    cancel: it counts with the square of 1 less the sum of the weights (`_share`, of each point).
    """

    route: Route = "cholesky"
    picked = 0.1  # of chosen points, the earlier coordinates have to be gathered
    listed = 0.1

    def __init__(self, source: GramSource, capacity: int = 0) -> None:
        F = RowBuffer(lambda k: np.zeros((k, source.n)), capacity)
        super().__init__(source.norms2, F)
        self.source = source
        # A small part of the data, unless that would be too little to multiply at once.
        self._block_bytes = min(BLOCK_BYTES, max(source.data_bytes // 32, BLOCK_BYTES // 16))
        self._R = np.zeros((capacity, capacity))
        self._inverses: dict[tuple[int, int], Vector] = {}
        self._share = np.ones(source.n if source.shifted else 0)
        self._ones = np.empty(0)  # T^-1 1
        self._spread = 1.0  # the largest share there was

    @property
    def R(self) -> Vector:
        """Coordinates of the pivots, one per column, as sums of rows are quick to read."""
        return self._R[: self.s, : self.s]

    @property
    def T(self) -> Vector:
        """Coordinates of the pivots, one per row: lower triangular."""
        return self.R.T

    @property
    def floor(self) -> float:
        """Rounding that residuals, coordinates and distances may carry."""
        source, eps = self.source, float(np.finfo(np.float64).eps)
        relative = relative_floor("cholesky", self.s, source.roundings, eps)
        return relative * self._spread * source.largest

    @property
    def largest(self) -> float:
        """Largest norm of a point, uncentred."""
        return self.source.largest

    @property
    def kernel_evaluations(self) -> int | None:
        """Kernel entries evaluated so far; None for inner products of vectors."""
        return self.source.evaluations

    def gram(self, rows: Rows, *, exact: bool = False) -> tuple[Vector, float]:
        """Return the Gram matrix of the residuals of fresh `rows`; there is no better one."""
        return self._gram(rows), 0.0

    def _gram(self, rows: Rows) -> Vector:
        U = self.source.block(rows, rows)
        for some in _groups(0, self.s):
            F = self._gathered(some, rows)
            U = less_combined(U, F, F)
        return U

    def extend(self, pivots: Rows, stop2: float) -> int:
        """Add the residual directions of fresh `pivots`; return how many were admitted."""
        L = leading_cholesky(self._gram(pivots), stop2)
        k = len(L)
        if k == 0:
            self.residual2[pivots[0]] = min(self.residual2[pivots[0]], stop2)
            return 0
        s, wide = self.s, self.s + k
        if wide > len(self._R):
            larger = np.zeros((wide + wide // 8, wide + wide // 8))
            larger[:s, :s] = self.R
            self._R = larger
        for some in _groups(0, s):
            self._R[some, s:wide] = self._gathered(some, pivots[:k])
        self._R[s:wide, s:wide] = L.T
        if self.source.shifted:
            new = solve_triangular(L, self._share[pivots[:k]], lower=True)
            self._ones = np.concatenate([self._ones, new])
        self._admit(pivots[:k], np.diagonal(L).copy())
        return k

    def prefers_all(self, count: int) -> bool:
        """Return whether to refresh all points is better than to refresh `count` chosen ones.

        Nothing is computed twice either way, so it is once enough directions are missing.
        """
        sample = self.stage[:: max(1, self.n // 1024)]
        return super().prefers_all(count) or self.s - float(np.median(sample)) >= GROUP // 2

    def refresh_all(self, stop2: float) -> None:
        """Bring every point up to the current directions, many at a time."""
        for start in range(0, self.n, MANY):
            self.refresh(np.arange(start, min(start + MANY, self.n)), stop2)
        self._inverses.clear()

    def finish(self, stop2: float) -> None:
        """Bring every point up to date."""
        self.refresh_all(stop2)

    def release(self) -> tuple[Array | None, Array, Vector | None]:
        """Return no Q; F, with the coordinates of the pivots made exactly triangular; and T."""
        T = np.ascontiguousarray(self.R)
        for j in range(len(T)):  # transposed where it lies
            T[j + 1 :, j], T[j, j + 1 :] = T[j, j + 1 :], 0.0
        return None, with_triangular_pivots(self._F.release(), self.pivots), T

    def _blocks(self, n_rows: int, start: int) -> Iterator[slice]:
        row_bytes = self.source.row_bytes + 8 * min(GROUP, self.s - start)
        return row_blocks(n_rows, row_bytes, self._block_bytes)

    def _groups(self, start: int) -> list[slice]:
        return _groups(start, self.s)

    def _gathered(self, some: slice, rows: Rows) -> Vector:
        """Return the coordinates of chosen points on some directions, as a copy."""
        return np.asarray(np.take(self._F.filled[some], rows, axis=1))

    def _project(self, part: Rows | slice, some: slice) -> Vector:
        # Eq. q_less_r_ij for many points and some directions at once.
        U, before = self.source.block(self.pivots[some], part), self.R[: some.start, some]
        if isinstance(part, slice):
            U = less_combined(U, before, self._F.filled[: some.start, part])
            C = self._F.filled[some, part]
            add_product(C, self._inverse(some), U)  # they were 0
        else:
            for earlier in _groups(0, some.start):
                U = less_combined(U, before[earlier], self._gathered(earlier, part))
            C = solved(self._inverse(some).T, U)
            self._F.put(some.start, part, C)
        if self.source.shifted:
            self._share[part] -= self._ones[some] @ C
            self._spread = max(self._spread, float(np.abs(self._share[part]).max()))
        return squared_columns(C)

    def _inverse(self, some: slice) -> Vector:
        """Return the inverse of a diagonal block of R, kept until all points are up to date."""
        key = (some.start, some.stop)
        if key not in self._inverses:
            self._inverses[key] = np.ascontiguousarray(np.linalg.inv(self.R[some, some]))
        return self._inverses[key]

    def _downdate(self, part: Rows | slice, captured2: Vector) -> None:
        before2 = self.residual2[part]
        left2 = np.where(before2 > 0.0, before2 - captured2, 0.0)  # 0: pivots, duplicates
        given = self.source.evaluations is not None  # inner products of vectors cannot be wrong
        if given and left2.min() < -64.0 * self.floor**2:
            raise ValueError(
                f"the kernel is not positive semi-definite: a squared residual of "
                f"{left2.min():.3g} was found, allowed is rounding above "
                f"{-64.0 * self.floor**2:.3g}; use a positive semi-definite kernel"
            )
        self.residual2[part] = np.maximum(left2, 0.0)


def _groups(start: int, stop: int) -> list[slice]:
    """Return directions, a few at a time; most groups are the same wherever one starts."""
    ends = [*range(start - start % GROUP + GROUP, stop, GROUP), stop]
    return [slice(lo, hi) for lo, hi in zip([start, *ends], ends, strict=False) if lo < hi]
