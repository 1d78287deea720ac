"""Products of sparse rows with each other, none of which is made dense."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from isopivot._native._library import address, library, run, threads_for
from isopivot._native.products import LINE, _format

Numbers = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]

_PIECE = 256  # rows that are one piece of work
_ROOM = 2048  # features that rows multiplied together have, at most: they stay in the cache


def sparse_available(X: Any) -> bool:
    """Return whether products of rows of the CSR matrix `X` can be computed here."""
    parts = (X.data, X.indices, X.indptr)
    return (
        library() is not None
        and X.dtype in (np.float64, np.float32)
        and all(part.dtype.isnative and part.flags.aligned for part in parts)
        and all(part.flags.c_contiguous for part in parts)
        and X.indices.dtype == X.indptr.dtype == np.int32
    )


def sparse_products(X: Any, left: Rows, right: Rows | slice) -> Numbers:
    """Return the inner products of two sets of rows of a CSR matrix, (len(left), len(right)).

    In float64. A few rows of `left` at a time are multiplied with all of `right`, as they lie.
    """
    begins, kind = X.indptr, _format(X.data)
    given = (address(X.data), address(X.indices), address(begins))
    if isinstance(right, slice):
        first, stop, _ = right.indices(X.shape[0])
        others, count, work = None, stop - first, int(begins[stop]) - int(begins[first])
    else:
        others, first, count = np.ascontiguousarray(right, dtype=np.int64), 0, len(right)
        work = int((begins[others + 1] - begins[others]).sum())
    out, place = np.empty((len(left), count)), np.zeros(X.shape[1], dtype=np.int32)
    for part, numbers in _together(begins[left + 1] - begins[left]):
        few = np.ascontiguousarray(left[part], dtype=np.int64)
        k, B = len(few), np.empty((1 + numbers, LINE))
        spread = (*given, address(few), k, address(place), address(B))
        run(f"spread_{kind}", (*spread, 0), 1, 1)
        arguments = (*given, address(others), first, k, address(place), address(B))
        target = (address(out[part]), count)
        run(f"sparse_times_{kind}", (*arguments, *target), count, _PIECE, threads_for(8 * work))
        run(f"spread_{kind}", (*spread, 1), 1, 1)
    return out


def _together(sizes: npt.NDArray[np.int32]) -> Iterator[tuple[slice, int]]:
    """Yield which rows, of so many numbers each, to multiply together, and the sum of these."""
    start, total = 0, 0
    for i, size in enumerate(sizes.tolist()):
        if i > start and (i - start == LINE or total + size > _ROOM):
            yield slice(start, i), total
            start, total = i, 0
        total += size
    if len(sizes):
        yield slice(start, len(sizes)), total
