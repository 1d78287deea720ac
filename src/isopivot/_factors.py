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
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from isopivot import _native
from isopivot._arrays import (
    BLOCK_BYTES,
    Array,
    Rows,
    Vector,
    like,
    namespace,
    put_columns,
    row_blocks,
    take_rows,
    to_numpy,
)
from isopivot._buffer import RowBuffer
from isopivot.certificate import Certificate, Route

# A panel's Gram matrix, as a difference, has lost digits once its largest squared residual is
# below this part of its largest squared norm.
EXPLICIT_BELOW = 1.0 / 16.0
# Corrections of unit vectors below this are formed in float32: what is lost of them, their part
# 2^-20 or less, is far below eps.
SHORT = 2.0**-38
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


class GramSource(Protocol):
    """Inner products only: what the Cholesky arithmetic needs (`_gram`)."""

    n: int
    norms2: Vector
    largest: float
    roundings: int
    row_bytes: int
    data_bytes: int

    @property
    def evaluations(self) -> int | None: ...
    def block(self, left: Rows, right: Rows | slice) -> Vector: ...


class Factor:
    """Coordinates and residuals of all points, brought up to date on demand."""

    picked = 0.45  # part of the points up to which it is better to refresh chosen ones

    def __init__(self, norms2: Vector, F: Any, row_bytes: int, data_bytes: int) -> None:
        n = len(norms2)
        self.n = n
        self.residual2 = norms2.copy()
        # Rounding that residual2 may hide; 0 where it was computed explicitly.
        self.slack2 = np.zeros(n)
        self.stage = np.zeros(n, dtype=np.int32)
        self.pivots: Rows = np.empty(0, dtype=np.intp)
        self.pivot_residuals: Vector = np.empty(0)
        self.rows_read = n
        self._F = F
        self._row_bytes = row_bytes
        # A small part of the data, unless that would be too little to multiply at once.
        self._block_bytes = min(BLOCK_BYTES, max(data_bytes // 32, BLOCK_BYTES // 2))

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
        return self.residual2 + self.slack2

    def behind(self, rows: Rows, stop2: float) -> Rows:
        """Return those of `rows` whose residual is stale or too blurred to decide on."""
        return rows[self.stage[rows] < self.s]

    def refresh(self, rows: Rows, stop2: float) -> None:
        """Bring `rows` (in increasing order) up to the current directions."""
        stages = self.stage[rows]
        for stage in np.flatnonzero(np.bincount(stages)):
            if stage < self.s:
                self._advance(rows[stages == stage], int(stage))

    def refresh_all(self, stop2: float) -> None:
        """Bring every row up to the current directions."""
        self.refresh(np.arange(self.n), stop2)

    def _advance(self, rows: Rows, start: int) -> None:
        """Project `rows` on the directions from `start` on; downdate their residuals."""
        for block in self._blocks(len(rows), self._numbers(rows, start)):
            part = _as_range(rows[block])
            C = self._coordinates(part, start)
            self._F.put(start, part, C)
            C = to_numpy(C).astype(np.float64, copy=False)
            self._downdate(part, np.einsum("ij,ij->j", C, C))
        self.stage[rows] = self.s
        self.residual2[self.pivots] = 0.0
        self.rows_read += len(rows)

    def _blocks(self, n_rows: int, numbers: int = 0) -> Iterator[slice]:
        """Yield blocks of rows, each with so many numbers beside it."""
        return row_blocks(n_rows, max(self._row_bytes, 8 * numbers), self._block_bytes)

    def _numbers(self, rows: Rows, start: int) -> int:
        """Return how many numbers per row its coordinates from `start` on take to compute."""
        return self.s - start

    def _downdate(self, part: Rows | slice, captured2: Vector) -> None:
        self.residual2[part] = np.maximum(self.residual2[part] - captured2, 0.0)

    def _admit(self, pivots: Rows, residuals: Vector) -> None:
        self.pivots = np.concatenate([self.pivots, pivots])
        self.pivot_residuals = np.concatenate([self.pivot_residuals, residuals])
        self.residual2[pivots] = 0.0
        self.slack2[pivots] = 0.0
        self._F.grow(len(pivots))

    def _fresh(self, rows: Rows | slice) -> Array:
        """Return the coordinates (s, len(rows)) of rows that are up to date."""
        F = self._F.filled
        if isinstance(rows, slice):
            return F[:, rows]
        return namespace(F).take(F, like(rows, F), axis=1)

    def _coordinates(self, part: Rows | slice, start: int) -> Array:
        raise NotImplementedError  # pragma: no cover


class Orthonormal(Factor):
    """Algorithm 1: an explicit orthonormal basis Q, each direction orthogonalised twice."""

    route: Route = "orthonormal"
    kernel_evaluations: int | None = None
    triangle: Vector | None = None

    def __init__(self, points: VectorSource, capacity: int = 0) -> None:
        F = self._coordinate_buffer(points, capacity)
        super().__init__(points.norms2, F, points.row_bytes, points.data_bytes)
        self.points = points
        self._Q = RowBuffer(lambda k: points.zeros(k, points.m), capacity)
        self._panel: tuple[Rows, Array] = _NO_PANEL
        self._unit = self._rounding(points.eps)
        self.slack2 = self._unit * points.reach

    def _coordinate_buffer(self, points: VectorSource, capacity: int) -> Any:
        return RowBuffer(lambda k: points.zeros(k, points.n), capacity)

    def _rounding(self, eps: float) -> Vector:
        """Return the rounding of a downdated squared residual, per last explicit norm."""
        return (8.0 + 4.0 * math.sqrt(self.points.m)) * eps * self.points.reach

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

    def residual_vectors(self, rows: Rows) -> Array:
        """Return what the current directions miss of fresh `rows`, as vectors."""
        return less_combined(self._vectors(rows), self._fresh(rows), self.Q)

    def _vectors(self, rows: Rows) -> Array:
        """Return the (centred) rows in the format of the basis, as a copy."""
        return self.points.vectors(rows)

    def recompute(self, rows: Rows) -> None:
        """Measure the residuals of fresh `rows` explicitly (errata 15)."""
        # Beside the vectors, in float64, lie copies of them and of their coordinates.
        for block in self._blocks(len(rows), 2 * self.points.m + self.s):
            E = self.residual_vectors(rows[block])
            E = less_combined(E, inner(self.Q, E), self.Q)
            self._set_exact(rows[block], _squared_norms(E))

    def gram(self, rows: Rows, *, exact: bool = False) -> tuple[Vector, float]:
        """Return the Gram matrix of the residuals of fresh `rows`, and how wrong it may be.

        That is 0 where it is as good as what the tie window allows for: of explicit residuals,
        and as a difference that has not lost many digits.
        """
        largest2, reach = self.residual2[rows].max(), self.points.reach[rows]
        blur2 = float((self._unit[rows] * reach).max())
        if largest2 >= EXPLICIT_BELOW * reach.max() ** 2:
            return self._difference(rows), 0.0
        if not exact and blur2 <= CLEAR * largest2:
            return self._difference(rows), blur2
        G = self._explicit(rows)
        self._set_exact(rows, np.diagonal(G))
        return G, 0.0

    def _difference(self, rows: Rows) -> Vector:
        """Return the Gram matrix of residuals as that of the points less that of coordinates."""
        F = to_numpy(self._fresh(rows)).astype(np.float64, copy=False)
        return np.asarray(self.points.gram(rows) - F.T @ F)

    def _explicit(self, rows: Rows) -> Vector:
        """Return the Gram matrix of residuals from their vectors, which are kept."""
        E = self.residual_vectors(rows)
        self._panel = (rows, E)
        return _gram(E)

    def extend(self, pivots: Rows, stop2: float) -> int:
        """Add the residual directions of fresh `pivots`; return how many were admitted.

        Each is tested before it is admitted (errata 3), by its explicit residual R_jj.
        """
        E = self._residuals_of(pivots)
        first2 = np.minimum(_squared_norms(E[:1, :]), stop2)
        new, entered = orthonormalised(E, self.Q, stop2)
        k = len(entered)
        if k == 0:
            self._set_exact(pivots[:1], first2)
            return 0
        self._Q.grow(k)
        self._Q.put(self.s, slice(None), new)
        self._admit(pivots[:k], entered)
        return k

    def behind(self, rows: Rows, stop2: float) -> Rows:
        """Return those of `rows` whose residual is stale or too blurred to decide on."""
        return self._unsettled(rows, stop2, stale=True)

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
        self.recompute(self._unsettled(rows, stop2, stale=False))

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
        for block in self._blocks(self.n, self.s - start):
            self._advance_block(block)
        self.residual2[self.pivots] = 0.0
        self.rows_read += self.n
        self.recompute(self._unsettled(np.arange(self.n), stop2, stale=False))

    def _advance_block(self, block: slice) -> None:
        stage = self.stage[block]
        start = int(stage.min())
        if start == self.s:
            return
        C = self._coordinates(block, start)
        self._F.put(start, block, C)
        C2 = to_numpy(C).astype(np.float64, copy=False) ** 2
        if stage.max() > start:  # a row that was ahead has had its first directions counted
            C2[np.arange(start, self.s)[:, None] < stage[None, :]] = 0.0
        late = np.flatnonzero(stage < self.s) + block.start
        self._downdate(late, C2.sum(axis=0)[late - block.start])
        self.stage[block] = self.s

    def _coordinates(self, part: Rows | slice, start: int) -> Array:
        return self.points.project(part, self.Q[start:, :])

    def _downdate(self, part: Rows | slice, captured2: Vector) -> None:
        exact = self.slack2[part] == 0.0
        blur2 = self._unit[part] * np.sqrt(self.residual2[part])
        self.slack2[part] = np.where(exact, blur2, self.slack2[part])
        super()._downdate(part, captured2)

    def _set_exact(self, rows: Rows, residual2: Vector) -> None:
        self.residual2[rows] = residual2
        self.slack2[rows] = 0.0
        self.residual2[self.pivots] = 0.0

    def _unsettled(self, rows: Rows, stop2: float, *, stale: bool) -> Rows:
        """Return those of `rows` that are blurred and, if asked for, those that are stale."""
        root_eps = math.sqrt(self.points.eps)
        if _native.ready():
            known = (self.residual2, self.slack2, self._unit, self.stage)
            return _native.unsettled(rows, *known, self.s, stop2, root_eps, stale=stale)
        residual2, slack2 = self.residual2[rows], self.slack2[rows]
        lost = slack2 > root_eps * residual2
        helps = slack2 > 8.0 * self._unit[rows] * np.sqrt(residual2)
        near_stop = np.abs(residual2 - stop2) <= slack2
        blurred = (slack2 > 0) & ((lost & helps) | near_stop)
        return rows[np.where(self.stage[rows] < self.s, stale, blurred)]

    def finish(self, stop2: float) -> None:
        """Bring every point up to date and make the largest residuals exact."""
        self.refresh_all(stop2)
        if self.n * self.points.m * self.s <= FREE_WORK:
            blurred = self.slack2 > 0
        else:
            # The certificate reads the two largest residuals: settle all who may be one.
            lower2 = self.residual2 - self.slack2
            lower2.partition(max(0, self.n - 2))
            second = lower2[max(0, self.n - 2)]
            blurred = (self.slack2 > 0) & (self.upper2 >= second)
        self.recompute(np.flatnonzero(blurred))

    def release(self) -> tuple[Array | None, Array]:
        """Return Q and F; the coordinates of the pivots made exactly triangular."""
        Q, F = self._Q.release(), self._F.release()
        return Q, _with_triangular_pivots(F, self.pivots)


class Cholesky(Factor):
    """Algorithm 2: no Q, inner products only; always in float64.

    A pivoted Cholesky factorization of the Gram matrix (errata 1, 4, 7). What cancels in
    `u_ii - sum R^2` cannot be recomputed without vectors, so the floor is of order
    sqrt(eps).
    """

    route: Route = "cholesky"
    picked = 0.1  # their earlier coordinates have to be gathered

    def __init__(self, source: GramSource, capacity: int = 0) -> None:
        F = RowBuffer(lambda k: np.zeros((k, source.n)), capacity)
        super().__init__(source.norms2, F, source.row_bytes, source.data_bytes)
        self.source = source
        self._T = np.zeros((capacity, capacity))
        self._inverses: tuple[tuple[int, int], Any] = ((-1, -1), [])

    @property
    def T(self) -> Vector:
        """Coordinates of the pivots, lower triangular."""
        return self._T[: self.s, : self.s]

    @property
    def floor(self) -> float:
        """Rounding that residuals, coordinates and distances may carry."""
        source, eps = self.source, float(np.finfo(np.float64).eps)
        return relative_floor("cholesky", self.s, source.roundings, eps) * source.largest

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
        F = self._fresh(rows)
        return np.asarray(self.source.block(rows, rows) - product(F.T, F))

    def extend(self, pivots: Rows, stop2: float) -> int:
        """Add the residual directions of fresh `pivots`; return how many were admitted."""
        L = leading_cholesky(self._gram(pivots), stop2)
        k = len(L)
        if k == 0:
            self.residual2[pivots[0]] = min(self.residual2[pivots[0]], stop2)
            return 0
        s, wide = self.s, self.s + k
        if wide > len(self._T):
            larger = np.zeros((wide + wide // 8, wide + wide // 8))
            larger[:s, :s] = self.T
            self._T = larger
        self._T[s:wide, :s], self._T[s:wide, s:wide] = self._fresh(pivots[:k]).T, L
        self._admit(pivots[:k], np.diagonal(L).copy())
        return k

    def finish(self, stop2: float) -> None:
        """Bring every point up to date."""
        self.refresh_all(stop2)

    def release(self) -> tuple[Array | None, Array]:
        """Return no Q, and F with the coordinates of the pivots made exactly triangular."""
        return None, _with_triangular_pivots(self._F.release(), self.pivots)

    @property
    def triangle(self) -> Vector | None:
        """Coordinates of the pivots, (s, s), in float64 whatever the data is."""
        return np.ascontiguousarray(self.T)

    def _numbers(self, rows: Rows, start: int) -> int:
        # The earlier coordinates of chosen rows are gathered.
        return self.s - start if isinstance(_as_range(rows), slice) else self.s

    def _coordinates(self, part: Rows | slice, start: int) -> Array:
        # Eq. q_less_r_ij for all points and new directions at once.
        U = self.source.block(self.pivots[start:], part)
        if start:
            U = less_combined(U, self.T[start:, :start].T, self._fresh(part)[:start])
        return self._substitute(U, start)

    def _substitute(self, U: Vector, start: int) -> Vector:
        """Solve T[start:, start:] C = U in place, by blocks whose inverses are kept."""
        if self._inverses[0] != (start, self.s):
            blocks = [slice(lo, min(lo + 64, self.s)) for lo in range(start, self.s, 64)]
            inverses = [(b, np.asarray(np.linalg.inv(self.T[b, b]), dtype=float)) for b in blocks]
            self._inverses = ((start, self.s), inverses)
        for block, inverse in self._inverses[1]:
            lo, hi = block.start - start, block.stop - start
            if lo:
                U[lo:hi] = less_combined(U[lo:hi], self.T[block, start : block.start].T, U[:lo])
            U[lo:hi] = _solved(inverse, U[lo:hi])
        return U

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


def relative_floor(route: Route, s: int, roundings: int, eps: float) -> float:
    """Return the rounding error of residuals and coordinates, relative to the norms.

    With a basis, of order eps: a few roundings in every residual vector, one in each of the
    s coordinates, and those of sums over the features, which do not cancel where the terms
    are equal (rows of few distinct values; measured: up to 4 sqrt(m)). From inner products
    alone, of order sqrt(eps), because a squared residual is a difference of numbers that
    carry `roundings` + s of them.
    """
    if route == "orthonormal":
        return (max(10.0, 5.0 * math.sqrt(roundings)) + math.sqrt(s)) * eps
    return math.sqrt((roundings + s) * float(np.finfo(np.float64).eps))


def _with_triangular_pivots(F: Array, pivots: Rows) -> Array:
    # A pivot lies in the span of itself and its predecessors: the rest is rounding.
    if _native.available(F):
        _native.triangular(F, pivots)
        return F
    if isinstance(F, np.ndarray):
        for j in range(1, len(pivots)):
            F[j, pivots[:j]] = 0.0
        return F
    xp = namespace(F)
    return put_columns(F, pivots, xp.triu(xp.take(F, like(pivots, F), axis=1)))


def leading_cholesky(G: Vector, stop2: float) -> Vector:
    """Return the Cholesky factor of the leading block whose pivots all exceed `stop2`."""
    L = np.zeros_like(G)
    for j in range(len(G)):
        left2 = G[j, j] - L[j, :j] @ L[j, :j]
        if left2 <= stop2:
            return L[:j, :j]
        L[j:, j] = (G[j:, j] - L[j:, :j] @ L[j, :j]) / np.sqrt(left2)
    return L


def orthonormalised(E: Array, Q: Array, stop2: float) -> tuple[Array, Vector]:
    """Return orthonormal rows for the leading rows of E, orthogonal to Q, and their R_jj.

    They may be written over E. Rows whose residual does not exceed stop2 end it. E was
    orthogonalised against Q once; here again, block by block, until what a pass removes is
    negligible: Cholesky QR, whose weakness, nearly dependent rows, pivoting has ruled out.
    """
    inverse, entered = leading_inverse(_gram(E), stop2)
    new = _solved(inverse, E)
    for _ in range(4):
        new = _corrected(new, inner(Q, new), Q)
        G = _gram(new)
        far = np.abs(G - np.eye(len(G))).max(initial=0.0)
        if far <= 8.0 * np.finfo(new.dtype if isinstance(new, np.ndarray) else float).eps:
            break  # the Gram matrix itself is no more accurate
        inverse, scales = leading_inverse(G, 0.0)
        new, entered = _solved(inverse, new), entered[: len(scales)] * scales
        if len(scales) == len(G) and far < 1e-3:
            break
    return new, entered


def _corrected(new: Array, C: Array, Q: Array) -> Array:
    """Return unit rows less `C.T @ Q`, what the basis has of them."""
    if not (_native.available(Q) and _native.available(new)) or Q.dtype == np.float32:
        return less_combined(new, C, Q)
    # A correction so small need not be formed to more digits than float32 has.
    _native.combine(C, Q, new, -1, short=bool(np.abs(C).max(initial=0.0) < SHORT))
    return new


def leading_inverse(G: Vector, stop2: float) -> tuple[Vector, Vector]:
    """Return L^-1, and the diagonal of L, of the leading block of G = L L' above stop2."""
    if _native.ready():
        return _native.leading_inverse(np.array(G, order="C"), stop2)
    L = leading_cholesky(G, stop2)
    return np.asarray(np.linalg.inv(L)), np.diagonal(L)


def _gram(E: Array) -> Vector:
    """Return the inner products of rows, in float64."""
    if _native.available(E):
        return _native.gram(E, wide=False)
    return to_numpy(E @ E.T).astype(np.float64, copy=False)


def inner(A: Array, B: Array) -> Array:
    """Return `A @ B.T`: the inner products of two sets of rows."""
    if _native.available(A) and _native.available(B):
        return _native.inner(A, B)
    return A @ B.T


def less_combined(E: Array, C: Array, Q: Array) -> Array:
    """Return `E - C.T @ Q`, in the place of E where that is allowed."""
    if _native.available(Q) and _native.available(E) and E.flags.writeable:
        _native.combine(C, Q, E, -1)
        return E
    return E - C.T @ Q


def product(A: Array, B: Array) -> Array:
    """Return `A @ B`."""
    if not _native.available(B):
        return A @ B
    out = np.zeros((A.shape[0], B.shape[1]), dtype=B.dtype)
    _native.combine(A.T, B, out)
    return out


def _solved(inverse: Vector, E: Array) -> Array:
    """Return L^-1 times the first rows of E, in their place where that is allowed."""
    first = E[: len(inverse), :]
    if _native.available(first) and first.flags.writeable:
        _native.replace(inverse, first)
        return first
    return like(inverse, E, dtype=E.dtype) @ first


def _squared_norms(E: Array) -> Vector:
    xp = namespace(E)
    wide = xp.astype(E, xp.float64, copy=False)
    return to_numpy(xp.vecdot(wide, wide))


def _as_range(rows: Rows) -> Rows | slice:
    """Return consecutive rows as a slice, which reads them without a copy."""
    first, last = int(rows[0]), int(rows[-1])
    return slice(first, last + 1) if last - first + 1 == len(rows) else rows
