"""Algorithm 1 on rows in memory, wholly compiled (`_native.loop`).

The same loop as `_greedy.greedy` on the same arithmetic as `_factors.Orthonormal`, and the same
results. Rows are multiplied where they lie, each with the directions it has not seen yet, in one
call whatever rows they are; products of rows that stay in the panel are carried along.

Rows of float32 are first multiplied in float32. Residuals that became too small for differences
are then told by short vectors or formed explicitly, which is good for some more directions. Once
explicit ones have taken as much as it would have in float64, the basis is made again in float64,
and every product and sum is from then on in float64, of the same rows: half the bytes are read,
and no digits are lost.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from isopivot import _algebra, _factors, _greedy
from isopivot._algebra import inner, less_combined, orthonormalised, with_triangular_pivots
from isopivot._arrays import Array, Rows, Vector, take_rows
from isopivot._factors import VectorSource
from isopivot._native import _library, loop, products
from isopivot._native._library import address
from isopivot._native.loop import State, Why
from isopivot.certificate import Route, StoppedBy

RUN = 16  # terms of float32 that are summed before they are added up; `rows.inc` has it, too
SPARE = 0.028  # part of X that may be copied of the basis
FEW = 128  # blurred rows below which they are left for later, when there may be more
EXPLICIT = 0.5  # part of the rows in a panel if all of them must be measured
WORTH = 0.6  # part of a panel that was in the one before, so that its products are used
SHORT = 4.0  # norms of a residual that a short vector has at most, where a panel is decided
SHORT_FROM = 200  # directions from which on there are any: before, explicit ones are as fast
STORED = 1.0 / 8.0  # part of the floor that a residual may change by as coordinates are stored
PAUSE = 0.1  # seconds after which an interrupt is heard
_CHUNK = 64  # pivots that are orthogonalised together when the basis is made again
_LINE = 64  # bytes of a line of the cache
_MEASURED = 4096  # rows that are measured at a time
_MARGIN = 512  # leaders may be chosen from 8 times as many rows, and so many more


class Compiled:
    """An explicit orthonormal basis, coordinates and residuals of all points.

    `residual2`, `slack2` and `stage` mean what they do in `_factors.Orthonormal`. Residuals are
    written over the norms of the points.
    """

    route: Route = "orthonormal"
    kernel_evaluations: int | None = None

    def __init__(self, points: VectorSource, capacity: int = 0) -> None:
        n, m = points.n, points.m
        self.points, self.n, self.largest = points, n, points.largest
        self.wide = points.eps < 1e-10  # whether products are summed in float64
        self._rounding = self._rounding_of(points.eps)
        self._unit = self._rounding * points.reach
        self.residual2, self.slack2 = points.norms2, self._unit * points.reach
        self.stage = np.zeros(n, dtype=np.int32)
        self._pivots, self._entered = np.empty(0, dtype=np.int64), np.empty(0)
        self._Q: Array = np.empty((0, m), dtype=points.X.dtype)
        self._of_mean: Array = np.empty(0, dtype=points.X.dtype)  # what the mean has of it
        self._lines = np.empty((0, n * products.LINE), dtype=points.X.dtype)
        self._rooms: dict[str, npt.NDArray[Any]] = {}
        self._state = self._begin()
        self._reserve(capacity)

    # -- what came out --------------------------------------------------------------------

    @property
    def s(self) -> int:
        """Number of directions so far."""
        return int(self._state.s)

    @property
    def pivots(self) -> Rows:
        """Row numbers of the dictionary."""
        return self._pivots[: self.s].astype(np.intp, copy=False)

    @property
    def pivot_residuals(self) -> Vector:
        """Residual at which each pivot entered."""
        return self._entered[: self.s]

    @property
    def Q(self) -> Array:
        """The basis so far, as rows."""
        return self._Q[: self.s]

    @property
    def rows_read(self) -> int:
        """How many rows were read, as often as they were."""
        return int(self._state.rows_read)

    @property
    def floor(self) -> float:
        """Rounding that residuals, coordinates and distances may carry."""
        return self._relative_floor(self.s) * self.largest

    def release(self) -> tuple[Array | None, Array, Vector | None]:
        """Return Q and F, the coordinates of the pivots made exactly triangular, and no T."""
        self._rooms.clear()
        self.slack2 = self._unit = np.empty(0)  # their room is needed now
        Q, self._Q = self._Q, np.empty((0, self.points.m))
        Q.resize((self.s, self.points.m), refcheck=False)
        F, self._lines = products.unlined(self._lines, self.s), np.empty((0, 0))
        return (
            Q.astype(self.points.X.dtype, copy=False),
            with_triangular_pivots(F, self.pivots),
            None,
        )

    # -- the loop -------------------------------------------------------------------------

    def take_pivots(
        self,
        *,
        mu: float | None,
        target: int,
        relaxation: float,
        progress: Callable[[int, int], object] | None,
    ) -> int:
        """Extend the dictionary to `target` pivots, or as far as residuals exceed mu.

        Returns the target: fewer if `progress` asked for an end.
        """
        state = self._state
        state.mu, state.target, state.relaxation2 = mu or 0.0, target, relaxation**2
        why = None
        while why != Why.ENDED:
            why = loop.greedy(state, self._kind, PAUSE if progress is None else 0.0)
            if why == Why.FULL:
                self._reserve(min(target, self.s + max(32, self.s // 8)))
            elif why == Why.BLIND:
                self._widen()
            elif why == Why.EXPLICIT:
                state.E_room = max(state.count, state.explicit_panel)
                state.E = self._room("E", state.E_room * state.m, self._Q.dtype)
            elif why == Why.PAUSED and progress is not None and progress(self.s, target) is True:
                state.target = self.s
        return int(state.target)

    @property
    def _kind(self) -> str:
        single = self.points.X.dtype == np.float32
        return "f64" if not single else "mixed" if self.wide else "f32"

    def _relative_floor(self, s: int) -> float:
        return _algebra.relative_floor("orthonormal", s, self.points.m, self.points.eps)

    def _rounding_of(self, eps: float) -> float:
        """Return the rounding of a downdated squared residual, per reach and last explicit norm."""
        m = self.points.m
        if eps < 1e-10:
            return _factors.rounding_of(m, eps)
        # Sums of float32, of even and odd features apart: of terms, of such sums, and of as many
        # groups of these as they have sums.
        runs = math.ceil(math.sqrt(m / (2 * RUN)))
        terms = (RUN + runs + m / (2 * RUN * runs) + 1.0) / 4.0
        return (8.0 + 2.0 * min(terms, 2.0 * math.sqrt(m))) * eps

    def _begin(self) -> State:
        """Return the state of a loop that has not begun."""
        points, n, m = self.points, self.n, self.points.m
        panel = min(_greedy.most_rows(n), n)
        floor = self._relative_floor(0) * self.largest
        state = State(
            ldx=points.X.strides[0] // points.X.itemsize,
            n=n,
            m=m,
            floor=floor,
            floor_per_root=self._relative_floor(1) * self.largest - floor,
            depth=_greedy.DEPTH,
            blur=_greedy.BLUR,
            explicit_below=_factors.EXPLICIT_BELOW,
            clear=_factors.CLEAR,
            stored=STORED,
            free_work=_factors.FREE_WORK,
            short_panel=SHORT,
            short_from=SHORT_FROM,
            picked=_factors.Factor.picked,
            window=_greedy.TIES * points.eps,
            root_eps=math.sqrt(points.eps),
            worth=WORTH,
            panel=panel,
            fewest=min(_greedy.PANEL // 3, panel),
            explicit_panel=max(1, int(EXPLICIT * panel)),
            yield_=_greedy.YIELD,
            group=_greedy.GROUP,
            few=FEW,
            # Directions are copied to be multiplied with, so many at a time.
            most=max(48, int(SPARE * n)),
            threads=_library.threads_of_blas(),
            small=_library.SMALL,
            spare=products.SPARE,
            cache=products.CACHE,
            size=_greedy.PANEL // 2,
            rows_read=n,
        )
        mean = points.mean
        self._mean = None if mean is None else np.ascontiguousarray(mean, dtype=points.X.dtype)
        state.X, state.mean = address(points.X), address(self._mean)
        for name in ("rows_before", "slots", "slots_before"):
            setattr(state, name, self._room(name, panel, np.int64))
        for name in ("G", "G_before"):
            setattr(state, name, self._room(name, panel * panel))
        state.places = self._room("places", 6 * panel, np.int64)
        state.rows = self._room("rows", min(n, 8 * panel + _MARGIN), np.int64)
        state.values = self._room("values", 8 * panel + _MARGIN)
        state.measured2 = self._room("measured2", max(min(n, _MEASURED), 2 * panel))
        state.listed = min(n, max(int(state.picked * n), 8 * panel + _MARGIN))
        state.list = self._room("list", state.listed, np.int64)
        self._know(state)
        return state

    def _room(self, name: str, count: int, dtype: Any = np.float64) -> int:
        """Return where there is room for so many numbers, as long as the loop needs it."""
        self._rooms.pop(name, None)  # not both at once
        self._rooms[name] = room = _aligned(count, dtype)
        return address(room)

    def _know(self, state: State) -> None:
        """Say how far residuals can be trusted, and where they are."""
        state.wide, state.rounding = int(self.wide), self._rounding
        state.orthogonal = _algebra.ORTHOGONAL * float(np.finfo(self._Q.dtype).eps)
        stored = self.wide and self.points.eps > 1e-10  # not as exactly as they are computed
        state.stored_eps = self.points.eps if stored else 0.0
        state.E_room = 0
        for name in ("unit", "residual2", "slack2", "stage"):
            vector = self._unit if name == "unit" else getattr(self, name)
            setattr(state, name, address(vector))

    def _reserve(self, capacity: int) -> None:
        """Make room for so many pivots, and for the work on them; what there is stays."""
        state, m = self._state, self.points.m
        capacity = max(capacity, state.capacity)
        groups = -(-capacity // products.LINE)
        # realloc: large blocks are remapped, not copied. No view outlives a call here.
        self._pivots.resize(capacity, refcheck=False)
        self._entered.resize(capacity, refcheck=False)
        self._of_mean = _longer(self._of_mean, (capacity,))
        self._Q = _longer(self._Q, (capacity, m))
        self._lines = _longer(self._lines, (groups, self.n * products.LINE))
        state.capacity, state.ldc, state.count_before = capacity, groups * products.LINE, 0
        state.features = max(2, min(products.even(max(m, capacity)), products.FEATURES))
        state.carried = self._room("carried", state.panel * state.ldc)
        state.pivots, state.entered = address(self._pivots), address(self._entered)
        state.Q, state.lines = address(self._Q), address(self._lines)
        state.of_mean = 0 if self._mean is None else address(self._of_mean)
        work, plan = loop.rooms(state, self._kind)
        state.work, state.plan = (
            self._room("work", -(-work // 8)),
            self._room("plan", -(-plan // 8)),
        )

    def _widen(self) -> None:
        """Go on in float64: the basis, and all residuals, once again."""
        points, state, s = self.points, self._state, self.s
        Q, entered = _orthonormal_rows(points, self.pivots)
        # Each pivot had a residual above the floor of float32, far above that of float64: this
        # cannot happen, and must not go unnoticed if it does.
        if len(entered) < s:  # pragma: no cover
            raise ArithmeticError("a pivot lies in the span of others: please report this as a bug")
        self.wide, self._entered[:s] = True, entered
        self._Q, self._of_mean = np.empty(self._Q.shape), np.empty(self._of_mean.shape)
        self._Q[:s] = Q
        if self._mean is not None:
            self._of_mean[:s] = inner(Q, self._mean.astype(np.float64)[None, :])[:, 0]
        self._rounding = self._rounding_of(float(np.finfo(np.float64).eps))
        self._unit = self._rounding * points.reach
        self.residual2[:] = products.norms2(points.X, self._mean)
        self.slack2 = self._unit * points.reach
        self.stage[:] = 0
        self._know(state)
        state.refreshed = 2 * self.n  # all are looked at next
        self._reserve(state.capacity)


def greedy(
    factor: Compiled,
    *,
    mu: float | None,
    n_components: int | None,
    limit: int,
    relaxation: float,
    progress: Callable[[int, int], object] | None = None,
) -> StoppedBy:
    """Do what `_greedy.greedy` does."""
    target = limit if n_components is None else n_components
    reached = factor.take_pivots(mu=mu, target=target, relaxation=relaxation, progress=progress)
    return _greedy.reason(factor, mu, reached if reached < target else n_components)


def _aligned(count: int, dtype: Any) -> npt.NDArray[Any]:
    """Return room that begins with a line of the cache: vectors in two of them take longer."""
    room = np.empty(count * np.dtype(dtype).itemsize + _LINE, dtype=np.uint8)
    skipped = -address(room) % _LINE
    return room[skipped : skipped + count * np.dtype(dtype).itemsize].view(dtype)


def _longer(A: Array, shape: tuple[int, ...]) -> Array:
    """Return an array with more rows; in its place, unless it has none."""
    if len(A) == 0:  # nothing is read that was not written: new pages are not touched here
        return np.empty(shape, dtype=A.dtype)
    A.resize(shape, refcheck=False)
    return A


def _orthonormal_rows(points: VectorSource, pivots: Rows) -> tuple[Vector, Vector]:
    """Return the basis that the pivots give in their order, and R_jj, in float64."""
    Q, entered = np.zeros((0, points.m)), np.empty(0)
    for lo in range(0, len(pivots), _CHUNK):
        Y = take_rows(points.X, pivots[lo : lo + _CHUNK]).astype(np.float64)
        if points.mean is not None:
            Y -= points.mean
        E = less_combined(Y, inner(Q, Y), Q)
        new, residuals = orthonormalised(E, Q, 0.0)
        Q, entered = np.concatenate([Q, new]), np.concatenate([entered, residuals])
    return Q, entered
