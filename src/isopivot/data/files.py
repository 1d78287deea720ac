"""Read a table from a file, write one to a file: which format, and what can go wrong."""

from __future__ import annotations

import gzip
import os
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Literal, get_args

from scipy import sparse

from isopivot._files import atomic_path
from isopivot.data import _binary, _text
from isopivot.data._table import FileError, Table, check_names, require, short

Format = Literal["csv", "tsv", "parquet", "feather", "npy", "npz", "sparse"]
FORMATS: tuple[str, ...] = get_args(Format)
_ENDINGS: dict[str, Format] = {
    ".csv": "csv",
    ".txt": "csv",
    ".dat": "csv",
    ".data": "csv",
    "": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".feather": "feather",
    ".arrow": "feather",
    ".npy": "npy",
    ".npz": "npz",
}
_READERS: dict[str, Callable[[Path], Table]] = {
    "parquet": _binary.read_parquet,
    "feather": _binary.read_feather,
    "npy": _binary.read_npy,
    "npz": _binary.read_npz,
    "sparse": _binary.read_npz,
}
_WRITERS: dict[str, Callable[[Any, BinaryIO, str | None], None]] = {
    "parquet": _binary.write_parquet,
    "feather": _binary.write_feather,
    "npy": _binary.write_npy,
    "npz": _binary.write_npz,
    "sparse": _binary.write_sparse,
}
_USUAL = ".csv, .tsv (both also .gz), .parquet, .feather, .npy, .npz"


def read_table(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,  # noqa: A002
    text: Collection[str] = (),
) -> Table:
    """Return the table in a file.

    Parameters
    ----------
    path : str or path-like
        A file, or ``"-"`` for text on standard input. The ending says the format: ``.csv``,
        ``.tsv`` (both also with ``.gz``), ``.parquet``, ``.feather``, ``.npy``, ``.npz``.
    format : {"csv", "tsv", "parquet", "feather", "npy", "npz", "sparse"}, optional
        The format, where the ending does not say it.
    text : collection of str
        Columns of a text file to keep letter by letter (an id such as ``007``). Names that
        the file does not have are passed over.

    Returns
    -------
    Table
        The cells and the names of the columns; x0, x1, ... where the file has none.

    Raises
    ------
    FileError
        Where the file cannot be read or is no table, with what to do about it.

    Notes
    -----
    Text is UTF-8. The delimiter of ``csv`` is found among tab, semicolon and comma. A first
    line of nothing but numbers is data, any other is the header. A NPZ file holds one array,
    or one named ``X``, or a matrix written by `scipy.sparse.save_npz`. The index that pandas
    stores in Parquet and Feather is not a column. Nothing is unpickled, and a file that
    would unfold to more than 1 GiB and more than 100 times its size is refused.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "points.csv"
    >>> _ = path.write_text("a;b\\n1;2\\n3;4\\n")
    >>> table = read_table(path)
    >>> table.columns, table.values["b"].tolist()
    (('a', 'b'), [2, 4])
    """
    kind, packed = _format_of(path, format)
    if os.fspath(path) == "-":
        return _text.read_text(_standard_input(kind), "standard input", _delimiter(kind), text)
    path = Path(path)
    with _readable(path, kind):
        if kind not in ("csv", "tsv"):
            return _READERS[kind](path)
        content = _text.unpacked(path) if packed else path.read_bytes()
        return _text.read_text(content, path.name, _delimiter(kind), text)


def _format_of(path: str | os.PathLike[str], named: str | None) -> tuple[str, bool]:
    """Return the format of a path, and whether it is packed by gzip."""
    suffixes = Path(path).suffixes
    packed = bool(suffixes) and suffixes[-1].lower() == ".gz"
    if named is not None:
        if named not in FORMATS:
            raise FileError(f"got the format {named!r}; choose one of {', '.join(FORMATS)}")
        return named, packed
    ending = "".join(suffixes[-2:-1] if packed else suffixes[-1:]).lower()
    kind = _ENDINGS.get(ending)
    if kind is None or (packed and kind not in ("csv", "tsv")):
        raise FileError(
            f"{os.fspath(path)}: the ending {''.join(suffixes[-2:])!r} says no format known "
            f"here; use one of {_USUAL}"
        )
    return kind, packed


def _delimiter(kind: str) -> str | None:
    return "\t" if kind == "tsv" else None


def _standard_input(kind: str) -> bytes:
    if kind not in ("csv", "tsv"):
        raise FileError(f"standard input is read as csv or tsv, not {kind}; use a file")
    return sys.stdin.buffer.read()


@contextmanager
def _readable(path: Path, kind: str) -> Iterator[None]:
    """Turn whatever a missing, locked, damaged or hostile file raises into one line."""
    try:
        if path.is_dir():
            raise FileError(f"{path} is a folder; name a file in it")
        yield
    except FileError:
        raise
    except FileNotFoundError as error:
        raise FileError(f"{path} does not exist; check the name") from error
    except PermissionError as error:
        raise FileError(f"{path} may not be read; change its permissions") from error
    except MemoryError as error:
        raise FileError(f"{path} does not fit into memory; give fewer rows or columns") from error
    except Exception as error:
        # The parsers of four libraries meet arbitrary bytes here: any of their exceptions
        # means the same thing.
        reason = str(error) or type(error).__name__
        raise FileError(
            f"{path} cannot be read as {kind} ({reason[:200]}); it is damaged, cut off or in "
            "another format: copy it again, or give it the right ending"
        ) from error


