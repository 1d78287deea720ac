"""Coordinates while they are computed: in lines of directions, point by point.

A row that is brought up to date gets a few coordinates at a time. In a matrix (s, n) each would
lie in a cache line of its own; here the coordinates on 8 (float32: 16) directions lie together.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from isopivot._native._library import address, run, threads_for
from isopivot._native.products import _format

Matrix = npt.NDArray[Any]
Rows = npt.NDArray[np.intp]


class Lines:
    """Coordinates (s, n) of n points on a growing number of directions."""

    def __init__(self, n: int, dtype: Any, capacity: int) -> None:
        self.n, self.size = n, 0
        self.lanes = 64 // np.dtype(dtype).itemsize
        self._data = np.zeros((-(-capacity // self.lanes), n * self.lanes), dtype=dtype)

    def grow(self, k: int) -> None:
        """Add k directions."""
        self.size += k
        missing = -(-self.size // self.lanes) - len(self._data)
        if missing > 0:
            # realloc: large blocks are remapped, not copied. No view outlives a call here.
            extra = max(missing, len(self._data) // 8)
            self._data.resize((len(self._data) + extra, self._data.shape[1]), refcheck=False)

    def places(self, directions: npt.NDArray[np.intp]) -> npt.NDArray[np.uintp]:
        """Return where point 0 has its coordinate on each direction; 0 for negative ones."""
        groups, lanes = np.divmod(directions, self.lanes)
        at = address(self._data) + groups * self._data.strides[0] + lanes * self._data.itemsize
        return np.where(directions < 0, 0, at).astype(np.uintp)

    def of(self, rows: Rows) -> npt.NDArray[np.float64]:
        """Return the coordinates (s, len(rows)) of some points, in float64."""
        groups = -(-self.size // self.lanes)
        # As `combine` likes it: whole groups, and an odd number of them, so that rows do not
        # displace each other in the cache.
        wide = (-(-len(rows) // 8) | 1) * 8
        out = np.zeros((groups * self.lanes, wide))
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

    def release(self) -> Matrix:
        """Return the coordinates as a matrix (s, n), in the same memory."""
        groups, whole = -(-self.size // self.lanes), self._data.shape[1]
        room, threads = np.empty(whole, dtype=self._data.dtype), threads_for(whole)
        for group in range(groups):
            room[:] = self._data[group]
            arguments = (address(self._data), self.n, address(room), group)
            run(f"unlined_{_format(self._data)}", arguments, self.n, 4096, threads)
        self._data.resize((groups * self.lanes, self.n), refcheck=False)
        self._data.resize((self.size, self.n), refcheck=False)
        return self._data
