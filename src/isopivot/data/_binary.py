"""Tables as arrays: NPY, NPZ, sparse NPZ; and by columns: Parquet, Feather.

Every size that a file declares is compared with what the file can hold before any memory is
taken, and nothing is ever unpickled.
"""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, Any, BinaryIO

import numpy as np
import numpy.typing as npt
from scipy import sparse

from isopivot.data._table import (
    FileError,
    Table,
    checked_table,
    largest_expansion,
    listing,
    numbered_names,
    require,
    short,
    unicode_array,
)

_NUMBERS = "biuf"
_TEXTS = "US"
_BATCH_ROWS = 8192
_OURS = ("X", "columns", "ids", "id_name", "text", "text_columns")

AnyArray = npt.NDArray[Any]


def read_npy(path: Path) -> Table:
    """Return the table in a NPY file: a matrix, or a vector as one column."""
    with path.open("rb") as stream:
        array = _read_array(stream, path.stat().st_size, path.name, _NUMBERS)
    return _matrix_table(array, path.name)


def _read_array(stream: IO[bytes], size: int, name: str, kinds: str) -> AnyArray:
    """Read one array, of no more bytes than its file has and of an allowed kind."""
    version = np.lib.format.read_magic(stream)
    if version == (1, 0):
        shape, fortran_order, dtype = np.lib.format.read_array_header_1_0(stream)
    elif version == (2, 0):
        shape, fortran_order, dtype = np.lib.format.read_array_header_2_0(stream)
    else:
        raise FileError(f"{name} has NPY version {version}; save it with numpy.save again")
    if dtype.hasobject:
        raise FileError(
            f"{name} holds pickled Python objects, which are never loaded; save plain numbers"
        )
    if dtype.kind not in kinds:
        raise FileError(f"{name} holds values of type {dtype}; save real numbers")
    wanted, held = math.prod(shape) * dtype.itemsize, size - stream.tell()
    if min(shape, default=0) < 0 or wanted > held:
        raise FileError(
            f"{name} declares the shape {short(shape)} but holds only {held} bytes; "
            "it is damaged or cut off, copy it again"
        )
    content = bytearray(stream.read(wanted))
    array = np.frombuffer(content, dtype=dtype)
    return array.reshape(shape, order="F" if fortran_order else "C")


def _matrix_table(array: AnyArray, name: str, columns: tuple[str, ...] | None = None) -> Table:
    matrix = array[:, None] if array.ndim == 1 else array
    if matrix.ndim != 2:
        raise FileError(f"{name} holds an array with {array.ndim} axes; give a matrix (2 axes)")
    if matrix.shape[0] == 0:
        raise FileError(f"{name} has no rows; give at least one")
    names = columns or numbered_names(matrix.shape[1])
    frame = require("pandas").DataFrame(matrix.astype(matrix.dtype.newbyteorder("=")))
    frame.columns = list(names)
    return checked_table(Table(frame, names, name))


def read_npz(path: Path) -> Table:
    """Return the table in a NPZ file: one array, the array `X`, or a sparse matrix."""
    with zipfile.ZipFile(path) as archive:
        sizes = _member_sizes(archive, path)
        if {"format", "shape", "data"} <= sizes.keys():
            for member in sizes:
                _member(archive, sizes, member, path.name)
            return _read_sparse(path)
        wanted = [*sizes] if len(sizes) == 1 else [name for name in _OURS if name in sizes]
        if len(sizes) != 1 and "X" not in sizes:
            raise FileError(
                f"{path.name} holds the arrays {listing([*sizes])} and none is named 'X'; "
                "save one array, or name the table's X"
            )
        arrays = {member: _member(archive, sizes, member, path.name) for member in wanted}
    ignored = [member for member in sizes if member not in arrays]
    notices = (f"only the array 'X' was read, not {listing(ignored)}",) if ignored else ()
    return _assembled(arrays, path.name, notices)


def _member_sizes(archive: zipfile.ZipFile, path: Path) -> dict[str, int]:
    """Return the unpacked size of every array in the archive; refuse one that would explode."""
    infos = archive.infolist()
    sizes = {info.filename.removesuffix(".npy"): info.file_size for info in infos}
    if not sizes or len(sizes) != len(infos):
        raise FileError(f"{path.name} holds no arrays or one name twice; save it again")
    limit = largest_expansion(path.stat().st_size)
    if sum(sizes.values()) > limit:
        raise FileError(
            f"{path.name} declares {sum(sizes.values())} bytes of arrays, far more than its "
            f"size suggests (at most {limit}); if you trust it, save it uncompressed"
        )
    return sizes


