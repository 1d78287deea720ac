"""Trees of JSON values and arrays, as they lie in a model file.

A tree is a value of JSON, a NumPy array, a SciPy CSR matrix, or a list or dict of such. In
JSON an array is the mark `{"$array": 3}`, a CSR matrix `{"$csr": {...}}` with marks in it;
keys of the tree that begin with "$" get another one. Bytes of arrays follow NumPy's NPY
format 1.0, of which only plain floats and integers are allowed.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import IO, Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

Tree = Any

MOST_NESTED = 64  # levels of a tree
MOST_LENGTH = 1 << 40  # of one side of an array
_CHUNK = 1 << 20

_DTYPES = ("<f8", "<f4", "<i8", "<i4")
_NPY = re.compile(
    rb"\{'descr': '(<f8|<f4|<i8|<i4)', 'fortran_order': (True|False), "
    rb"'shape': \((\d{1,13}),(?: (\d{1,13}))?\), \} *\n"
)
DAMAGED = "copy the file again, or save the model again"


class ModelError(ValueError):
    """A file is no model that this version of isopivot can load."""


def encode(tree: Tree) -> tuple[bytes, list[npt.NDArray[Any]]]:
    """Return the JSON of a tree, and the arrays that its marks count."""
    arrays: list[npt.NDArray[Any]] = []
    spec = _encoded(tree, arrays)
    return json.dumps(spec, allow_nan=False, separators=(",", ":")).encode(), arrays


def decode(text: bytes, array: Callable[[int], npt.NDArray[Any]]) -> Tree:
    """Return the tree of a JSON text; `array(3)` gives what `{"$array": 3}` stands for."""
    spec = json.loads(
        text.decode("utf-8"),
        parse_float=_finite,
        parse_int=_integer,
        parse_constant=_finite,
        object_pairs_hook=_unique,
    )
    return _decoded(spec, array, MOST_NESTED)


def write_array(file: IO[bytes], array: npt.NDArray[Any]) -> None:
    """Write an array that `encode` put aside."""
    np.lib.format.write_array(file, array, version=(1, 0), allow_pickle=False)


def _encoded(tree: Tree, arrays: list[npt.NDArray[Any]]) -> Any:
    """Return the tree with arrays put aside; marks begin with "$", as no other key does."""
    if isinstance(tree, dict):
        return {_escaped(key): _encoded(value, arrays) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        return [_encoded(value, arrays) for value in tree]
    if sparse.issparse(tree):
        return _encoded_csr(tree, arrays)
    if isinstance(tree, np.ndarray):
        arrays.append(_stored(tree))
        return {"$array": len(arrays) - 1}
    if isinstance(tree, str):
        return _printable(tree)
    return tree.item() if isinstance(tree, np.generic) else tree


def _printable(text: str) -> str:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise ValueError(
            f"got the text {text[:40]!a}; allowed is text that UTF-8 can encode; rename it"
        ) from None
    return text


def _escaped(key: Any) -> str:
    if not isinstance(key, str):
        raise TypeError(f"got the key {key!r} in a tree; allowed are strings; convert it")
    return _printable(f"${key}" if key.startswith("$") else key)


def _encoded_csr(matrix: Any, arrays: list[npt.NDArray[Any]]) -> Any:
    if matrix.format != "csr":
        raise TypeError(f"got a {matrix.format} matrix in a tree; allowed is CSR; convert it")
    parts = {name: getattr(matrix, name) for name in ("data", "indices", "indptr")}
    head = {"shape": [int(k) for k in matrix.shape], "matrix": sparse.isspmatrix(matrix)}
    return {"$csr": head | {name: _encoded(part, arrays) for name, part in parts.items()}}


def _stored(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the array as it is written: contiguous in its own order, little-endian."""
    dtype = array.dtype.newbyteorder("<")
    if dtype.str not in _DTYPES or array.ndim not in (1, 2):
        raise TypeError(
            f"got an array of {array.dtype} with {array.ndim} axes in a tree; allowed are one or "
            "two axes of float64, float32, int64 or int32; convert it"
        )
    # Part of a larger array in Fortran order is in neither order, but is read like one.
    columns = array.ndim == 2 and abs(array.strides[0]) < abs(array.strides[1])
    by_columns = columns and not array.flags.c_contiguous
    return np.asarray(array, dtype=dtype, order="F" if by_columns else "C")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ModelError(f"has the number {text[:20]}; allowed are finite ones; {DAMAGED}")
    return value


