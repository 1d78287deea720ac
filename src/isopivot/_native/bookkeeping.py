"""One reading of what is known of all rows, where NumPy would need several."""

from __future__ import annotations

import ctypes
from array import array
from typing import Any

import numpy as np
import numpy.typing as npt

from isopivot._native._library import address, library

Numbers = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]
Stages = npt.NDArray[np.int32]


def ready() -> bool:
    """Return whether these functions can be called."""
    return library() is not None


def leaders(
    residual2: Numbers, slack2: Numbers | None, count: int, stop2: float, window: float
) -> Rows:
    """Return the `count` rows of largest bound above stop2, sorted, ties by lowest index."""
    n = len(residual2)
    count = min(count, n)
    most = min(n, 8 * count + 512)
    rows, values = np.empty(most, dtype=np.intp), np.empty(most)
    known, found = (address(residual2), address(slack2)), _addresses(rows, values)
    return rows[: library().leaders(*known, n, count, most, stop2, window, *found)].copy()


def foremost(
    residual2: Numbers, slack2: Numbers | None, count: int, stop2: float, most: int
) -> Rows | None:
    """Return about `count` rows of largest bound above stop2; None if there are more than `most`.

    Never fewer than one, where there is any.
    """
    n, room = len(residual2), max(most, 1)
    rows = np.empty(room, dtype=np.intp)
    known = (address(residual2), address(slack2))
    found = library().foremost(*known, n, count, stop2, address(rows), room)
    return None if found > room else rows[:found].copy()


def outside(
    residual2: Numbers, slack2: Numbers | None, inside: Rows, window: float
) -> tuple[float, int]:
    """Return the largest bound of the other rows, and the first of them within the window."""
    fence = ctypes.c_int64()
    n, k = len(residual2), len(inside)
    known = (address(residual2), address(slack2))
    most = library().outside(*known, n, address(inside), k, window, ctypes.addressof(fence))
    return float(most), int(fence.value)


def behind(rows: Rows, stage: Stages, s: int) -> Rows:
    """Return those of `rows` that have not seen s directions."""
    n, found = len(rows), np.empty(len(rows), dtype=np.intp)
    return found[: library().behind(address(rows), n, address(stage), s, address(found))]


def blurred(
    rows: Rows,
    residual2: Numbers,
    slack2: Numbers,
    unit: Numbers,
    stage: Stages,
    s: int,
    limits: tuple[float, float, float],
) -> Rows:
    """Return those of `rows` that are up to date, but whose residual hides too much rounding.

    `limits` say when one does (`Orthonormal._blurred`): stop2, the root of eps, and the error
    that residuals may have.
    """
    found, given = np.empty(len(rows), dtype=np.intp), array("d", limits)
    known = _addresses(residual2, slack2, unit, stage)
    more = (s, given.buffer_info()[0], address(found))
    return found[: library().blurred(address(rows), len(rows), *known, *more)]


def panel_pivots(
    G: Numbers,
    rows: Rows,
    fence: int,
    room: int,
    bound2: float,
    stop2: float,
    depth: float,
    window: float,
    blur2: float,
) -> Rows:
    """Return the positions in a panel that greedy takes, in order (`_greedy.panel_pivots`)."""
    n, room = len(G), min(room, len(G))
    order, L = np.empty(room, dtype=np.intp), np.empty((room + 1, n))
    given, chosen = _addresses(G, rows), _addresses(order, L)
    limits = (bound2, stop2, depth, window, blur2)
    return order[: library().panel_pivots(given[0], n, given[1], fence, room, *limits, *chosen)]


def leading_inverse(G: Numbers, stop2: float) -> tuple[Numbers, Numbers]:
    """Return L^-1, and the diagonal of L, of the leading block of G = L L' above stop2.

    G is overwritten.
    """
    n = len(G)
    inverse = np.empty((n, n))
    k = library().leading_inverse(address(G), n, stop2, address(inverse))
    return inverse[:k, :k], np.diagonal(G)[:k].copy()


def _addresses(*arrays: npt.NDArray[Any]) -> list[int]:
    return [address(array) for array in arrays]
