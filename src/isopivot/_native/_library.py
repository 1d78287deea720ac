"""The compiled library, where there is one, and how its work is shared."""

from __future__ import annotations

import ctypes
import os
from array import array
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy.typing as npt

FORMATS = ("f64", "f32")
_KINDS = (*FORMATS, "mixed")
# Multiplications below which a second thread does not pay.
SMALL = 1 << 18

_SIZE, _POINTER, _REAL = ctypes.c_ssize_t, ctypes.c_void_p, ctypes.c_double
_FLAG, _COUNT = ctypes.c_int, ctypes.c_int32
_KNOWN = (_POINTER, _POINTER)  # squared residuals and the rounding they hide
# What can be shared between threads: it takes a list of integers.
_JOBS = {
    **dict.fromkeys(("rows_times", "gram"), _KINDS),
    **dict.fromkeys(("replace", "read_once", "norms2", "finite"), FORMATS),
    **dict.fromkeys(("scatter", "triangular", "spread", "sparse_times"), FORMATS),
    "combine": (*FORMATS, "short"),
}
_ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "leaders": (*_KNOWN, _SIZE, _SIZE, _SIZE, _REAL, _REAL, _POINTER, _POINTER),
    "foremost": (*_KNOWN, _SIZE, _SIZE, _REAL, _POINTER, _SIZE),
    "outside": (*_KNOWN, _SIZE, _POINTER, _SIZE, _REAL, _POINTER),
    "behind": (_POINTER, _SIZE, _POINTER, _COUNT, _POINTER),
    "blurred": (_POINTER, _SIZE, *_KNOWN, _POINTER, _POINTER, _COUNT, _POINTER, _POINTER),
    "panel_pivots": (
        *(_POINTER, _SIZE, _POINTER, _SIZE, _SIZE),
        *(_REAL, _REAL, _REAL, _REAL, _REAL, _POINTER, _POINTER),
    ),
    "leading_inverse": (_POINTER, _SIZE, _REAL, _POINTER),
    **{f"orthonormalise_{kind}": (_POINTER,) * 3 for kind in FORMATS},
    **{
        f"pack_rows_{kind}": (_POINTER, _SIZE, _POINTER, _SIZE, _SIZE, _POINTER, _FLAG)
        for kind in FORMATS
    },
    **{f"all_unlined_{k}": (_POINTER, _SIZE, _SIZE, _POINTER, _FLAG) for k in FORMATS},
    **{f"greedy_{kind}": (_POINTER, _REAL) for kind in _KINDS},
    **{f"advance_{kind}": (_POINTER, _POINTER, _SIZE, _REAL, _REAL) for kind in _KINDS},
    **{f"{room}_{kind}": (_POINTER,) for room in ("room", "plan_room") for kind in _KINDS},
    **{f"recompute_{kind}": (_POINTER, _POINTER, _SIZE) for kind in _KINDS},
    "bytes_of_state": (),
    "run": (_POINTER, _POINTER, _FLAG, _SIZE, _SIZE, _FLAG),
}
_COUNTED = (
    *("leaders", "foremost", "behind", "blurred", "panel_pivots", "leading_inverse"),
    *(f"orthonormalise_{kind}" for kind in FORMATS),
    *(f"{name}_{kind}" for name in ("advance", "room", "plan_room") for kind in _KINDS),
    "bytes_of_state",
)
_RESULTS = {
    "outside": _REAL,
    **{f"greedy_{kind}": _FLAG for kind in _KINDS},
    **dict.fromkeys(_COUNTED, _SIZE),
}


@cache
def library() -> Any:
    """Return the library; None where it was not built, or ISOPIVOT_PURE asks for NumPy."""
    path = next(iter(sorted(Path(__file__).parent.glob("_kernels*"))), None)
    if path is None or os.environ.get("ISOPIVOT_PURE"):
        return None
    try:
        loaded = ctypes.CDLL(str(path))
        for name, arguments in _ARGUMENTS.items():
            function = getattr(loaded, name)
            function.argtypes, function.restype = list(arguments), _RESULTS.get(name)
        loaded.tuned.restype = ctypes.c_int
        for name, formats in _JOBS.items():
            for kind in formats:
                getattr(loaded, f"{name}_{kind}")
    except (OSError, AttributeError):  # built for another system, or from older sources
        return None
    return loaded


@cache
def products_pay() -> bool:
    """Return whether the compiled products can beat a BLAS: built for this processor."""
    return library() is not None and bool(library().tuned())


@cache
def _address(job: str) -> int:
    return ctypes.cast(getattr(library(), job), ctypes.c_void_p).value or 0


def run(job: str, arguments: Sequence[int], n: int, step: int, threads: int = 1) -> None:
    """Do a job on 0..n in pieces of `step`, on at most so many threads."""
    given = array("q", arguments)
    library().run(_address(job), given.buffer_info()[0], len(given), n, step, threads)


def call(name: str, arguments: Sequence[int], *more: Any) -> Any:
    """Call a function that takes a list of integers, and more."""
    given = array("q", arguments)
    return getattr(library(), name)(given.buffer_info()[0], *more)


def threads_for(work: int) -> int:
    """Return how many threads pay for so many multiplications."""
    return 1 if work < SMALL else threads_of_blas()


def threads_of_blas() -> int:
    """Return how many threads the BLAS libraries may use now: what the user set, or all."""
    counts = [blas.num_threads for blas in _blas()]
    return max(1, min(counts)) if counts else 1


@cache
def _blas() -> tuple[Any, ...]:
    from threadpoolctl import ThreadpoolController  # comes with scikit-learn

    return tuple(ThreadpoolController().select(user_api="blas").lib_controllers)


_NOTHING = ctypes.c_char * 0


def address(array: npt.NDArray[Any] | None) -> int:
    """Return where an array lies; 0 for none."""
    if array is None:
        return 0
    try:
        return ctypes.addressof(_NOTHING.from_buffer(array.data))
    except (TypeError, ValueError, BufferError):  # read-only, or with gaps: a slower way
        return int(array.ctypes.data)
