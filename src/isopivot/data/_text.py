"""Tables as text: comma, semicolon or tab between cells, one row per line."""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Collection, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from isopivot.data._table import (
    FileError,
    Lines,
    Table,
    check_names,
    checked_table,
    largest_expansion,
    listing,
    numbered_names,
    require,
)

_LINES_SNIFFED = 20
_CHUNK = 1 << 22
# A spreadsheet takes a cell that begins with one of these for a formula.
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def unpacked(path: Path) -> bytes:
    """Return the content of a gzip file, stopping early at one made to fill the memory."""
    limit = largest_expansion(path.stat().st_size)
    chunks, size = [], 0
    try:
        with gzip.open(path) as stream:
            while chunk := stream.read(_CHUNK):
                chunks.append(chunk)
                size += len(chunk)
                if size > limit:
                    raise FileError(
                        f"{path} unpacks to more than {limit} bytes, far more than its size "
                        "suggests; if you trust it, gunzip it first"
                    )
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise FileError(f"{path} is not a whole gzip file ({error}); copy it again") from error
    return b"".join(chunks)


def read_text(
    content: bytes, name: str, delimiter: str | None = None, text: Collection[str] = ()
) -> Table:
    """Return the table that `content` spells; columns named in `text` stay as they are."""
    if not content or content.isspace():
        raise FileError(f"{name} is empty; give a table with a header and at least one row")
    if b"\0" in content:
        raise FileError(
            f"{name} is not UTF-8 text (it holds zero bytes); save it as CSV in UTF-8, "
            "or give it the ending of its format"
        )
    delimiter = delimiter or _sniffed(content)
    records = _records(content, name, delimiter)
    _, first = next(records)
    header = not all(map(_is_number, first))
    names = tuple(_named(first)) if header else numbered_names(len(first))
    check_names(names, name)
    if header:
        _, second = next(records, (0, names))
        if len(second) != len(names):
            raise _ragged(content, name, delimiter, len(names))
    frame = _frame(content, name, delimiter, names, header, text)
    lines = _lines(content, name, delimiter, len(frame), header)
    return checked_table(Table(frame, names, name, lines, _notices(first, names, header)))


def _sniffed(content: bytes) -> str:
    """Return the delimiter: the one that cuts the first lines into equally many cells.

    Tab and semicolon come before the comma, which may stand for the decimal point.
    """
    cells: dict[str, list[int]] = {}
    for delimiter in ("\t", ";", ","):
        try:
            head = islice(_records(content, "", delimiter), _LINES_SNIFFED)
            cells[delimiter] = [len(cells) for _, cells in head]
        except FileError:
            continue
        if min(cells[delimiter]) == max(cells[delimiter]) > 1:
            return delimiter
    return max((",", ";", "\t"), key=lambda delimiter: cells.get(delimiter, [0])[0])