def write_table(
    path: str | os.PathLike[str],
    frame: Any,
    *,
    format: str | None = None,  # noqa: A002
    id_name: str | None = None,
) -> None:
    """Write a table to a file, whole or not at all.

    Parameters
    ----------
    path : str or path-like
        The file, replaced if it is there, or ``"-"`` for text on standard output. The ending
        says the format, as in `read_table`.
    frame : pandas.DataFrame or scipy sparse matrix
        The table. Its index is not written. A sparse matrix goes to NPZ only.
    format : {"csv", "tsv", "parquet", "feather", "npy", "npz", "sparse"}, optional
        The format, where the ending does not say it; ``"sparse"`` writes the numbers of a
        frame as `scipy.sparse.save_npz` does.
    id_name : str, optional
        The column that names the rows. NPZ keeps it apart from the numbers, NPY leaves it
        out, the other formats treat it as any column.

    Raises
    ------
    FileError
        Where the file cannot be written or cannot hold the table.

    Notes
    -----
    In CSV and TSV, text cells and names that begin with ``= + - @``, a tab or a carriage
    return get an apostrophe in front: a spreadsheet would otherwise run them as formulas.
    Numbers are written as they are, with all their digits.

    NPZ has the arrays ``X`` (numeric columns, float64), ``columns`` (their names), ``ids``
    and ``id_name`` (if given), ``text`` and ``text_columns`` (the other columns; a missing
    text becomes an empty one). NPY can hold only the matrix of the numeric columns: names,
    ids and text are lost.

    Examples
    --------
    >>> import tempfile
    >>> import pandas
    >>> path = Path(tempfile.mkdtemp()) / "out.csv"
    >>> write_table(path, pandas.DataFrame({"name": ["=1+1", "b"], "x": [-0.5, 2.0]}))
    >>> print(path.read_text().strip())
    name,x
    '=1+1,-0.5
    b,2.0
    """
    kind, packed = _format_of(path, format)
    if sparse.issparse(frame):
        if kind not in ("npz", "sparse"):
            raise FileError(f"a sparse matrix cannot be written as {kind}; write it as .npz")
        kind = "sparse"
    else:
        frame = _plain_frame(frame, id_name)
    if os.fspath(path) == "-":
        _write_standard_output(frame, kind, id_name)
        return
    path = Path(path)
    with _writable(path, kind), _target(path) as temporary, temporary.open("wb") as stream:
        if packed:
            # No name and no time inside: the same table gives the same bytes.
            with gzip.GzipFile("", "wb", fileobj=stream, mtime=0) as zipped:
                _write(frame, zipped, kind, id_name)  # type: ignore[arg-type]
        else:
            _write(frame, stream, kind, id_name)


def _plain_frame(frame: Any, id_name: str | None) -> Any:
    """Return the frame with its names as text, each once, and no index."""
    if not isinstance(frame, require("pandas").DataFrame):
        raise TypeError(f"frame must be a DataFrame or a sparse matrix; got {type(frame)}")
    frame = frame.set_axis([str(name) for name in frame.columns], axis=1).reset_index(drop=True)
    check_names(frame.columns, "the output")
    if id_name is not None and id_name not in frame.columns:
        raise FileError(f"the output has no column {short(id_name)} for the ids; name one it has")
    return frame


def _write_standard_output(frame: Any, kind: str, id_name: str | None) -> None:
    if kind not in ("csv", "tsv"):
        raise FileError(f"standard output is written as csv or tsv, not {kind}; name a file")
    sys.stdout.flush()
    _write(frame, sys.stdout.buffer, kind, id_name)
    sys.stdout.buffer.flush()


def _write(frame: Any, stream: BinaryIO, kind: str, id_name: str | None) -> None:
    if kind in ("csv", "tsv"):
        _text.write_text(frame, _delimiter(kind) or ",", stream)
    else:
        _WRITERS[kind](frame, stream, id_name)


@contextmanager
def _target(path: Path) -> Iterator[Path]:
    """Give the path to write to: a device or a pipe itself, otherwise a temporary file."""
    if path.exists() and not path.is_file() and not path.is_dir():
        yield path
    else:
        with atomic_path(path) as temporary:
            yield temporary


@contextmanager
def _writable(path: Path, kind: str) -> Iterator[None]:
    try:
        yield
    except FileError:
        raise
    except BrokenPipeError:
        raise
    except FileNotFoundError as error:
        raise FileError(f"the folder of {path} does not exist; make it first") from error
    except OSError as error:
        raise FileError(
            f"{path} cannot be written ({error.strerror or error}); choose another place"
        ) from error
    except Exception as error:
        if not type(error).__module__.startswith("pyarrow"):
            raise
        raise FileError(
            f"the table cannot be written as {kind} ({error}); write it as CSV"
        ) from error
