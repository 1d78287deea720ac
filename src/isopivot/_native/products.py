"""Products of chosen rows, which are read where they lie."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from isopivot._native._library import library, products_pay, shared, threads_for

Matrix = npt.NDArray[Any]
Numbers = npt.NDArray[np.float64]

LONGEST = 1536  # numbers in a row; measured: at 3,000 a BLAS is 1.5 times as fast


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


def fits(A: Any) -> bool:
    """Return whether rows of `A` are short enough for this to beat a BLAS.

    Longer ones leave too few columns in the second-level cache.
    """
    return available(A) and A.shape[1] <= LONGEST


def packed(V: Matrix) -> Matrix:
    """Return the directions, rows of `V`, as columns that `project` can read from any one on."""
    k, m = V.shape
    lanes = 64 // V.itemsize
    wide = np.zeros((m, (-(-k // lanes) + 1) * lanes), dtype=V.dtype)
    wide[:, :k] = V.T
    return wide


def project(
    X: Matrix,
    rows: npt.NDArray[np.intp],
    starts: npt.NDArray[np.int32],
    columns: Matrix,
    shift: Matrix | None,
    F: Matrix,
) -> Numbers:
    """Write `V @ X[rows].T - shift` into `F[:, rows]`; return sums of squares per row.

    Parameters
    ----------
    X : ndarray of shape (n, m)
        Rows lie one after the other, or with gaps.
    rows : ndarray
    starts : ndarray of the shape of rows, int32
        Direction from which on a row is wanted; best in increasing order. Earlier ones may
        be computed again, to the same digits, but are not counted.
    columns : ndarray of shape (m, k or more)
        The k directions V, packed.
    shift : ndarray of shape (k,) or None
    F : ndarray of shape (k, n)

    Returns
    -------
    ndarray of shape (len(rows),), float64
    """
    captured2 = np.zeros(len(rows))
    chosen = np.ascontiguousarray(rows, dtype=np.int64)
    _rows_times(X, chosen, columns, shift, F.T, starts, captured2)
    return captured2


def product(A: Matrix, B: Matrix) -> Matrix:
    """Return `A @ B`."""
    out = np.empty((A.shape[0], B.shape[1]), dtype=A.dtype)
    _rows_times(A, None, padded(B, A.dtype), None, out)
    return out


def read_once(X: Matrix) -> tuple[Numbers, Numbers]:
    """Return the squared norms of the rows and the sum of all rows, in float64."""
    function = getattr(library(), f"read_once_{_format(X)}")
    n, m = X.shape
    norms2, totals = np.empty(n), []

    def part(lo: int, hi: int) -> None:
        total = np.zeros(m)
        start, step = X.ctypes.data + lo * X.strides[0], X.strides[0] // X.itemsize
        function(start, step, hi - lo, m, norms2.ctypes.data + 8 * lo, total.ctypes.data)
        totals.append((lo, total))

    shared(part, n, n * m)
    # In the order of the rows, whichever thread was first.
    return norms2, np.sum([total for _, total in sorted(totals, key=lambda t: t[0])], axis=0)


def scatter(F: Matrix, columns: npt.NDArray[np.intp], values: Matrix) -> None:
    """Write `F[:, columns] = values`, in place."""
    function = getattr(library(), f"scatter_{_format(F)}")
    chosen = np.ascontiguousarray(columns, dtype=np.int64)
    where = (F.ctypes.data, F.strides[0] // F.itemsize)
    what = (values.ctypes.data, values.strides[0] // F.itemsize)
    function(*where, chosen.ctypes.data, len(chosen), *what, len(values))


def _format(X: Matrix) -> str:
    return "f64" if X.dtype == np.float64 else "f32"


def _rows_times(
    X: Matrix,
    rows: npt.NDArray[np.int64] | None,
    B: Matrix,
    shift: Matrix | None,
    out: Matrix,
    starts: npt.NDArray[np.int32] | None = None,
    captured2: Numbers | None = None,
) -> None:
    """Fill `out` (its rows chosen by `rows`, if given), on several threads."""
    function = getattr(library(), f"rows_times_{_format(X)}")
    n, m, k = X.shape[0] if rows is None else len(rows), X.shape[1], out.shape[1]
    shift = None if shift is None else np.ascontiguousarray(shift, dtype=X.dtype)
    size = X.itemsize
    ldx, ldb, row_step, col_step = (
        step // size for step in (X.strides[0], B.strides[0], *out.strides)
    )
    width = panel_width(m, size)
    few = captured2 is None and threads_for(n, n * m * k) < threads_for(k, n * m * k)
    gaps = few and ldb > 2 * width

    def part(rows_lo: int, rows_hi: int, lo: int = 0, hi: int = k) -> None:
        at = 0 if rows is not None else rows_lo
        panel = np.empty((m, min(width, hi - lo + 16)), dtype=X.dtype) if gaps else None
        function(
            X.ctypes.data + at * X.strides[0],
            ldx,
            None if rows is None else rows.ctypes.data + 8 * rows_lo,
            rows_hi - rows_lo,
            m,
            B.ctypes.data + lo * size,
            ldb,
            hi - lo,
            None if shift is None else shift.ctypes.data + lo * size,
            out.ctypes.data + at * out.strides[0] + lo * out.strides[1],
            row_step,
            col_step,
            int(rows is not None),
            None if starts is None else starts.ctypes.data + 4 * rows_lo,
            None if captured2 is None else captured2.ctypes.data + 8 * rows_lo,
            None if panel is None else panel.ctypes.data,
            width,
        )

    if few:
        shared(lambda lo, hi: part(0, n, lo, hi), k, n * m * k)  # few rows: share the columns
    else:
        shared(part, n, n * m * k, None if starts is None else k + 4 - starts)


def panel_width(m: int, size: int) -> int:
    """Return how many columns of length m stay in the second-level cache: whole tiles."""
    tile = 3 * 64 // size
    return max(1, 786432 // size // max(1, m) // tile) * tile


def padded(B: Matrix, dtype: Any) -> Matrix:
    """Return `B` in rows of whole vectors, filled up with zeros."""
    m, k = B.shape
    lanes = 64 // np.dtype(dtype).itemsize
    width = -(-k // lanes) * lanes
    if width == k and B.dtype == dtype and B.strides[1] == B.itemsize and B.strides[0] > 0:
        return B
    wide = np.zeros((m, width), dtype=dtype)
    wide[:, :k] = B
    return wide
