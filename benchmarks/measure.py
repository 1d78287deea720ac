"""Time, memory and surroundings of one call, honestly.

Time is wall time: the median of several calls with the smallest and largest beside it. What a call
needs but does not pay for (a copy of input that it overwrites) is made before the clock starts.
Beside it: the share of the processors that other programs took meanwhile. It matters: threads of
a BLAS wait for each other by spinning, and one busy neighbour can cost a factor of ten.

Memory is measured on the first call in a fresh process, in two ways that fail differently:

- *buffers*: the peak of what NumPy and Python allocated (tracemalloc). Exact and repeatable, but
  blind to memory that a C or Fortran library takes for itself.
- *resident*: the growth of the process's peak resident set, which the kernel keeps (no sampling).
  Sees everything, packing buffers of OpenBLAS and pages of code included, to within some MB.

From both, the bytes of what the caller keeps (embedding, basis, residuals) are subtracted, so what
remains is what the method needs for itself beyond X.
"""

import os
import platform
import signal
import statistics
import time
import tracemalloc
from collections.abc import Callable, Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

SLOW = 10.0  # seconds; a call slower than this is repeated at most SLOW_REPEATS times
SLOW_REPEATS = 3


def clock(
    prepare: Callable[[], Any], call: Callable[[Any], Any], repeats: int, at_least: float
) -> dict[str, Any]:
    """Seconds of `call(prepare())`: median, smallest, largest, how many.

    Fast calls are repeated until they took `at_least` seconds together.
    """
    seconds: list[float] = []
    others = _OtherPrograms()
    while len(seconds) < repeats or sum(seconds) < at_least:
        argument = prepare()
        start = time.perf_counter()
        result = call(argument)
        seconds.append(time.perf_counter() - start)
        del argument, result  # the next call must not find memory taken by this one
        if seconds[0] > SLOW:
            repeats = min(repeats, SLOW_REPEATS)
    return {
        "median_s": statistics.median(seconds),
        "min_s": min(seconds),
        "max_s": max(seconds),
        "repeats": len(seconds),
        "others_cpu_percent": others.percent(),
    }


class _OtherPrograms:
    """How much of the processors did not work for this process, since the object was made."""

    def __init__(self) -> None:
        self._start = self._now()

    def percent(self) -> float | None:
        """Percent of all processors; None where unknown, or too short for the kernel's ticks."""
        wall, busy, own = (b - a for a, b in zip(self._start, self._now(), strict=True))
        if wall < 0.3 or busy == 0:
            return None
        return max(0.0, 100 * (busy - own) / (wall * (os.cpu_count() or 1)))

    @staticmethod
    def _now() -> tuple[float, float, float]:
        own = os.times()
        return time.perf_counter(), _busy_seconds(), own.user + own.system


def _busy_seconds() -> float:
    """Seconds that the processors worked, time stolen by a host included; 0 where unknown."""
    try:
        fields = Path("/proc/stat").read_text().splitlines()[0].split()[1:9]
    except OSError:
        return 0.0
    user, nice, system, _idle, _iowait, *rest = map(int, fields)
    return (user + nice + system + sum(rest)) / os.sysconf("SC_CLK_TCK")


def call_measured(call: Callable[[], Any], limit: float) -> tuple[Any, dict[str, int | None]]:
    """The result of `call()` and its peak memory in bytes, above what was there before.

    The process is ended by SIGALRM when the call takes more than `limit` seconds: a signal
    handler in Python would have to wait until LAPACK returns.
    """
    tracemalloc.start()
    before = _reset_peak_resident()
    signal.setitimer(signal.ITIMER_REAL, limit)
    result = call()
    signal.setitimer(signal.ITIMER_REAL, 0)
    after = _status("VmHWM")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    known = before is not None and after is not None
    return result, {"buffers": peak, "resident": after - before if known else None}


def _reset_peak_resident() -> int | None:
    """The resident bytes now, after making the kernel forget the earlier peak; None: it cannot."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return None
    return _status("VmRSS")


def _status(field: str) -> int | None:
    """A memory field of this process in bytes, as Linux reports it; None elsewhere."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    kib = next(line.split()[1] for line in lines if line.startswith(field + ":"))
    return 1024 * int(kib)


def total_bytes(arrays: Iterable[np.ndarray]) -> int:
    """The bytes of some arrays, counting memory that two of them share once."""
    return sum({a.__array_interface__["data"][0]: a.nbytes for a in arrays}.values())


def surroundings() -> dict[str, Any]:
    """Versions, processor, and the threads that each BLAS will use (none is set by us)."""
    import scipy.linalg  # noqa: F401  (threadpoolctl only sees libraries that are loaded)
    from threadpoolctl import threadpool_info

    pools = [
        {"library": Path(p["filepath"]).name}
        | {key: p.get(key) for key in ("version", "num_threads", "threading_layer", "architecture")}
        for p in threadpool_info()
    ]
    return {
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "cpu": _cpu(),
        "cpu_count": os.cpu_count(),
        "cpus_allowed": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
        "load_average_at_start": os.getloadavg()[0],
        "versions": {
            name: _version(name) for name in ("isopivot", "numpy", "scipy", "scikit-learn")
        },
        "thread_pools": pools,
    }


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _cpu() -> str:
    """The processor's name, where Linux tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor())