def _member(archive: zipfile.ZipFile, sizes: Mapping[str, int], member: str, name: str) -> AnyArray:
    """Read one array of the archive. zipfile gives no more bytes than were declared."""
    inside = member if member in archive.namelist() else f"{member}.npy"
    with archive.open(inside) as stream:
        array = _read_array(
            stream, sizes[member], f"{name} (array {short(member)})", _NUMBERS + _TEXTS
        )
        stream.read()  # to the end, so that the checksum is compared
    return array


def _assembled(arrays: dict[str, AnyArray], name: str, notices: tuple[str, ...]) -> Table:
    """Put the arrays that `write_npz` wrote back into one table: ids, text, numbers."""
    main = arrays["X"] if "X" in arrays else next(iter(arrays.values()))
    if main.dtype.kind not in _NUMBERS:
        raise FileError(f"{name} holds values of type {main.dtype}; save real numbers")
    if not {"X", "columns"} <= arrays.keys():
        return _noted(_matrix_table(main, name), notices)
    columns = tuple(map(str, _strings(arrays, "columns", name)))
    text_columns = tuple(map(str, _strings(arrays, "text_columns", name)))
    text = arrays.get("text", np.empty((main.shape[0], 0), dtype=np.str_))
    shapes = ((*main.shape[:1], len(columns)), (*main.shape[:1], len(text_columns)))
    if (main.shape, text.shape) != shapes or ("ids" in arrays) != ("id_name" in arrays):
        raise FileError(f"{name} names other columns than it holds; write it again")
    parts: dict[str, AnyArray] = {}
    if "ids" in arrays:
        parts[str(arrays["id_name"])] = arrays["ids"]
    parts |= dict(zip(text_columns, text.T, strict=True))
    parts |= dict(zip(columns, main.T, strict=True))
    if len(parts) != len(columns) + len(text_columns) + ("ids" in arrays):
        raise FileError(f"{name} has more than one column of the same name; write it again")
    frame = require("pandas").DataFrame(parts)
    return checked_table(Table(frame, tuple(parts), name, notices=notices))


def _strings(arrays: Mapping[str, AnyArray], member: str, name: str) -> AnyArray:
    names = arrays.get(member, np.empty(0, dtype=np.str_))
    if names.ndim != 1 or names.dtype.kind != "U":
        raise FileError(f"{name}: the array {member!r} must be a list of names; write it again")
    return names


def _noted(table: Table, notices: tuple[str, ...]) -> Table:
    return Table(table.values, table.columns, table.name, table.lines, table.notices + notices)


def _read_sparse(path: Path) -> Table:
    """Return a sparse matrix whose arrays have been checked for size and type."""
    matrix = sparse.load_npz(path)
    if matrix.ndim != 2 or matrix.dtype.kind not in _NUMBERS:
        raise FileError(f"{path.name} holds no matrix of real numbers; save one")
    if matrix.format in ("csr", "csc", "bsr"):
        # Indices outside the matrix would be followed blindly by compiled code.
        matrix.check_format(full_check=True)
    if 8 * (sum(matrix.shape) + 2 * matrix.nnz) > largest_expansion(path.stat().st_size):
        raise FileError(
            f"{path.name} declares the shape {matrix.shape}, far more than its size suggests; "
            "leave out empty rows and columns"
        )
    values = sparse.csr_array(matrix)
    values.sum_duplicates()
    if values.shape[0] == 0:
        raise FileError(f"{path.name} has no rows; give at least one")
    return checked_table(Table(values, numbered_names(values.shape[1]), path.name))


def read_parquet(path: Path) -> Table:
    """Return the table in a Parquet file; the index that pandas may have added is left out."""
    require("pandas")
    with require("pyarrow.parquet").ParquetFile(path) as source:
        declared = 8 * source.metadata.num_rows * source.metadata.num_columns
        limit = largest_expansion(path.stat().st_size)
        if declared > limit:
            raise _too_large(path, limit)
        batches = source.iter_batches(batch_size=_BATCH_ROWS)
        return _arrow_table(batches, source.schema_arrow, path)


def read_feather(path: Path) -> Table:
    """Return the table in a Feather (Arrow) file."""
    require("pandas")
    pyarrow = require("pyarrow")
    with require("pyarrow.ipc").open_file(pyarrow.OSFile(str(path))) as source:
        batches = map(source.get_batch, range(source.num_record_batches))
        return _arrow_table(batches, source.schema, path)


def _too_large(path: Path, limit: int) -> FileError:
    return FileError(
        f"{path.name} unfolds to more than {limit} bytes, far more than its size suggests; "
        "if you trust it, write it again without compression"
    )


