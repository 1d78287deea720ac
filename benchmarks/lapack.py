"""LAPACK's truncated pivoted QR, `dgeqp3rk`, called with ctypes.

`dgeqp3rk` is the one widely available routine that stops greedy pivoting on an absolute
residual, so it is the baseline that matters. SciPy does not wrap it, but the OpenBLAS that SciPy's
wheel carries exports it (as NumPy's does, with 64-bit integers).

As shipped it runs with block size 1, one pivot at a time: it asks `ilaenv` for a block size, and
`ilaenv` compares four characters of the routine's name with the five of "QP3RK". `geqp3rk_blocked`
calls the blocked kernel `dlaqp3rk` directly, in blocks of 32 columns as was intended, and is thus
the stronger baseline. (Both answers of `ilaenv` were checked in OpenBLAS 0.3.30 and 0.3.31.)

LAPACK pivots columns: rows of `X` are points, so the matrix it sees is `A = X.T`. The memory of
a C-ordered `X` (n x m) is that of a Fortran-ordered `A` (m x n): no transposition takes place.
"""

import ctypes
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Literal

import numpy as np

Vendor = Literal["scipy", "numpy"]
BLOCK = 32  # columns; what ilaenv means to answer


@dataclass(frozen=True)
class TruncatedQR:
    """What the factorization leaves behind.

    Attributes
    ----------
    work : ndarray (n, m)
        The overwritten input. Row j belongs to point `order[j]`: its first `rank` entries are its
        coordinates (for j < rank only up to the diagonal), the others its residual vector.
    order : ndarray (n,)
        All row numbers; the first `rank` are the pivots, in pivot order.
    rank : int
        The number of pivots taken.
    largest_residual : float
        The largest residual norm after the last pivot, as the routine reports it.
    """

    work: np.ndarray
    order: np.ndarray
    rank: int
    largest_residual: float


def _library(vendor: Vendor) -> ctypes.CDLL:
    """The OpenBLAS of an installed wheel, loaded as that package loads it."""
    package = import_module("scipy.linalg" if vendor == "scipy" else "numpy")
    site = Path(package.__file__).parents[2 if vendor == "scipy" else 1]
    found = sorted((site / f"{vendor}.libs").glob("libscipy_openblas*"))
    if not found:
        raise OSError(
            f"no OpenBLAS in {vendor}.libs: this {vendor} does not come from a wheel of PyPI; "
            "reinstall it from there to compare with dgeqp3rk"
        )
    return ctypes.CDLL(str(found[0]))


class _Routine:
    """A Fortran subroutine: numbers are passed by reference, arrays by their address."""

    def __init__(self, name: str, vendor: Vendor) -> None:
        library = _library(vendor)
        # The build with 64-bit integers marks its symbols; 32 bits there would corrupt memory.
        wide = hasattr(library, f"scipy_{name}_64_")
        symbol = f"scipy_{name}_64_" if wide else f"scipy_{name}_"
        if not hasattr(library, symbol):
            raise OSError(f"the OpenBLAS of {vendor} has no {name}; SciPy >= 1.13 of PyPI has it")
        self._function = getattr(library, symbol)
        self._function.restype = None
        self.integer = np.int64 if wide else np.int32

    def __call__(self, *arguments: int | float | np.ndarray) -> None:
        arrays = [self._array(a) for a in arguments]  # alive until the call returns
        self._function(*(a.ctypes.data_as(ctypes.c_void_p) for a in arrays))

    def _array(self, argument: int | float | np.ndarray) -> np.ndarray:
        if isinstance(argument, int):
            return np.array([argument], self.integer)
        return np.asarray(argument, None if isinstance(argument, np.ndarray) else np.float64)

    def integers(self, size: int = 1) -> np.ndarray:
        return np.zeros(size, self.integer)


@cache  # looking a symbol up is not part of the work
def _routine(name: str, vendor: Vendor) -> _Routine:
    return _Routine(name, vendor)


