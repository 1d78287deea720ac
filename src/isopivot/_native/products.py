"""Products of chosen rows, which are read where they lie."""

from __future__ import annotations

import itertools
from array import array
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from isopivot._native import _library
from isopivot._native._library import address, call, products_pay, run, threads_for

Matrix = npt.NDArray[Any]
Numbers = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]

CACHE = 786432  # bytes that stay in the second-level cache while rows pass by
PIECE = 1 << 20  # bytes of rows that are one piece of work
SPARE = 1 << 22  # bytes of a copy that may be made
MOST_BEYOND = 0.03  # part of the coordinates that may be kept beyond them
LINE = 8  # directions whose coordinates lie together; the compiled functions know it, too
UNIT = 8  # columns that are multiplied with at once, at least; the compiled functions know it
TILE = 24  # at most
FEATURES = 1024  # of a Gram matrix, that are summed at a time


def available(A: Any) -> bool:
    """Return whether products with the rows of `A` can be computed here."""
    return (
        isinstance(A, np.ndarray)
        and A.ndim == 2
        and A.dtype in (np.float64, np.float32)
        and A.dtype.isnative
        and A.flags.aligned
        and A.strides[1] == A.itemsize
        and A.strides[0] >= 0
        and A.strides[0] % A.itemsize == 0
        and products_pay()
    )


@dataclass(frozen=True, eq=False)
class Packed:
    """Rows, as columns that rows can be multiplied with: units of 8."""

    data: Matrix
    k: int  # columns, those that only fill up included
    m: int