def _integer(text: str) -> int:
    if len(text) > 40:
        raise ModelError(f"has an integer of {len(text)} digits; {DAMAGED}")
    return int(text)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        raise ModelError(f"has a key twice in one object of its model.json; {DAMAGED}")
    return values


def _decoded(spec: Any, array: Callable[[int], npt.NDArray[Any]], levels: int) -> Tree:
    if levels == 0:
        raise ModelError(f"is nested more than {MOST_NESTED} levels deep; {DAMAGED}")
    if isinstance(spec, list):
        return [_decoded(value, array, levels - 1) for value in spec]
    if isinstance(spec, str):
        spec.encode("utf-8")  # half of a surrogate pair could not be printed
    if not isinstance(spec, dict):
        return spec
    if spec.keys() == {"$array"}:
        return array(_count(spec["$array"]))
    if spec.keys() == {"$csr"}:
        return _csr(_decoded(spec["$csr"], array, levels - 1))
    return {_unescaped(key): _decoded(value, array, levels - 1) for key, value in spec.items()}


def _unescaped(key: str) -> str:
    key.encode("utf-8")
    if key.startswith("$") and not key.startswith("$$"):
        raise ModelError(f"has the unknown mark {key[:20]!r}; {DAMAGED}")
    return key[1:] if key.startswith("$") else key


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST_LENGTH:
        raise ModelError(f"has {str(value)[:20]!r} where a count belongs; {DAMAGED}")
    return value


def read_array(file: IO[bytes], size: int) -> npt.NDArray[Any]:
    """Return the array that the next `size` bytes of a file hold, to the byte."""
    head = file.read(10)
    length = int.from_bytes(head[8:], "little")
    found = _NPY.fullmatch(file.read(length))
    if head[:8] != b"\x93NUMPY\x01\x00" or found is None:
        raise ModelError(f"has an array of another type or form than is allowed; {DAMAGED}")
    dtype = np.dtype(found[1].decode())
    shape = tuple(_count(int(side)) for side in found.groups()[2:] if side is not None)
    # Before anything is allocated: a header of a few bytes may claim any size.
    if math.prod(shape) * dtype.itemsize != size - 10 - length:
        raise ModelError(f"has an array of shape {shape} and another size; {DAMAGED}")
    flat = np.empty(math.prod(shape), dtype)
    target = flat.view(np.uint8)
    for start in range(0, len(target), _CHUNK):
        part = target[start : start + _CHUNK]
        part[...] = np.frombuffer(file.read(len(part)), np.uint8, len(part))
    array = flat.reshape(shape[::-1]).T if found[2] == b"True" else flat.reshape(shape)
    return array.astype(dtype.newbyteorder("="), copy=False)


def _csr(parts: Any) -> Any:
    """Return the CSR matrix of checked parts: SciPy's own check does not look everywhere."""
    if not isinstance(parts, dict) or parts.keys() != {
        "shape",
        "matrix",
        "data",
        "indices",
        "indptr",
    }:
        raise ModelError(f"has a sparse matrix without its parts; {DAMAGED}")
    rows, columns = (_count(side) for side in parts["shape"])
    data, indices, indptr = parts["data"], parts["indices"], parts["indptr"]
    sound = (
        all(isinstance(part, np.ndarray) and part.ndim == 1 for part in (data, indices, indptr))
        and data.dtype.kind == "f"
        and indices.dtype.kind == "i"
        and len(data) == len(indices)
        and len(indptr) == rows + 1
        and indptr[0] == 0
        and indptr[-1] == len(data)
        and bool((indptr[1:] >= indptr[:-1]).all())
        and (len(indices) == 0 or (indices.min() >= 0 and indices.max() < columns))
        and isinstance(parts["matrix"], bool)
    )
    if not sound:
        raise ModelError(f"has a sparse matrix whose parts do not fit; {DAMAGED}")
    kind = sparse.csr_matrix if parts["matrix"] else sparse.csr_array
    return kind((data, indices, indptr), shape=(rows, columns))