def geqp3rk(
    X: np.ndarray,
    n_components: int,
    mu: float | None = None,
    vendor: Vendor = "scipy",
) -> TruncatedQR:
    """Greedy pivots of the rows of X, in place, by `dgeqp3rk` as it is shipped.

    Parameters
    ----------
    X : ndarray (n, m)
        C-ordered float64 points. Overwritten.
    n_components : int
        Stop after this many pivots.
    mu : float or None
        Stop when no residual norm exceeds mu. None: no such stop.
    vendor : {"scipy", "numpy"}
        Whose OpenBLAS.
    """
    _check(X)
    n, m = X.shape
    call = _routine("dgeqp3rk", vendor)
    order, iwork = call.integers(n), call.integers(n)
    order[:] = np.arange(1, n + 1)  # the routine leaves it alone when it takes no pivot
    rank, info = call.integers(), call.integers()
    tau, largest, relative = np.empty(min(n, m)), np.zeros(1), np.zeros(1)
    absolute = -1.0 if mu is None else mu

    def run(work: np.ndarray, size: int) -> None:
        stops = (n_components, absolute, -1.0)
        results = (rank, largest, relative, order, tau)
        call(m, n, 0, *stops, X, m, *results, work, size, iwork, info)
        _check_info("dgeqp3rk", info)

    query = np.empty(1)
    run(query, -1)
    run(np.empty(int(query[0])), int(query[0]))
    return TruncatedQR(X, order - 1, int(rank[0]), float(largest[0]))


def geqp3rk_blocked(
    X: np.ndarray,
    n_components: int,
    mu: float | None = None,
    vendor: Vendor = "scipy",
) -> TruncatedQR:
    """What `geqp3rk` returns, by its blocked kernel `dlaqp3rk`. Same parameters."""
    _check(X)
    n, m = X.shape
    call = _routine("dlaqp3rk", vendor)
    order, iwork = call.integers(n), call.integers(n)
    order[:] = np.arange(1, n + 1)
    done, taken, info = call.integers(), call.integers(), call.integers()
    partial = np.sqrt(np.vecdot(X, X))
    exact, first, largest = partial.copy(), int(partial.argmax()) + 1, float(partial.max())
    tau, aux, F = np.empty(min(n, m)), np.empty(BLOCK), np.empty((BLOCK, n))
    top, relative = np.zeros(1), np.zeros(1)
    absolute = -1.0 if mu is None else mu
    done[0] = largest <= absolute  # the kernel takes the first pivot untested
    j = 0
    while j < n_components and not done[0]:
        rest = n - j
        block = (m, rest, 0, j, min(BLOCK, n_components - j), absolute, -1.0, first, largest)
        results = (done, taken, top, relative, order[j:], tau[j:], partial[j:], exact[j:])
        call(*block, X[j:], m, *results, aux, F, rest, iwork, info)
        _check_info("dlaqp3rk", info)
        j += int(taken[0])
    return TruncatedQR(X, order - 1, j, float(partial[j:].max(initial=0.0)))


def _check(X: np.ndarray) -> None:
    if X.dtype != np.float64 or not X.flags.c_contiguous:
        raise ValueError(f"got {X.dtype}, strides {X.strides}; LAPACK needs C-ordered float64")


def _check_info(name: str, info: np.ndarray) -> None:
    if info[0] != 0:
        raise ValueError(f"{name} returned INFO = {info[0]}: NaN, infinity or a bad argument")


def unpack(qr: TruncatedQR) -> tuple[np.ndarray, np.ndarray]:
    """Coordinates (n, rank) and residual norms (n,), in the order of the input rows."""
    k = qr.rank
    head = qr.work[:, :k].copy()
    head[:k] = np.tril(head[:k])  # beyond the diagonal: Householder vectors
    tail = np.linalg.norm(qr.work[:, k:], axis=1)
    tail[:k] = 0.0
    coordinates, residuals = np.empty_like(head), np.empty_like(tail)
    coordinates[qr.order], residuals[qr.order] = head, tail
    return coordinates, residuals
