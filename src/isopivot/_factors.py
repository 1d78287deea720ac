"""The two arithmetics under the greedy loop, and what comes out of it.

Legend (the paper's symbols; rows of X are points, the paper's A is X.T):

    Q        (s, m)  orthonormal rows spanning the dictionary; the paper's Q is `Q.T`
    F        (s, n)  coordinates: column i is the paper's F_s(a_i), column i of R-bar
    T        (s, s)  coordinates of the pivots, lower triangular; the paper's R(:, pi([s])).T
    residual2[i]     squared norm of what the dictionary misses of point i

Residuals only ever shrink, so a point need not be looked at each time the basis grows: it
keeps the `stage` (number of directions) its residual was last brought up to, and its stale
`residual2` is an upper bound. `refresh` brings chosen points up to date. Every pair of a
point and a direction is counted exactly once, as part of one matrix product.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from isopivot import _native
from isopivot._algebra import (
    gram_of,
    inner,
    less_combined,
    orthonormalised,
    relative_floor,
    with_triangular_pivots,
)
from isopivot._arrays import (
    BLOCK_BYTES,
    Array,
    Rows,
    Vector,
    like,
    namespace,
    row_blocks,
    take_rows,
    to_numpy,
)
from isopivot._buffer import RowBuffer
from isopivot.certificate import Certificate, Route

# A panel's Gram matrix, as a difference, has lost digits once its largest squared residual is
# below this part of its largest squared norm.
EXPLICIT_BELOW = 1.0 / 16.0
# Part of the largest squared residual of a panel that its Gram matrix may be wrong by.
CLEAR = 2.0**-20
# Pairs (point, direction, feature) below which explicit residuals of all points are free.
FREE_WORK = 1 << 27
_NO_PANEL: tuple[Any, Any] = (np.empty(0, dtype=np.intp), None)


@dataclass(frozen=True, eq=False)
class Factorization:
    """What was learnt from a set of points: dictionary, coordinates, residuals, promise.

    Attributes
    ----------
    pivots : ndarray of shape (s,)
        Row numbers of the dictionary, in the order of their choice.
    coordinates : array of shape (n, s)
        The embedding: row i holds the coordinates of point i.
    residuals : array of shape (n,)
        Norm of what the dictionary misses of each point.
    pivot_residuals : array of shape (s,)
        Residual at which each pivot entered (the paper's R_jj).
    basis : array of shape (s, m) or None
        Orthonormal rows spanning the dictionary; None when only inner products were used.
    mean : array of shape (m,) or None
        What was subtracted from every point.
    certificate : Certificate
        What is promised about every pairwise distance.
    triangle : ndarray of shape (s, s) or None
        Coordinates of the pivots, lower triangular, in float64; None where there is a basis.
    """

    pivots: Any
    coordinates: Array
    residuals: Array
    pivot_residuals: Array
    basis: Array | None
    mean: Array | None
    certificate: Certificate
    triangle: Vector | None = None


class VectorSource(Protocol):
    """Vectors: what the orthonormal arithmetic needs (`_points.Points`)."""

    n: int
    m: int
    eps: float
    largest: float
    norms2: Vector
    reach: Vector
    X: Array
    mean: Array | None

    @property
    def row_bytes(self) -> int: ...
    @property
    def data_bytes(self) -> int: ...
    def vectors(self, rows: Rows | slice) -> Array: ...
    def project(self, rows: Rows | slice, V: Array) -> Array: ...
    def gram(self, rows: Rows) -> Vector: ...
    def zeros(self, n_rows: int, n_columns: int) -> Array: ...


class Factor(ABC):
    """Coordinates and residuals of all points, brought up to date on demand."""

    picked = 0.45  # part of the points up to which it is better to refresh chosen ones
    listed = 1.0  # part of the points of which a list may be made

    # Rounding that residual2 may hide, 0 where it was computed explicitly; None: not kept.
    slack2: Vector | None = None

    def __init__(self, norms2: Vector, F: Any) -> None:
        self.n = len(norms2)
        self.residual2 = norms2.copy()
        self.stage = np.zeros(self.n, dtype=np.int32)
        self.pivots: Rows = np.empty(0, dtype=np.intp)
        self.pivot_residuals: Vector = np.empty(0)
        self.rows_read = self.n
        self._F = F

    @property
    def s(self) -> int:
        """Number of directions so far."""
        return len(self.pivots)

    @property
    def coordinates(self) -> Array:
        """Coordinates (s, n) of all points, once every one is up to date."""
        return self._F.filled

    @property
    def upper2(self) -> Vector:
        """Upper bounds of all squared residuals, stale ones included."""
        return self.residual2.copy() if self.slack2 is None else self.residual2 + self.slack2

    def behind(self, rows: Rows) -> Rows:
        """Return those of `rows` whose residual is stale."""
        if _native.ready():
            return _native.behind(rows, self.stage, self.s)
        return rows[self.stage[rows] < self.s]

    def settle(self, rows: Rows, stop2: float) -> bool:
        """Measure those of fresh `rows` that are too blurred to decide on; return if any was."""
        return False

    def refresh(self, rows: Rows, stop2: float) -> None:
        """Bring `rows` (in increasing order) up to the current directions."""
        stages = self.stage[rows]
        for stage in np.flatnonzero(np.bincount(stages)):
            if stage < self.s:
                self._advance(rows[stages == stage], int(stage))

    def refresh_all(self, stop2: float) -> None:
        """Bring every row up to the current directions."""
        self.refresh(np.arange(self.n), stop2)

    def prefers_all(self, count: int) -> bool:
        """Return whether to refresh all rows is better than to refresh `count` chosen ones."""
        return count > self.picked * self.n

    def _advance(self, rows: Rows, start: int) -> None:
        """Project `rows` on the directions from `start` on; downdate their residuals."""
        for block in self._blocks(len(rows), start):
            part = _as_range(rows[block])
            captured2 = np.zeros(block.stop - block.start)
            for some in self._groups(start):
                captured2 += self._project(part, some)
            self._downdate(part, captured2)
        self.stage[rows] = self.s
        self.residual2[self.pivots] = 0.0
        self.rows_read += len(rows)

    @abstractmethod
    def _blocks(self, n_rows: int, start: int) -> Iterator[slice]:
        """Yield blocks of rows, to be projected on the directions from `start` on."""

    def _groups(self, start: int) -> list[slice]:
        """Return the directions from `start` on, as many at a time as rows are projected on."""
        return [slice(start, self.s)]

    def _downdate(self, part: Rows | slice, captured2: Vector) -> None:
        self.residual2[part] = np.maximum(self.residual2[part] - captured2, 0.0)

    def _admit(self, pivots: Rows, residuals: Vector) -> None:
        self.pivots = np.concatenate([self.pivots, pivots])
        self.pivot_residuals = np.concatenate([self.pivot_residuals, residuals])
        self.residual2[pivots] = 0.0
        self._F.grow(len(pivots))

    @abstractmethod
    def _project(self, part: Rows | slice, some: slice) -> Vector:
        """Compute the coordinates of some rows on some directions; return their squares' sums.

        Coordinates on earlier directions are there.
        """


class Orthonormal(Factor):
    """Algorithm 1: an explicit orthonormal basis Q, each direction measured to be orthogonal."""

    route: Route = "orthonormal"
    kernel_evaluations: int | None = None

    def __init__(self, points: VectorSource, capacity: int = 0) -> None:
        super().__init__(points.norms2, RowBuffer(lambda k: points.zeros(k, points.n), capacity))
        self.points = points
        # A small part of the data, unless that would be too little to multiply at once.
        self._block_bytes = min(BLOCK_BYTES, max(points.data_bytes // 32, BLOCK_BYTES // 2))
        self._Q = RowBuffer(lambda k: points.zeros(k, points.m), capacity)
        self._panel: tuple[Rows, Array] = _NO_PANEL
        self._rounding = rounding_of(points.m, points.eps)
        self._unit = self._rounding * points.reach
        self.slack2: Vector = self._unit * points.reach

    @property
    def floor(self) -> float:
        """Rounding that residuals, coordinates and distances may carry."""
        points = self.points
        return relative_floor("orthonormal", self.s, points.m, points.eps) * points.largest

    @property
    def largest(self) -> float:
        """Largest norm of a point, uncentred."""
        return self.points.largest

    @property
    def Q(self) -> Array:
        """The basis so far, as rows."""
        return self._Q.filled

    def _fresh(self, rows: Rows | slice) -> Array:
        """Return the coordinates (s, len(rows)) of rows that are up to date."""
        F = self._F.filled
        if isinstance(rows, slice):
            return F[:, rows]
        return namespace(F).take(F, like(rows, F), axis=1)

    def _blocks(self, n_rows: int, start: int) -> Iterator[slice]:
        return self._blocks_with(n_rows, self.s - start)

    def _blocks_with(self, n_rows: int, numbers: int) -> Iterator[slice]:
        """Yield blocks of rows, each with so many numbers beside it."""
        row_bytes = max(self.points.row_bytes, 8 * numbers)
        return row_blocks(n_rows, row_bytes, self._block_bytes)

    def residual_vectors(self, rows: Rows) -> Array:
        """Return what the current directions miss of fresh `rows`, as vectors."""
        return less_combined(self.points.vectors(rows), self._fresh(rows), self.Q)

    def recompute(self, rows: Rows) -> None:
        """Measure the residuals of fresh `rows` explicitly (errata 15)."""
        # Beside the vectors, in float64, lie copies of them and of their coordinates.
        for block in self._blocks_with(len(rows), 2 * self.points.m + self.s):
            E = self.residual_vectors(rows[block])
            E = less_combined(E, inner(self.Q, E), self.Q)
            self._set_exact(rows[block], squared_norms(E))

    def gram(self, rows: Rows, *, exact: bool = False) -> tuple[Vector, float]:
        """Return the Gram matrix of the residuals of fresh `rows`, and how wrong it may be.

        That is 0 where it is as good as what the tie window allows for: of explicit residuals,
        and as a difference that has not lost many digits.
        """
        blur2 = None if exact else self._blur2(rows)
        if blur2 is not None:
            return self._difference(rows), blur2
        G = self._explicit(rows)
        self._set_exact(rows, np.diagonal(G))
        return G, 0.0

    def _blur2(self, rows: Rows) -> float | None:
        """Return how wrong a difference of Gram matrices may be; None if that is too much."""
        largest2, reach2 = self.residual2[rows].max(), self.points.reach[rows].max() ** 2
        if largest2 >= EXPLICIT_BELOW * reach2:
            return 0.0
        blur2 = float(self._rounding * reach2)
        return blur2 if blur2 <= CLEAR * largest2 else None

    def _difference(self, rows: Rows) -> Vector:
        """Return the Gram matrix of residuals as that of the points less that of coordinates."""
        F = to_numpy(self._fresh(rows)).astype(np.float64, copy=False)
        return np.asarray(self.points.gram(rows) - F.T @ F)

    def _explicit(self, rows: Rows) -> Vector:
        """Return the Gram matrix of residuals from their vectors, which are kept."""
        E = self.residual_vectors(rows)
        self._panel = (rows, E)
        return gram_of(E)

    def extend(self, pivots: Rows, stop2: float) -> int:
        """Add the residual directions of fresh `pivots`; return how many were admitted.

        Each is tested before it is admitted (errata 3), by its explicit residual R_jj.
        """
        E = self._residuals_of(pivots)
        new, entered = orthonormalised(E, self.Q, stop2)
        k = len(entered)
        if k == 0:  # then nothing was written over E
            self._set_exact(pivots[:1], np.minimum(squared_norms(E[:1, :]), stop2))
            return 0
        self._Q.grow(k)
        self._Q.put(self.s, slice(None), new)
        self._admit(pivots[:k], entered)
        self.slack2[pivots[:k]] = 0.0
        return k

    def settle(self, rows: Rows, stop2: float) -> bool:
        """Measure those of fresh `rows` that are too blurred to decide on; return if any was.

        Not if `gram` will measure all of them.
        """
        if len(rows) == 0 or self._blur2(rows) is None:
            return False
        lost = self._blurred(rows, stop2, 0.0)
        self.recompute(lost)
        return len(lost) > 0

    def _residuals_of(self, pivots: Rows) -> Array:
        """Return the residual vectors of pivots, from the panel where it had to make them."""
        rows, E = self._panel
        self._panel = _NO_PANEL
        if len(rows) == 0:
            return self.residual_vectors(pivots)
        return take_rows(E, np.searchsorted(rows, pivots))

    def refresh(self, rows: Rows, stop2: float) -> None:
        """Bring `rows` (in increasing order) up to the current directions, none blurred."""
        super().refresh(rows, stop2)
        self.recompute(self._blurred(rows, stop2, self.floor))

    def refresh_all(self, stop2: float) -> None:
        """Bring every row up to the current directions, reading all of them in order.

        That is cheaper than picking out many, and coordinates that are computed early are
        not lost. Rows that lag far behind the others are brought along first, one by one.
        """
        start = int(np.quantile(self.stage, 0.1, method="lower"))
        missing = float((self.s - self.stage).sum())
        if self.n * (self.s - start) > 1.3 * missing:  # too much would be computed twice
            self.refresh(np.arange(self.n), stop2)
            return
        self.refresh(np.flatnonzero(self.stage < start), stop2)
        for block in self._blocks(self.n, start):
            self._advance_block(block)
        self.residual2[self.pivots] = 0.0
        self.rows_read += self.n
        self.recompute(self._blurred(np.arange(self.n), stop2, self.floor))

    def _advance_block(self, block: slice) -> None:
        stage = self.stage[block]
        start = int(stage.min())
        if start == self.s:
            return
        C = self._coordinates(block, slice(start, self.s))
        self._F.put(start, block, C)
        C2 = to_numpy(C).astype(np.float64, copy=False) ** 2
        if stage.max() > start:  # a row that was ahead has had its first directions counted
            C2[np.arange(start, self.s)[:, None] < stage[None, :]] = 0.0
        late = np.flatnonzero(stage < self.s) + block.start
        self._downdate(late, C2.sum(axis=0)[late - block.start])
        self.stage[block] = self.s

    def _project(self, part: Rows | slice, some: slice) -> Vector:
        C = self._coordinates(part, some)
        self._F.put(some.start, part, C)
        return squared_columns(to_numpy(C).astype(np.float64, copy=False))

    def _coordinates(self, part: Rows | slice, some: slice) -> Array:
        return self.points.project(part, self.Q[some, :])

    def _downdate(self, part: Rows | slice, captured2: Vector) -> None:
        exact = self.slack2[part] == 0.0
        blur2 = self._unit[part] * np.sqrt(self.residual2[part])
        self.slack2[part] = np.where(exact, blur2, self.slack2[part])
        super()._downdate(part, captured2)

    def _set_exact(self, rows: Rows, residual2: Vector) -> None:
        self.residual2[rows] = residual2
        self.slack2[rows] = 0.0
        self.residual2[self.pivots] = 0.0

    def _blurred(self, rows: Rows, stop2: float, error: float) -> Rows:
        """Return those of fresh `rows` that hide too much rounding.

        That is if they cannot be told from the residual that suffices; or if they may be wrong by
        more than `error`, and by more than half the root of eps of themselves, and measuring them
        makes that eight times smaller at least.
        """
        root_eps = math.sqrt(self.points.eps)
        if _native.ready():
            known = (self.residual2, self.slack2, self._unit, self.stage)
            return _native.blurred(rows, *known, self.s, (stop2, root_eps, error))
        fresh = rows[self.stage[rows] == self.s]
        residual2, slack2 = self.residual2[fresh], self.slack2[fresh]
        residual = np.sqrt(residual2)
        lost = slack2 > root_eps * residual2
        lost &= slack2 > 8.0 * self._unit[fresh] * residual
        lost &= slack2 > error * (2.0 * residual - error)
        near_stop = np.abs(residual2 - stop2) <= slack2
        return np.asarray(fresh[(slack2 > 0) & (lost | near_stop)])

    def finish(self, stop2: float) -> None:
        """Bring every point up to date and make the largest residuals exact."""
        self.refresh_all(stop2)
        self._make_largest_exact()

    def _make_largest_exact(self) -> None:
        if self.n * self.points.m * self.s <= FREE_WORK:
            blurred = self.slack2 > 0
        else:
            # The certificate reads the two largest residuals: settle all who may be one.
            lower2 = self.residual2 - self.slack2
            lower2.partition(max(0, self.n - 2))
            second = lower2[max(0, self.n - 2)]
            blurred = (self.slack2 > 0) & (self.upper2 >= second)
        self.recompute(np.flatnonzero(blurred))

    def release(self) -> tuple[Array | None, Array, Vector | None]:
        """Return Q and F, the coordinates of the pivots made exactly triangular, and no T."""
        Q, F = self._Q.release(), self._F.release()
        return Q, with_triangular_pivots(F, self.pivots), None


def rounding_of(m: int, eps: float) -> float:
    """Return the rounding of a downdated squared residual, per reach and last explicit norm."""
    return (8.0 + 4.0 * math.sqrt(m)) * eps


def squared_columns(C: Vector) -> Vector:
    """Return the squared norms of columns."""
    return np.asarray(np.einsum("ij,ij->j", C, C))


def squared_norms(E: Array) -> Vector:
    """Return the squared norms of rows, in float64."""
    xp = namespace(E)
    wide = xp.astype(E, xp.float64, copy=False)
    return to_numpy(xp.vecdot(wide, wide))


def _as_range(rows: Rows) -> Rows | slice:
    """Return consecutive rows as a slice, which reads them without a copy."""
    first, last = int(rows[0]), int(rows[-1])
    return slice(first, last + 1) if last - first + 1 == len(rows) else rows
