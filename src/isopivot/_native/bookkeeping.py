"""One reading of what is known of all rows, where NumPy would need several."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import numpy.typing as npt

from isopivot._native._library import library

Numbers = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]
Stages = npt.NDArray[np.int32]


def ready() -> bool:
    """Return whether these functions can be called."""
    return library() is not None


def leaders(residual2: Numbers, slack2: Numbers, count: int, stop2: float, window: float) -> Rows:
    """Return the `count` rows of largest bound above stop2, sorted, ties by lowest index."""
    n = len(residual2)
    rows = np.empty(min(count, n), dtype=np.intp)
    known = _addresses(residual2, slack2)
    found = library().leaders(*known, n, len(rows), stop2, window, rows.ctypes.data)
    if found < 0:
        raise MemoryError(f"got {n} rows; allowed is what fits into memory; use fewer rows")
    return rows[:found]


def outside(residual2: Numbers, slack2: Numbers, inside: Rows, window: float) -> tuple[float, int]:
    """Return the largest bound of the other rows, and the first of them within the window."""
    fence = ctypes.c_int64()
    n, k = len(residual2), len(inside)
    known = _addresses(residual2, slack2)
    most = library().outside(*known, n, inside.ctypes.data, k, window, ctypes.addressof(fence))
    return float(most), int(fence.value)


def downdate(
    rows: Rows,
    captured2: Numbers,
    unit: Numbers,
    s: int,
    residual2: Numbers,
    slack2: Numbers,
    stage: Stages,
) -> None:
    """Take captured2 off the squared residuals of `rows`, in place; they have seen s directions."""
    known = _addresses(residual2, slack2, stage)
    library().downdate(rows.ctypes.data, len(rows), *_addresses(captured2, unit), s, *known)


def unsettled(
    rows: Rows,
    residual2: Numbers,
    slack2: Numbers,
    unit: Numbers,
    stage: Stages,
    s: int,
    stop2: float,
    root_eps: float,
    *,
    stale: bool,
) -> Rows:
    """Return those of `rows` that are blurred and, if asked for, those that are stale."""
    found = np.empty(len(rows), dtype=np.intp)
    known = _addresses(residual2, slack2, unit, stage)
    count = library().unsettled(
        rows.ctypes.data, len(rows), *known, s, stop2, root_eps, stale, found.ctypes.data
    )
    return found[:count]


def _addresses(*arrays: npt.NDArray[Any]) -> list[int]:
    return [array.ctypes.data for array in arrays]
