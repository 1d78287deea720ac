"""Products of chosen rows, which are read where they lie."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from isopivot._native._library import library, shared

Matrix = npt.NDArray[Any]
Numbers = npt.NDArray[np.float64]


def available(A: Any) -> bool:
    """Return whether products with the rows of `A` can be computed here."""
    return (
        isinstance(A, np.ndarray)
        and A.ndim == 2
        and A.dtype in (np.float64, np.float32)
        and A.dtype.isnative
        and A.strides[1] == A.itemsize
        and A.strides[0] >= 0
        and A.strides[0] % A.itemsize == 0
        and library() is not None
    )


def packed(V: Matrix) -> Matrix:
    """Return the directions, rows of `V`, as columns that `project` can read from any one on."""
    k, m = V.shape
    lanes = 64 // V.itemsize
    wide = np.zeros((m, (-(-k // lanes) + 1) * lanes), dtype=V.dtype)
    wide[:, :k] = V.T
    return wide


def project(
    X: Matrix, rows: npt.NDArray[np.intp], columns: Matrix, shift: Matrix | None, F: Matrix
) -> Numbers:
    """Write `V @ X[rows].T - shift` into `F[:, rows]`; return the sums of squares per row.

    Parameters
    ----------
    X : ndarray of shape (n, m)
        Rows lie one after the other, or with gaps.
    rows : ndarray
    columns : ndarray of shape (m, k or more)
        The k directions V, packed; the first of them may be left out by slicing.
    shift : ndarray of shape (k,) or None
    F : ndarray of shape (k, n)

    Returns
    -------
    ndarray of shape (len(rows),), float64
    """
    captured2 = np.empty(len(rows))
    chosen = np.ascontiguousarray(rows, dtype=np.int64)
    _rows_times(X, chosen, columns, shift, F.T, captured2)
    return captured2


def product(A: Matrix, B: Matrix) -> Matrix:
    """Return `A @ B`."""
    out = np.empty((A.shape[0], B.shape[1]), dtype=A.dtype)
    _rows_times(A, None, padded(B, A.dtype), None, out, None)
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
    captured2: Numbers | None,
) -> None:
    """Fill `out` (its rows chosen by `rows`, if given), on several threads."""
    function = getattr(library(), f"rows_times_{_format(X)}")
    n, m, k = X.shape[0] if rows is None else len(rows), X.shape[1], out.shape[1]
    shift = None if shift is None else np.ascontiguousarray(shift, dtype=X.dtype)
    size = X.itemsize
    steps = [step // size for step in out.strides]

    def part(lo: int, hi: int) -> None:
        at = 0 if rows is not None else lo
        function(
            X.ctypes.data + at * X.strides[0],
            X.strides[0] // size,
            None if rows is None else rows.ctypes.data + 8 * lo,
            hi - lo,
            m,
            B.ctypes.data,
            B.strides[0] // size,
            k,
            None if shift is None else shift.ctypes.data,
            out.ctypes.data + at * out.strides[0],
            *steps,
            int(rows is not None),
            None if captured2 is None else captured2.ctypes.data + 8 * lo,
        )

    shared(part, n, n * m * k)


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
