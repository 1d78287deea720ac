"""Array namespaces, precision, and walking a matrix row block by row block."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import array_api_compat
import numpy as np
import numpy.typing as npt
from scipy import sparse

from isopivot import _native

# Arrays of any array-API namespace. Bookkeeping vectors (residuals, stages, indices) are
# always NumPy; only the data, the basis and the coordinates live in the input's namespace.
Array = Any
Vector = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]

BLOCK_BYTES = 1 << 22  # a block of rows that stays in the cache while it is used twice


class AccuracyError(ValueError):
    """The floating-point format cannot certify the requested mu on this data."""


def namespace(X: Array) -> Any:
    """Return the array-API namespace of `X`; NumPy itself for NumPy and sparse arrays."""
    if isinstance(X, np.ndarray) or sparse.issparse(X):
        return np
    return array_api_compat.array_namespace(X)


def to_numpy(a: Array) -> npt.NDArray[Any]:
    """Return `a` as a NumPy array, without a copy where its memory allows."""
    if isinstance(a, np.ndarray):
        return a
    if array_api_compat.is_torch_array(a):
        return np.asarray(a.detach().cpu().numpy())
    return np.asarray(np.from_dlpack(a))


def like(values: npt.ArrayLike, X: Array, dtype: Any = None) -> Array:
    """Return `values` in the namespace and on the device of `X`."""
    xp = namespace(X)
    if xp is np:
        return np.asarray(values, dtype=dtype)
    return xp.asarray(np.asarray(values), dtype=dtype, device=array_api_compat.device(X))


def zeros(shape: tuple[int, int], X: Array) -> Array:
    """Return zeros in the namespace and dtype and on the device of `X`."""
    xp = namespace(X)
    if xp is np:
        return np.zeros(shape, dtype=X.dtype)
    return xp.zeros(shape, dtype=X.dtype, device=array_api_compat.device(X))


def eps_of(X: Array) -> float:
    """Return the machine epsilon of the floating dtype of `X`."""
    return float(namespace(X).finfo(X.dtype).eps)


def dtype_name(eps: float) -> str:
    """Return `float32` or `float64` whatever a namespace calls its dtypes."""
    return "float32" if eps > 1e-10 else "float64"


def row_blocks(n_rows: int, row_bytes: int, block_bytes: int = BLOCK_BYTES) -> Iterator[slice]:
    """Yield slices that cover `n_rows` rows in blocks of about `block_bytes`."""
    step = max(1, min(n_rows, block_bytes // max(1, row_bytes)))
    step -= step % 16 if step > 16 else 0  # whole vectors, where rows become columns
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))


def binary_exponent(largest: float, eps: float) -> int:
    """Return e so that data divided by 2**e is safe to square; 0 for ordinary data.

    Division by a power of two is exact, so ordinary data (whose squares and squared
    residuals can neither overflow nor underflow) gives the same digits without it and is
    left alone: no copy is made.
    """
    if largest == 0.0:
        return 0
    exponent = math.frexp(largest)[1] - 1
    safe = 25 if eps > 1e-10 else 300  # float32 squares leave its range much sooner
    return 0 if abs(exponent) <= safe else exponent


def times_power_of_two(values: Array, exponent: int) -> Array:
    """Return `values * 2**exponent`; in two factors, each of them a finite float."""
    if exponent == 0:
        return values
    half = exponent // 2
    with np.errstate(over="ignore", under="ignore"):
        return (values * 2.0**half) * 2.0 ** (exponent - half)


def ldexp(value: float, exponent: int) -> float:
    """Return `value * 2**exponent`; infinite where that is too large."""
    try:
        return math.ldexp(value, exponent)
    except OverflowError:
        return math.inf


def all_finite(values: Array) -> bool:
    """Return whether no value is infinite or NaN."""
    if isinstance(values, np.ndarray) and values.size > 1 << 16 and _native.available(values):
        return _native.all_finite(values)
    xp = namespace(values)
    with np.errstate(over="ignore", invalid="ignore"):
        # One sum tells it without a second array, unless it overflows by itself.
        if bool(xp.isfinite(xp.sum(values))):
            return True
    return bool(xp.all(xp.isfinite(values)))


def safe_norm(vector: Array) -> float:
    """Return the Euclidean norm, whatever the scale of the entries."""
    values = to_numpy(vector).astype(np.float64)
    exponent = binary_exponent(float(np.abs(values).max(initial=0.0)), 0.0)
    return float(
        times_power_of_two(np.linalg.norm(times_power_of_two(values, -exponent)), exponent)
    )


def take_rows(X: Array, rows: Rows) -> Array:
    """Return a copy of the given rows."""
    if isinstance(X, np.ndarray) and X.flags.c_contiguous:
        return X.take(rows, axis=0, mode="clip")  # no bounds check, no detour
    if isinstance(X, np.ndarray) or sparse.issparse(X):
        return X[rows]  # take would first copy all of an array in another order
    return namespace(X).take(X, like(rows, X), axis=0)


def put_columns(target: Array, columns: Rows, values: Array) -> Array:
    """Return `target` with `target[:, columns] = values`, in place where allowed."""
    if isinstance(target, np.ndarray) or array_api_compat.is_torch_array(target):
        target[:, like(columns, target)] = values
        return target
    # The array-API standard has no assignment by integer arrays.
    xp = namespace(target)
    where = np.zeros(target.shape[1], dtype=bool)
    where[columns] = True
    source = np.zeros(target.shape[1], dtype=np.int64)
    source[columns] = np.arange(len(columns))
    spread = xp.take(values, like(source, target), axis=1)
    return xp.where(like(where, target)[None, :], spread, target)
