"""A table in memory, and the one kind of error that everything about files raises."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

Lines = npt.NDArray[np.int64]

_NAMES_SHOWN = 5
_CELL_SHOWN = 40
# What a compressed or encoded file may unfold to: this much in any case, and beyond it this
# many times its own size. Real tables stay far below, files made to exhaust memory do not.
SAFE_BYTES = 1 << 30
SAFE_RATIO = 100


class FileError(ValueError):
    """A file or a table that cannot be used; the message is one line that says what to do.

    Parameters
    ----------
    message : str
        What was found and the remedy. Line breaks become spaces and control characters are
        escaped, since names and cells of a file may hold anything.

    Examples
    --------
    >>> print(FileError("column 'a' is empty;\\n drop it"))
    column 'a' is empty; drop it
    """

    def __init__(self, message: str) -> None:
        line = " ".join(message.split())
        super().__init__("".join(c if c.isprintable() else ascii(c)[1:-1] for c in line))


@dataclass(frozen=True, eq=False)
class Table:
    """Rows and named columns as read from a file.

    Parameters
    ----------
    values : pandas.DataFrame or scipy.sparse.csr_array, shape (n_rows, n_columns)
        The cells, as they are in the file.
    columns : tuple of str
        The names of the columns, in order, each once.
    name : str, default="the table"
        What messages call it: the file's name.
    lines : ndarray of int, optional
        The line of the file at which each row begins; None for files without lines.
    notices : tuple of str
        What a reader should know about how the file was read, one line each.

    Examples
    --------
    >>> import pandas
    >>> table = Table(pandas.DataFrame({"a": [1, 2], "b": [3, 4]}), ("a", "b"))
    >>> table.n_rows, table.where(1)
    (2, 'row 2 (counting from 1)')
    """

    values: Any
    columns: tuple[str, ...]
    name: str = "the table"
    lines: Lines | None = None
    notices: tuple[str, ...] = ()

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return int(self.values.shape[0])

    @property
    def sparse(self) -> bool:
        """Whether the cells are a sparse matrix."""
        return bool(sparse.issparse(self.values))

    def where(self, row: int) -> str:
        """Return words for a row (given from 0): its number from 1 and its line."""
        if self.lines is None:
            return f"row {row + 1} (counting from 1)"
        return f"row {row + 1} (line {self.lines[row]} of the file)"


def checked_table(table: Table) -> Table:
    """Return `table` if it has rows, columns, and no name twice."""
    if not table.columns:
        raise FileError(f"{table.name} has no columns; give a table with at least one")
    if table.n_rows == 0:
        raise FileError(f"{table.name} has columns but no rows; give at least one row")
    check_names(table.columns, table.name)
    return table


def check_names(names: Iterable[str], name: str) -> None:
    """Refuse columns of the same name."""
    twice = duplicates(names)
    if twice:
        raise FileError(
            f"{name} has more than one column named {listing(twice)}; "
            "give every column a name of its own"
        )


def duplicates(names: Iterable[str]) -> list[str]:
    """Return the names that occur more than once, each once, in order."""
    seen: set[str] = set()
    twice: dict[str, None] = {}
    for name in names:
        if name in seen:
            twice[name] = None
        seen.add(name)
    return list(twice)


def numbered_names(n_columns: int) -> tuple[str, ...]:
    """Return x0, x1, ...: the names of columns that have none."""
    return tuple(f"x{j}" for j in range(n_columns))


def require(package: str) -> Any:
    """Import a package that comes with the extra ``files``, or say how to get it."""
    try:
        return import_module(package)
    except ImportError as error:
        wanted = package.partition(".")[0]
        raise FileError(
            f"reading and writing this table needs {wanted}; pip install {wanted}"
        ) from error


def listing(names: Sequence[str]) -> str:
    """Return names for a message: quoted, and only the first few of many."""
    shown = ", ".join(short(name) for name in names[:_NAMES_SHOWN])
    more = len(names) - _NAMES_SHOWN
    return f"{shown} and {more} more" if more > 0 else shown


def short(value: object) -> str:
    """Return a cell or a name for a message, quoted and cut to a readable length."""
    text = str(value)
    return repr(text if len(text) <= _CELL_SHOWN else text[: _CELL_SHOWN - 3] + "...")


def suggestion(wanted: Iterable[str], known: Sequence[str]) -> str:
    """Return ``; did you mean 'b'?`` where known names look like the wanted ones."""
    close: dict[str, None] = {}
    for name in wanted:
        close.update(dict.fromkeys(difflib.get_close_matches(name, known, n=3)))
    return f"; did you mean {listing(list(close))}?" if close else ""


def largest_expansion(stored_bytes: int) -> int:
    """Return how many bytes the content of a file of this size may take in memory."""
    return max(SAFE_BYTES, SAFE_RATIO * stored_bytes)


def unicode_array(values: Iterable[object], name: str) -> npt.NDArray[np.str_]:
    """Return values as fixed-width text, unless one long value would make that huge."""
    texts = [str(value) for value in values]
    longest = max(map(len, texts), default=0)
    if 4 * longest * len(texts) > SAFE_BYTES:
        raise FileError(
            f"column {short(name)} holds a text of {longest} characters, too long to keep "
            f"{len(texts)} of; shorten it or drop the column"
        )
    return np.array(texts, dtype=np.str_)