def pack(V: Matrix, rows: Rows | None = None) -> Packed:
    """Return rows of `V`, packed; a negative one is zero."""
    k, ldx, chosen, _ = _sources(V, rows, None)
    m = V.shape[1]
    data = np.empty(-(-k // UNIT) * UNIT * even(m), dtype=V.dtype)
    function = getattr(_library.library(), f"pack_rows_{_format(V)}")
    function(address(V), ldx, address(chosen), k, m, address(data), threads_for(k * m))
    return Packed(data, k, m)


def multiply(
    X: Matrix,
    rows: Rows | None,
    B: Packed,
    where: npt.NDArray[np.uintp] | None,
    step: int,
    *,
    shift: Matrix | None = None,
    scatter: bool = True,
) -> Numbers:
    """Write the products of rows with `B`, less `shift`; return their sums of squares per row.

    Parameters
    ----------
    X : ndarray of shape (n, m)
        Rows lie one after the other, or with gaps.
    rows : ndarray or None
        Which of them; None for all.
    B : Packed
        In the format of X, or float64: then sums are, too.
    where : ndarray of shape (B.k,) or None
        Address where the product of row 0 with each column belongs; that of row i lies `step`
        numbers, times i, further on (without `scatter`: that of the i-th of `rows`). 0 for
        columns that only fill up. None: only the sums of squares are wanted.
    shift : ndarray of shape (B.k,) or None
    """
    n, ldx, chosen, _ = _sources(X, rows, None)
    captured2 = np.empty(n)
    if shift is not None:
        shift = np.ascontiguousarray(shift, dtype=B.data.dtype)
    threads = threads_for(n * B.m * B.k)
    piece = min(-(-n // (2 * threads)), max(64, PIECE // max(1, B.m * X.itemsize)))
    piece = max(16, -(-piece // 16) * 16)
    arguments = (
        *(address(X), ldx, address(chosen), B.m, address(B.data), B.k, address(shift)),
        *(address(where), step, int(scatter and rows is not None), 0),
        *(address(captured2), tiles_of(B.m, B.data.itemsize), *(0,) * 7, piece),
    )
    run(f"rows_times_{_format(X, X.dtype != B.data.dtype)}", arguments, n, piece, threads)
    return captured2


def inner(A: Matrix, B: Matrix) -> Matrix:
    """Return `A @ B.T`: the inner products of two sets of rows of one format."""
    out = np.empty((len(A), len(B)), dtype=A.dtype)
    # What is multiplied with is copied: the smaller of the two.
    rows, few, target = (A, B, out) if len(A) >= len(B) else (B, A, out.T)
    where, step = columns_of(target), target.strides[0] // out.itemsize
    most = max(1, SPARE // (TILE * few.itemsize * max(1, few.shape[1]))) * TILE
    for lo in range(0, len(few), most):
        part = slice(lo, lo + most)
        multiply(rows, None, pack(few[part]), where[part], step)
    return out


def against(X: Matrix, rows: Rows, B: Packed, shift: Matrix | None = None) -> Matrix:
    """Return the products of `B` with chosen rows, less `shift`: (B.k, len(rows))."""
    out = np.empty((B.k, len(rows)), dtype=X.dtype)
    multiply(X, rows, B, columns_of(out.T), 1, shift=shift, scatter=False)
    return out


def columns_of(out: Matrix) -> npt.NDArray[np.uintp]:
    """Return where the columns of a matrix begin."""
    steps = np.arange(out.shape[1], dtype=np.uintp) * np.uintp(out.strides[1])
    return np.uintp(address(out)) + steps


def gram(X: Matrix, rows: Rows | None = None, mean: Matrix | None = None, *, wide: bool) -> Numbers:
    """Return the inner products of rows less `mean`, (k, k); summed in float64 if `wide`."""
    k, ldx, chosen, mean = _sources(X, rows, mean)
    m = X.shape[1]
    mixed = wide and X.dtype == np.float32
    threads = min(threads_for(k * k * m), -(-k // TILE))
    G = np.empty((k, k))
    most = max(2, min(even(m), FEATURES))
    room = np.empty(threads * most * TILE, dtype=np.float64 if mixed else X.dtype)
    sources = (address(X), ldx, address(chosen), k, 0, k, m, address(mean))
    given = (*sources, address(G), k, 0, address(room), most)
    run(f"gram_{_format(X, mixed)}", given, k, TILE, threads)
    return G


def combine(C: Matrix, B: Matrix, out: Matrix, sign: int = 1) -> None:
    """Add `sign * C.T @ B` to `out`: few rows, each a sum of rows of B."""
    n, k = C.shape
    wide = -(-k // 8) * 8
    if not _reaches(C, wide) or C.strides[1] != C.itemsize or C.dtype != B.dtype:
        C, unpadded = np.zeros((n, wide), dtype=B.dtype), C
        C[:, :k] = unpadded
    ldc, ldb, ldo = (M.strides[0] // M.itemsize for M in (C, B, out))
    arguments = (address(C), ldc, n, k, address(B), ldb, address(out), ldo, sign)
    m = B.shape[1]
    threads = threads_for(n * k * m)
    run(f"combine_{_format(B)}", arguments, m, shared_columns(m, B.itemsize, threads), threads)


def shared_columns(m: int, itemsize: int, threads: int) -> int:
    """Return how many of m columns, whole tiles, are one piece of work."""
    tile = 192 // itemsize
    return max(1, -(-m // (4 * threads * tile)) * tile if threads > 1 else m)


def replace(M: Matrix, E: Matrix) -> None:
    """Write `M @ E` into the place of E; M is square and small."""
    k = len(M)
    C = np.zeros((k, -(-k // 8) * 8), dtype=E.dtype)
    C[:, :k] = M.T
    m, tile = E.shape[1], 192 // E.itemsize
    threads = threads_for(k * k * m)
    rooms = np.empty(threads * k * tile, dtype=E.dtype)
    lde = E.strides[0] // E.itemsize
    arguments = (address(C), C.shape[1], k, address(E), lde, address(rooms))
    run(f"replace_{_format(E)}", arguments, m, shared_columns(m, E.itemsize, threads), threads)


def orthonormalise(E: Matrix, Q: Matrix, stop2: float, orthogonal: float) -> tuple[Matrix, Numbers]:
    """Make rows of E orthonormal, and orthogonal to Q, in their place; see `_algebra`.

    Of a unit vector that counts as orthogonal Q has no more than `orthogonal`. Returns those rows
    of E, and the residual at which each entered.
    """
    (k, m), s, size, threads = E.shape, len(Q), E.itemsize, _library.threads_of_blas()
    wide, features = -(-k // 8) * 8, max(2, min(even(m), FEATURES))
    some = min(-(-k // TILE), max(1, SPARE // (TILE * size * max(1, m)))) * TILE
    parts = (
        *(8 * k * k, 8 * k * k, size * max(s, k) * wide, size * some * even(m)),
        *(max(8 * s, 192 * threads * max(features, k)), 8 * k),
    )
    room, entered = np.empty(sum(parts) // 8 + 1), np.empty(2 * k)
    places = [*itertools.accumulate(parts[:-1], initial=address(room))]
    shape = (E.strides[0] // size, Q.strides[0] // size, k, m, s, wide)
    how = (some, features, tiles_of(m, size), threads, _library.SMALL)
    given, limits = (address(E), address(Q), *shape, *how, *places), array("d", (stop2, orthogonal))
    results = (limits.buffer_info()[0], address(entered))
    found = call(f"orthonormalise_{_format(E)}", given, *results)
    return E[:found], entered[:found]


def unlined(lines: Matrix, s: int) -> Matrix:
    """Return coordinates as a matrix (s, n), in the same memory.

    They lie in lines of LINE directions, point by point: `lines` has a row for each of those.
    """
    groups, whole = -(-s // LINE), lines.shape[1]
    room = np.empty(whole, dtype=lines.dtype)
    function = getattr(_library.library(), f"all_unlined_{_format(lines)}")
    function(address(lines), whole // LINE, groups, address(room), threads_for(8 * whole))
    lines.resize((groups * LINE, whole // LINE), refcheck=False)
    if MOST_BEYOND * s < groups * LINE - s:
        lines.resize((s, whole // LINE), refcheck=False)
    # A block that is given back as it was asked for is what the next fit of this size gets,
    # without new pages from the system.
    return lines[:s]


def tiles_of(m: int, itemsize: int) -> int:
    """Return how many tiles of m features stay in the second-level cache."""
    return max(1, CACHE // (TILE * itemsize * max(1, m)))


def even(m: int) -> int:
    """Return how many features a unit has place for: in float32 they come in pairs."""
    return m + m % 2


def _reaches(C: Matrix, wide: int) -> bool:
    """Return whether `wide` numbers can be read in every row; what is beyond k is not used."""
    if wide <= C.shape[1] or C.size == 0:
        return True
    whole = C.base if isinstance(C.base, np.ndarray) else C
    last = C.ctypes.data + (len(C) - 1) * C.strides[0]
    return bool(last + wide * C.itemsize <= np.lib.array_utils.byte_bounds(whole)[1])


def read_once(X: Matrix) -> tuple[Numbers, Numbers]:
    """Return the squared norms of the rows and the sum of all rows, in float64."""
    n, m = X.shape
    step = max(_piece(X), -(-n // 32))  # each piece has sums of its own
    norms2, totals = np.empty(n), np.zeros((-(-n // step), m))
    arguments = (address(X), X.strides[0] // X.itemsize, m, address(norms2), address(totals), step)
    run(f"read_once_{_format(X)}", arguments, n, step, threads_for(n * m))
    return norms2, totals.sum(axis=0)


def norms2(X: Matrix, mean: Matrix | None) -> Numbers:
    """Return the squared norms of the rows less `mean`, in float64."""
    n, m = X.shape
    mean = None if mean is None else np.ascontiguousarray(mean, dtype=np.float64)
    out = np.empty(n)
    arguments = (address(X), X.strides[0] // X.itemsize, m, address(mean), address(out))
    run(f"norms2_{_format(X)}", arguments, n, _piece(X), threads_for(n * m))
    return out


def all_finite(X: Matrix) -> bool:
    """Return whether no number is infinite or NaN."""
    n, m = X.shape
    step = _piece(X)
    bad = np.empty(-(-n // step))
    arguments = (address(X), X.strides[0] // X.itemsize, m, address(bad), step)
    run(f"finite_{_format(X)}", arguments, n, step, threads_for(n * m))
    return bool((bad == 0.0).all())


def _piece(X: Matrix) -> int:
    """Return how many rows are read as one piece of work."""
    return max(1, PIECE // max(1, int(X.shape[1]) * X.itemsize))


def scatter(F: Matrix, columns: Rows, values: Matrix) -> None:
    """Write `F[:, columns] = values`, in place."""
    chosen = np.ascontiguousarray(columns, dtype=np.int64)
    ldf, ldv = (M.strides[0] // F.itemsize for M in (F, values))
    arguments = (address(F), ldf, address(chosen), len(chosen), address(values), ldv)
    run(f"scatter_{_format(F)}", arguments, len(values), max(1, len(values)))


def triangular(F: Matrix, columns: Rows) -> None:
    """Write 0 to `F[j, columns[:j]]` for every row j, in place."""
    chosen = np.ascontiguousarray(columns, dtype=np.int64)
    arguments = (address(F), F.strides[0] // F.itemsize, address(chosen))
    run(f"triangular_{_format(F)}", arguments, len(F), 16, threads_for(F.shape[0] ** 2))


def _sources(
    X: Matrix, rows: Rows | None, mean: Matrix | None
) -> tuple[int, int, npt.NDArray[np.int64] | None, Matrix | None]:
    """Return how many rows, numbers from one to the next, their indices, and their mean."""
    chosen = None if rows is None else np.ascontiguousarray(rows, dtype=np.int64)
    n = len(X) if chosen is None else len(chosen)
    mean = None if mean is None else np.ascontiguousarray(mean, dtype=X.dtype)
    return n, X.strides[0] // X.itemsize, chosen, mean


def _format(X: Matrix, mixed: bool = False) -> str:
    return "mixed" if mixed else "f64" if X.dtype == np.float64 else "f32"
