"""A matrix that grows by rows while its columns are filled in out of order."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from isopivot import _native
from isopivot._arrays import Array, Rows, namespace, put_columns


class RowBuffer:
    """A matrix that grows by rows; in place with NumPy, so that no second copy exists."""

    def __init__(self, zeros: Callable[[int], Array], capacity: int) -> None:
        self._zeros = zeros
        self._data = zeros(capacity)
        self.size = 0

    @property
    def filled(self) -> Array:
        return self._data[: self.size, :]

    def grow(self, k: int) -> None:
        """Add k rows of zeros."""
        self.size += k
        missing = self.size - int(self._data.shape[0])
        if missing > 0:
            self._reserve(max(missing, 16, self.size // 8))

    def _reserve(self, extra: int) -> None:
        if isinstance(self._data, np.ndarray):
            # realloc: large blocks are remapped, not copied. No view outlives a call here.
            shape = (self._data.shape[0] + extra, self._data.shape[1])
            self._data.resize(shape, refcheck=False)
        else:
            self._data = namespace(self._data).concat([self._data, self._zeros(extra)], axis=0)

    def put(self, start: int, columns: Rows | slice, values: Array) -> None:
        """Write `values` into the rows from `start` on of the given columns."""
        stop = start + int(values.shape[0])
        part = self._data[start:stop, :]
        if isinstance(columns, slice):
            part[:, columns] = values
        elif _native.available(part) and _native.available(values) and part.dtype == values.dtype:
            _native.scatter(part, columns, values)
        else:
            filled = put_columns(part, columns, values)
            if filled is not part:
                self._data[start:stop, :] = filled

    def release(self) -> Array:
        """Return the matrix, its unused rows given back."""
        if isinstance(self._data, np.ndarray):
            self._data.resize((self.size, self._data.shape[1]), refcheck=False)
            return self._data
        return self._data[: self.size, :]
