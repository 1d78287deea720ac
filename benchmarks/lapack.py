"""LAPACK's truncated pivoted QR, `dgeqp3rk`, called with ctypes.

`dgeqp3rk` is the one widely available routine that stops greedy pivoting on an absolute
residual, so it is the baseline that matters. SciPy does not wrap it, but the OpenBLAS that SciPy's
wheel carries exports it (as NumPy's does, with 64-bit integers).

LAPACK pivots columns: rows of `X` are points, so the matrix it sees is `A = X.T`. The memory of
a C-ordered `X` (n x m) is that of a Fortran-ordered `A` (m x n): no transposition takes place.
"""

import ctypes
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Literal

import numpy as np

Vendor = Literal["scipy", "numpy"]
Routine = tuple[object, type[np.signedinteger]]


@dataclass(frozen=True)
class TruncatedQR:
    """What `dgeqp3rk` leaves behind.

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


def routine(vendor: Vendor = "scipy") -> Routine:
    """The function `dgeqp3rk` and the integer type it was compiled with."""
    library = _library(vendor)
    # The 64-bit-integer build marks its symbols; calling it with 32 bits would corrupt memory.
    for symbol, integer in (("scipy_dgeqp3rk_64_", np.int64), ("scipy_dgeqp3rk_", np.int32)):
        if hasattr(library, symbol):
            function = getattr(library, symbol)
            function.restype = None
            return function, integer
    raise OSError(f"the OpenBLAS of {vendor} has no dgeqp3rk; SciPy >= 1.13 from PyPI has it")


def geqp3rk(
    X: np.ndarray,
    n_components: int,
    mu: float | None = None,
    vendor: Vendor = "scipy",
) -> TruncatedQR:
    """Greedy pivots of the rows of X, in place.

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
    if X.dtype != np.float64 or not X.flags.c_contiguous:
        raise ValueError(f"got {X.dtype}, strides {X.strides}; dgeqp3rk needs C-ordered float64")
    function, integer = routine(vendor)
    n, m = X.shape
    order = np.arange(1, n + 1, dtype=integer)  # the routine leaves it alone when it takes none
    tau, iwork = np.empty(min(n, m)), np.empty(max(1, n), dtype=integer)
    rank, info = np.zeros(1, integer), np.zeros(1, integer)
    largest, relative = np.zeros(1), np.zeros(1)
    sizes = [np.array([k], integer) for k in (m, n, 0, n_components)]
    limits = [np.array([-1.0 if mu is None else mu]), np.array([-1.0])]

    def call(workspace: np.ndarray, size: int) -> None:
        arguments = [*sizes, *limits, X, sizes[0], rank, largest, relative, order, tau]
        arguments += [workspace, np.array([size], integer), iwork, info]
        function(*(a.ctypes.data_as(ctypes.c_void_p) for a in arguments))
        if info[0] != 0:
            raise ValueError(f"dgeqp3rk returned INFO = {info[0]} (NaN, infinity or bad argument)")

    query = np.empty(1)
    call(query, -1)
    size = int(query[0])
    call(np.empty(size), size)
    return TruncatedQR(X, order - 1, int(rank[0]), float(largest[0]))


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
