"""Coordinates while they are computed: in lines of directions, point by point.

A row that is brought up to date gets a few coordinates at a time. In a matrix (s, n) each would
lie in a cache line of its own; here the coordinates on 8 directions lie together.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from isopivot._native._library import address, call, run, threads_for
from isopivot._native.products import LINE, _format, shared_columns

Matrix = npt.NDArray[Any]
Rows = npt.NDArray[np.intp]

SPARE = 0.03  # part of the coordinates that may be kept beyond them
_PIECE = 32  # rows whose residuals are formed together


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

    def layout(self) -> tuple[int, int, int]:
        """Return where the first line lies, and the bytes of a line and of a number."""
        return address(self._data), self._data.strides[0], self._data.itemsize

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
        m, s, few, kind = X.shape[1], self.size, len(rows) <= _PIECE, _format(X)
        threads = threads_for(len(rows) * m * s)
        room = _PIECE * (s + (m if vectors is None else 0))
        rooms = np.empty((1 if few else threads) * room, dtype=X.dtype)
        out = np.empty(len(rows))
        given = (address(X), X.strides[0] // X.itemsize, address(rows), m, address(mean))
        basis = (address(Q), Q.strides[0] // Q.itemsize)
        results = (address(out), address(vectors), address(rooms))
        arguments = (*given, address(self._data), self.n, s, *basis, *results, room, _PIECE)
        if few:
            call(
                f"few_residuals_{kind}",
                arguments,
                len(rows),
                shared_columns(m, X.itemsize, threads),
                threads,
            )
        else:
            run(f"residuals_{kind}", arguments, len(rows), _PIECE, threads)
        return out

    def release(self) -> Matrix:
        """Return the coordinates as a matrix (s, n), in the same memory."""
        groups, whole = -(-self.size // LINE), self._data.shape[1]
        room, threads = np.empty(whole, dtype=self._data.dtype), threads_for(whole)
        for group in range(groups):
            arguments = (address(self._data), self.n, address(room), group)
            for job in ("copy", "unlined"):
                run(f"{job}_{_format(self._data)}", arguments, self.n, 4096, threads)
        self._data.resize((groups * LINE, self.n), refcheck=False)
        if SPARE * self.size < groups * LINE - self.size:
            self._data.resize((self.size, self.n), refcheck=False)
        # A block that is given back as it was asked for is what the next fit of this size gets,
        # without new pages from the system.
        return self._data[: self.size]