def _records(content: bytes, name: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Walk the rows that are not blank: the line at which each begins, and its cells."""
    stream = io.TextIOWrapper(
        io.BytesIO(content), encoding="utf-8-sig", errors="replace", newline=""
    )
    reader = csv.reader(stream, delimiter=delimiter)
    line = 1
    try:
        for cells in reader:
            if len(cells) > 1 or (cells and cells[0].strip()) or _quoted_blank(cells):
                yield line, cells
            line = reader.line_num + 1
    except csv.Error as error:
        raise FileError(
            f"{name}: line {line} cannot be read ({error}); close every quotation mark"
        ) from error


def _quoted_blank(cells: list[str]) -> bool:
    """Tell a cell that was written as ``""``: csv gives it as empty, a blank line as none."""
    return cells == [""]


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell


def _named(cells: list[str]) -> Iterator[str]:
    for j, cell in enumerate(cells):
        yield cell.strip() or f"Unnamed: {j}"


def _notices(first: list[str], names: tuple[str, ...], header: bool) -> tuple[str, ...]:
    if not header:
        return (
            "the first line holds only numbers and was read as data; "
            f"the columns are called {listing(names)}",
        )
    return tuple(
        f"column {j + 1} has no name and is called {called!r}; "
        f"if it holds row numbers: --id {called!r} or --drop {called!r}"
        for j, (cell, called) in enumerate(zip(first, names, strict=True))
        if not cell.strip()
    )


def _frame(
    content: bytes,
    name: str,
    delimiter: str,
    names: tuple[str, ...],
    header: bool,
    text: Collection[str],
) -> Any:
    pandas = require("pandas")
    try:
        frame = pandas.read_csv(
            io.BytesIO(content),
            sep=delimiter,
            names=list(names),
            header=0 if header else None,
            dtype={column: str for column in names if column in text},
            encoding="utf-8-sig",
            low_memory=False,
            **_exact_floats(pandas),
        )
    except UnicodeDecodeError as error:
        raise _undecodable(content, name) from error
    except (pandas.errors.ParserError, pandas.errors.EmptyDataError) as error:
        raise _ragged(content, name, delimiter, len(names)) from error
    # pandas fills rows that are too short with missing values; only such a row, or a cell
    # that is really empty, leaves a gap in the last column.
    if frame.iloc[:, -1].isna().any():
        for _, cells in _records(content, name, delimiter):
            if len(cells) != len(names):
                raise _ragged(content, name, delimiter, len(names))
    return frame


def _exact_floats(pandas: Any) -> dict[str, str]:
    """Ask for correctly rounded numbers; pandas 3.1 always gives them and warns if asked."""
    version = tuple(int(part) for part in pandas.__version__.split(".")[:2])
    return {"float_precision": "round_trip"} if version < (3, 1) else {}


def _undecodable(content: bytes, name: str) -> FileError:
    try:
        content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        return FileError(f"{name}: line {line} is not UTF-8 text; save the file in UTF-8")
    return FileError(f"{name} is not UTF-8 text; save the file in UTF-8")


def _ragged(content: bytes, name: str, delimiter: str, expected: int) -> FileError:
    """Return the error that names the first row with too many or too few cells."""
    for line, cells in _records(content, name, delimiter):
        if len(cells) != expected:
            return FileError(
                f"{name}: line {line} has {len(cells)} cells where the first line has "
                f"{expected}; mend that line, or check the delimiter (read as {delimiter!r})"
            )
    return FileError(f"{name} cannot be read as text; close every quotation mark")


def _lines(content: bytes, name: str, delimiter: str, n_rows: int, header: bool) -> Lines | None:
    """Return the line at which each row begins, counted only where rows are not lines."""
    tail = content[-4096:]
    trailing = tail.count(b"\n") - tail.rstrip().count(b"\n")
    if content.count(b"\n") - trailing + 1 == n_rows + header:
        return np.arange(n_rows, dtype=np.int64) + 1 + header
    starts = [line for line, _ in _records(content, name, delimiter)][int(header) :]
    return np.array(starts, dtype=np.int64) if len(starts) == n_rows else None


def write_text(frame: Any, delimiter: str, stream: BinaryIO) -> None:
    """Write the table as UTF-8 text; see `write_table` for what happens to formulas."""
    pandas = require("pandas")
    safe, returns = frame.copy(deep=False), False
    for j in range(frame.shape[1]):
        if frame.iloc[:, j].dtype.kind not in "biufcmM":
            cells = [_disarmed(cell) for cell in frame.iloc[:, j]]
            returns = returns or any(isinstance(cell, str) and "\r" in cell for cell in cells)
            safe.isetitem(j, pandas.Series(cells, index=frame.index, dtype=object))
    safe.columns = pandas.Index([_disarmed(name) for name in frame.columns], dtype=object)
    try:
        safe.to_csv(
            stream,
            mode="wb",
            encoding="utf-8",
            sep=delimiter,
            index=False,
            lineterminator="\n",
            # The csv module quotes a line feed by itself, but not a lone carriage return.
            quoting=csv.QUOTE_NONNUMERIC if returns else csv.QUOTE_MINIMAL,
        )
    except UnicodeEncodeError as error:
        text = ascii(error.object[error.start : error.end])
        raise FileError(f"the text {text} has no UTF-8 form; remove it from the table") from error


def _disarmed(cell: Any) -> Any:
    """Put an apostrophe before text that a spreadsheet would run as a formula."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA_STARTS) else cell
