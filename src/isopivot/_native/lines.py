"""Coordinates while they are computed: in lines of directions, point by point.

A row that is brought up to date gets a few coordinates at a time. In a matrix (s, n) each would
lie in a cache line of its own; here the coordinates on 8 directions lie together.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import numpy.typing as npt

from isopivot._native import _library
from isopivot._native._library import address, call, run, threads_for
from isopivot._native.products import (
    LINE,
    PIECE,
    UNIT,
    Known,
    _format,
    even,
    shared_columns,
    tiles_of,
)

Matrix = npt.NDArray[Any]
Rows = npt.NDArray[np.intp]

SPARE = 0.03  # part of the coordinates that may be kept beyond them
_PIECE = 24  # rows whose residuals are formed together


class Lines:
    """Coordinates (s, n) of n points on a growing number of directions."""

    def __init__(self, n: int, dtype: Any, capacity: int) -> None:
        self.n, self.size = n, 0
        # Nothing is read that was not written.
        self._data = np.empty((-(-capacity // LINE), n * LINE), dtype=dtype)

    def grow(self, k: int) -> None:
        """Add k directions."""
        self.size += k
        missing = -(-self.size // LINE) - len(self._data)
        if missing > 0:
            # realloc: large blocks are remapped, not copied. No view outlives a call here.
            extra = max(missing, len(self._data) // 8)
            self._data.resize((len(self._data) + extra, self._data.shape[1]), refcheck=False)

    def advance(
        self, X: Matrix, Q: Matrix, rows: Rows, known: Known, most: int, mean: Matrix | None = None
    ) -> tuple[Rows, int]:
        """Project rows on what they have not seen of the first known.s directions, rows of `Q`.

        The squares are taken off their residuals. At most `most` directions are used at a time;
        most rows lack only the last ones. `mean`: what that of the points has of each direction.
        Returns those that are blurred then, and how many were not up to date.
        """
        n, m, s, threads = len(rows), X.shape[1], known.s, _library.threads_of_blas()
        columns = UNIT + (s if s <= most else min(most, s - int(known.stage[rows].min(initial=s))))
        piece = max(64, PIECE // max(1, m * X.itemsize))
        room = np.empty(n + 2 * columns + s + 4 + (n + 1) // 2, dtype=np.int64)
        packed = np.empty(-(-columns // UNIT) * UNIT * (even(m) + 1), dtype=Q.dtype)
        captured2 = np.empty(threads * min(piece + 16, n + 16))
        read = ctypes.c_int64()
        unit, residual2, slack2, stage, _, limits = known.addresses()
        arguments = (
            *(address(X), X.strides[0] // X.itemsize, m, address(Q), Q.strides[0] // Q.itemsize),
            *(address(mean), address(rows), n, s, most),
            *(address(self._data), self._data.strides[0], self._data.itemsize),
            *(unit, residual2, slack2, stage, limits),
            *(address(room), columns, address(packed), address(captured2)),
            *(tiles_of(m, Q.itemsize), threads, _library.SMALL, piece),
        )
        kind = _format(X, X.dtype != Q.dtype)
        blurred = call(f"advance_{kind}", arguments, ctypes.addressof(read))
        return room[:blurred], read.value

    def of(self, rows: Rows) -> npt.NDArray[np.float64]:
        """Return the coordinates (s, len(rows)) of some points, in float64."""
        groups = -(-self.size // LINE)
        # As `combine` likes it: whole groups, and an odd number of them, so that rows do not
        # displace each other in the cache.
        wide = (-(-len(rows) // 8) | 1) * 8
        out = np.zeros((groups * LINE, wide))
        arguments = (address(self._data), self.n, address(rows), len(rows), address(out), wide)
        threads = threads_for(out.size)
        run(
            f"lines_{_format(self._data)}",
            arguments,
            groups,
            -(-groups // (2 * threads)) or 1,
            threads,
        )
        return out[: self.size, : len(rows)]

    def gather(self, rows: Rows, since: int, out: npt.NDArray[np.float64], slots: Rows) -> None:
        """Write the coordinates of rows[p] on the directions from `since` on to out[slots[p]].

        Whole lines: some directions before `since` are written again, and numbers after the last.
        """
        lines = (since // LINE, -(-self.size // LINE))
        ldo = out.strides[0] // out.itemsize
        given = (address(self._data), self.n, address(rows), address(slots), address(out), ldo)
        threads = threads_for(8 * len(rows) * LINE * (lines[1] - lines[0]))
        run(f"gather_{_format(self._data)}", (*given, *lines), len(rows), 8, threads)

    def residuals2(
        self,
        X: Matrix,
        rows: Rows,
        mean: Matrix | None,
        Q: Matrix,
        vectors: Matrix | None = None,
    ) -> npt.NDArray[np.float64]:
        """Return the squared norms of what the directions `Q` miss of some rows less `mean`.

        All are of one format. The vectors themselves are kept only if there is room for them,
        `vectors` (len(rows), m).
        """
        out = np.empty(len(rows))
        self._explicit(X, rows, mean, Q, (out, vectors), (0,))
        return out

    def measure(
        self, X: Matrix, rows: Rows, mean: Matrix | None, Q: Matrix, known: Known, floor: float
    ) -> Rows:
        """Take explicit residuals of some rows as exact; return those for which that is too rough.

        What the rounding of s coordinates adds to a residual, orthogonally, is its own square.
        """
        unsure = np.empty(len(rows), dtype=np.intp)
        unit, residual2, slack2, *_ = known.addresses()
        more = (unit, residual2, slack2, address(unsure))
        out = np.empty(len(rows))
        return unsure[: self._explicit(X, rows, mean, Q, (out, None), more, floor)]

    def _explicit(
        self,
        X: Matrix,
        rows: Rows,
        mean: Matrix | None,
        Q: Matrix,
        out: tuple[Matrix, Matrix | None],
        more: tuple[int, ...],
        floor: float = 0.0,
    ) -> int:
        """Write squared residuals, and their vectors; return how many are not accepted."""
        count, m, s = len(rows), X.shape[1], self.size
        threads = threads_for(count * m * s)
        room = _PIECE * (s + (m if out[1] is None else 0))
        rooms = np.empty((1 if count <= _PIECE else threads) * room, dtype=X.dtype)
        arguments = (
            *(address(X), X.strides[0] // X.itemsize, address(rows), m, address(mean)),
            *(address(self._data), self.n, s, address(Q), Q.strides[0] // Q.itemsize),
            *(address(out[0]), address(out[1]), address(rooms), room, _PIECE, *more),
        )
        how = (count, shared_columns(m, X.itemsize, threads), threads, s / 4.0, floor)
        return int(call(f"all_residuals_{_format(X)}", arguments, *how))

    def release(self) -> Matrix:
        """Return the coordinates as a matrix (s, n), in the same memory."""
        groups, whole = -(-self.size // LINE), self._data.shape[1]
        room = np.empty(whole, dtype=self._data.dtype)
        function = getattr(_library.library(), f"all_unlined_{_format(self._data)}")
        function(address(self._data), self.n, groups, address(room), threads_for(whole))
        self._data.resize((groups * LINE, self.n), refcheck=False)
        if SPARE * self.size < groups * LINE - self.size:
            self._data.resize((self.size, self.n), refcheck=False)
        # A block that is given back as it was asked for is what the next fit of this size gets,
        # without new pages from the system.
        return self._data[: self.size]
