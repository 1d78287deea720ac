"""The greedy loop on dense rows, wholly compiled: what it is given, and what it leaves behind."""

from __future__ import annotations

import ctypes
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from isopivot._native._library import address, library

Rows = npt.NDArray[np.intp]

_POINTER, _COUNT, _REAL = ctypes.c_void_p, ctypes.c_int64, ctypes.c_double
_FIELDS: tuple[tuple[Any, str], ...] = (
    (_POINTER, "X mean"),
    (_COUNT, "ldx n m"),
    (_POINTER, "unit residual2 slack2 stage"),
    (_POINTER, "pivots entered Q of_mean lines"),
    (_COUNT, "s capacity target"),
    (_REAL, "mu floor floor_per_root"),
    (_REAL, "window relaxation2 depth blur explicit_below clear stored rounding stored_eps"),
    (_REAL, "root_eps worth orthogonal picked free_work short_panel"),
    (_COUNT, "panel fewest explicit_panel yield_ group few most wide short_from"),
    (_COUNT, "threads small spare cache features"),
    (_COUNT, "size refreshed rows_read spent finishing"),
    (_POINTER, "rows"),
    (_COUNT, "count fence"),
    (_REAL, "bound2"),
    (_POINTER, "G G_before carried rows_before slots slots_before"),
    (_COUNT, "ldc count_before s_before"),
    (_POINTER, "E"),
    (_COUNT, "E_room"),
    (_REAL, "products explicit_residuals grams directions"),
    (_COUNT, "listed"),
    (_POINTER, "list plan places values measured2 work"),
)


class State(ctypes.Structure):
    """What the loop knows between two calls: `struct state` of `state.inc`."""

    _fields_ = [(name, kind) for kind, names in _FIELDS for name in names.split()]


class Why(IntEnum):
    """Why the loop returned."""

    ENDED = 0  # every row is up to date, and the largest residuals are exact
    FULL = 1  # it needs room for more pivots
    PAUSED = 2  # others may want to be heard
    BLIND = 3  # the digits of float32 are used up
    EXPLICIT = 4  # it needs room for the residual vectors of a panel


def greedy(state: State, kind: str, pause: float) -> Why:
    """Take panels of pivots until there is a reason to return, or so many seconds went by."""
    return Why(getattr(library(), f"greedy_{kind}")(ctypes.byref(state), pause))


def rooms(state: State, kind: str) -> tuple[int, int]:
    """Return how many bytes of work and of plan it needs."""
    loaded, given = library(), ctypes.byref(state)
    return (
        int(getattr(loaded, f"room_{kind}")(given)),
        int(getattr(loaded, f"plan_room_{kind}")(given)),
    )


def advance(state: State, kind: str, rows: Rows | None, stop2: float, error: float) -> int:
    """Bring some rows, or all, up to date; return how many are blurred then.

    They stand in the plan.
    """
    function, n = getattr(library(), f"advance_{kind}"), state.n if rows is None else len(rows)
    return int(function(ctypes.byref(state), address(rows), n, stop2, error))


def recompute(state: State, kind: str, rows: Rows) -> None:
    """Measure the residuals of some rows that are up to date. `rows` is overwritten."""
    getattr(library(), f"recompute_{kind}")(ctypes.byref(state), address(rows), len(rows))