def _arrow_table(batches: Iterable[Any], schema: Any, path: Path) -> Table:
    limit, size, kept = largest_expansion(path.stat().st_size), 0, []
    for batch in batches:
        batch.validate(full=True)
        size += batch.nbytes
        if size > limit:
            raise _too_large(path, limit)
        kept.append(batch)
    content = require("pyarrow").Table.from_batches(kept, schema)
    names = tuple(content.column_names)
    index = _index_names(schema.pandas_metadata)
    # By position: a damaged file may have one name twice, which is for `checked_table` to say.
    columns = [j for j, name in enumerate(names) if name not in index]
    frame = content.select(columns).to_pandas(ignore_metadata=True)
    used = tuple(names[j] for j in columns)
    notices = tuple(
        f"{name!r} is the pandas index of {path.name} and not a column; "
        "reset_index() before writing makes it one"
        for name in index
        if name in names and not name.startswith("__index_level_")
    )
    return checked_table(Table(frame, used, path.name, notices=notices))


def _index_names(metadata: Any) -> list[str]:
    entries = metadata.get("index_columns", []) if isinstance(metadata, dict) else []
    return [entry for entry in entries if isinstance(entry, str)]


def write_npy(frame: Any, stream: BinaryIO, id_name: str | None) -> None:
    """Write the numeric columns; names, ids and text have no place in a NPY file."""
    numeric, _ = _by_kind(frame, id_name)
    if not numeric:
        raise FileError("NPY holds numbers only and no column is numeric; write CSV or Parquet")
    np.save(stream, _numbers(frame, numeric), allow_pickle=False)


def write_npz(frame: Any, stream: BinaryIO, id_name: str | None) -> None:
    """Write the arrays X and columns, and, where there are such, ids and text."""
    numeric, text = _by_kind(frame, id_name)
    arrays: dict[str, AnyArray] = {
        "X": _numbers(frame, numeric),
        "columns": np.array(numeric, dtype=np.str_),
    }
    if id_name is not None:
        arrays["ids"] = _plain(frame[id_name], id_name)
        arrays["id_name"] = np.array(id_name)
    if text:
        arrays["text"] = np.column_stack([unicode_array(_texts(frame[c]), c) for c in text])
        arrays["text_columns"] = np.array(text, dtype=np.str_)
    np.savez_compressed(stream, allow_pickle=False, **arrays)


def _by_kind(frame: Any, id_name: str | None) -> tuple[list[str], list[str]]:
    """Return the names of the numeric columns and of the others, without the id."""
    numeric: list[str] = []
    text: list[str] = []
    for name in frame.columns:
        if name != id_name:
            (numeric if _is_numeric(frame[name].dtype) else text).append(name)
    return numeric, text


def _is_numeric(dtype: Any) -> bool:
    return dtype.kind in _NUMBERS


def _numbers(frame: Any, columns: list[str]) -> npt.NDArray[np.float64]:
    return np.ascontiguousarray(frame[columns].to_numpy(dtype=np.float64, na_value=np.nan))


def _texts(column: Any) -> Iterable[object]:
    return ("" if missing else cell for cell, missing in zip(column, column.isna(), strict=True))


def _plain(column: Any, name: str) -> AnyArray:
    """Return a column as an array without objects: numbers as they are, the rest as text."""
    if isinstance(column.dtype, np.dtype) and column.dtype.kind in _NUMBERS:
        return np.asarray(column.to_numpy())
    return unicode_array(_texts(column), name)


def write_sparse(content: Any, stream: BinaryIO, id_name: str | None) -> None:
    """Write a sparse matrix, or a frame of numbers as one."""
    if not sparse.issparse(content):
        numeric, text = _by_kind(content, None)
        if text:
            raise FileError(f"a sparse file holds numbers only; leave out {listing(text)}")
        content = _numbers(content, numeric)
    if content.dtype.kind not in _NUMBERS:
        raise FileError(f"a sparse file holds real numbers; got the type {content.dtype}")
    sparse.save_npz(stream, sparse.csr_array(content))


def write_parquet(frame: Any, stream: BinaryIO, id_name: str | None) -> None:
    """Write Parquet, without the frame's index."""
    require("pyarrow.parquet").write_table(_to_arrow(frame), stream)


def write_feather(frame: Any, stream: BinaryIO, id_name: str | None) -> None:
    """Write Feather, without the frame's index."""
    require("pyarrow.feather").write_feather(_to_arrow(frame), stream)


def _to_arrow(frame: Any) -> Any:
    return require("pyarrow").Table.from_pandas(frame, preserve_index=False)
