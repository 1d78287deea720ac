"""The compiled library, where there is one, and the threads that share its work."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

FORMATS = ("f64", "f32")
# Multiplications below which a second thread does not pay.
SMALL = 1 << 20

_SIZE, _POINTER, _REAL = ctypes.c_ssize_t, ctypes.c_void_p, ctypes.c_double
_FLAG, _COUNT = ctypes.c_int, ctypes.c_int32
_MATRIX = (_POINTER, _SIZE)
_KNOWN = (_POINTER, _POINTER)  # squared residuals and the rounding they hide
_ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "rows_times": (
        *(*_MATRIX, _POINTER, _SIZE, _SIZE, *_MATRIX, _SIZE, _POINTER),
        *(_POINTER, _SIZE, _SIZE, _FLAG, _POINTER, _POINTER, *_MATRIX),
    ),
    "read_once": (*_MATRIX, _SIZE, _SIZE, _POINTER, _POINTER),
    "scatter": (*_MATRIX, _POINTER, _SIZE, *_MATRIX, _SIZE),
    "leaders": (*_KNOWN, _SIZE, _SIZE, _REAL, _REAL, _POINTER),
    "outside": (*_KNOWN, _SIZE, _POINTER, _SIZE, _REAL, _POINTER),
    "downdate": (_POINTER, _SIZE, _POINTER, _POINTER, _COUNT, *_KNOWN, _POINTER),
    "unsettled": (
        *(_POINTER, _SIZE, *_KNOWN, _POINTER, _POINTER, _COUNT, _REAL, _REAL, _FLAG, _POINTER),
    ),
}
_RESULTS = {"leaders": _SIZE, "outside": _REAL, "unsettled": _SIZE}


@cache
def library() -> Any:
    """Return the library; None where it was not built, or ISOPIVOT_PURE asks for NumPy."""
    path = next(iter(sorted(Path(__file__).parent.glob("_kernels*"))), None)
    if path is None or os.environ.get("ISOPIVOT_PURE"):
        return None
    try:
        loaded = ctypes.CDLL(str(path))
        for name, arguments in _ARGUMENTS.items():
            typed = name in ("rows_times", "read_once", "scatter")
            for symbol in [f"{name}_{kind}" for kind in FORMATS] if typed else [name]:
                function = getattr(loaded, symbol)
                function.argtypes, function.restype = list(arguments), _RESULTS.get(name)
        loaded.tuned.restype = ctypes.c_int
    except (OSError, AttributeError):  # built for another system, or from older sources
        return None
    return loaded


@cache
def products_pay() -> bool:
    """Return whether the compiled products can beat a BLAS: built for this processor."""
    return library() is not None and bool(library().tuned())


def shared(part: Callable[[int, int], None], n: int, work: int, weights: Any | None = None) -> None:
    """Call `part(lo, hi)` on pieces that cover 0..n, one per thread, of equal weight."""
    threads = threads_for(n, work)
    if threads == 1:
        part(0, n)
        return
    shares = [t / threads for t in range(threads + 1)]
    ends = [n * share for share in shares] if weights is None else _cuts(weights, shares)
    # Pieces begin at multiples of what is multiplied together: rows by 8, columns by 16.
    cuts = [min(n, -(-int(end) // 16) * 16) for end in ends]
    others = [_started(part, *cuts[t : t + 2]) for t in range(1, threads)]
    part(cuts[0], cuts[1])
    for other in others:
        other()


def _started(part: Callable[[int, int], None], lo: int, hi: int) -> Callable[[], object]:
    """Return what waits for the piece, begun on another thread while there still are any."""
    try:
        return _pool().submit(part, lo, hi).result
    except RuntimeError:  # the interpreter is shutting down and starts no more of them
        return lambda: part(lo, hi)


def _cuts(weights: Any, shares: list[float]) -> list[int]:
    """Return where sorted work is to be cut so that every piece has its share."""
    total = weights.cumsum()
    return [int(total.searchsorted(share * total[-1])) for share in shares[:-1]] + [len(total)]


def threads_for(n: int, work: int) -> int:
    """Return how many threads pay for n rows or columns and so many multiplications."""
    return 1 if work < SMALL else min(threads_of_blas(), max(1, n // 16))


def threads_of_blas() -> int:
    """Return how many threads the BLAS libraries may use now: what the user set, or all."""
    counts = [blas.num_threads for blas in _blas()]
    return max(1, min(counts)) if counts else 1


@cache
def _blas() -> tuple[Any, ...]:
    from threadpoolctl import ThreadpoolController  # comes with scikit-learn

    return tuple(ThreadpoolController().select(user_api="blas").lib_controllers)


_POOL: list[ThreadPoolExecutor] = []


def _pool() -> ThreadPoolExecutor:
    if not _POOL:
        _POOL.append(ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="isopivot"))
    return _POOL[0]


if hasattr(os, "register_at_fork"):  # a child has no threads but its own
    os.register_at_fork(after_in_child=_POOL.clear)
