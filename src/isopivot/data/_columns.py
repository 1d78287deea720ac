"""One column at a time: what kind it is, its numbers, its categories."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import numpy.typing as npt

from isopivot._arrays import Vector
from isopivot.data._table import FileError, Table, require, short, unicode_array

UNKNOWN = -1.0  # the code of a category that was not there when the preparation was learnt
_MOST_CATEGORIES = 1000
# From so many texts on, nearly all of them different, they name rows instead of kinds.
_FEW, _NEARLY_ALL = 20, 0.9
# 2024-01-31, 2024/1/31, 31.01.2024, 1/31/24, 31-Jan-2024, 12:30; a time or zone may follow.
_DATE_OR_TIME = re.compile(
    r"\s*(\d{4}[-/.]\d{1,2}([-/.]\d{1,2})?|\d{1,2}([-/.])\d{1,2}\3\d{2,4}|\d{1,2}:\d{2}"
    r"|\d{1,2}[- ][A-Za-z]{3,9}[- ]\d{2,4})(\D|$)"
)

Categories = tuple[str, ...] | None  # None: the column is numeric


def column_of(table: Table, name: str) -> Any:
    """Return one column as a pandas Series, or as an array where the table is sparse."""
    position = table.columns.index(name)
    if table.sparse:
        return table.values[:, [position]].toarray().ravel()
    return table.values.iloc[:, position]


def plain_numbers(frame: Any) -> bool:
    """Tell whether every column is of one of NumPy's own real types."""
    return all(isinstance(dtype, np.dtype) and dtype.kind in "biuf" for dtype in frame.dtypes)


def as_numbers(column: Any) -> Vector | None:
    """Return a column in float64, missing cells as NaN; None where it is not numeric.

    Text counts as numeric when every cell spells a number, as it would in a CSV file.
    """
    pandas = require("pandas")
    if isinstance(column.dtype, pandas.CategoricalDtype):
        column = column.astype(object)
    if column.dtype.kind in "biuf":
        return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))
    if not _is_text(column):
        return None
    missing = column.isna().to_numpy()
    if not_numbers(column).any():
        return None
    # Python's float rounds correctly; pandas' parser for mixed columns need not.
    cells = zip(column, missing, strict=True)
    return np.array([np.nan if gap else float(cell) for cell, gap in cells], dtype=np.float64)


def not_numbers(column: Any) -> npt.NDArray[np.bool_]:
    """Return where the cells of a column of text or objects are present but no numbers."""
    parsed = require("pandas").to_numeric(column.astype(object), errors="coerce")
    return np.asarray(parsed.isna() & column.notna())


def _is_text(column: Any) -> bool:
    pandas = require("pandas")
    return bool(
        pandas.api.types.is_object_dtype(column.dtype)
        or pandas.api.types.is_string_dtype(column.dtype)
        or isinstance(column.dtype, pandas.CategoricalDtype)
    )


def categories_of(table: Table, name: str, column: Any, one_hot: bool) -> Categories:
    """Return the sorted categories of a column, or None where it is numeric."""
    if as_numbers(column) is not None:
        return None
    if not one_hot:
        raise _not_numeric(table, name, column)
    if not _is_text(column):
        raise FileError(
            f"{table.name}: column {short(name)} holds {column.dtype} values, neither numbers "
            f"nor categories; turn it into numbers, or --drop {short(name)}"
        )
    found = sorted({_spelled(value) for value in _factorized(table, name, column)[1]})
    if len(found) > _MOST_CATEGORIES:
        raise FileError(
            f"{table.name}: column {short(name)} has {len(found)} different texts, more than "
            f"the {_MOST_CATEGORIES} that one-hot allows; --id or --drop {short(name)}"
            f"{_first_text(table, column)}"
        )
    return tuple(found)


def _not_numeric(table: Table, name: str, column: Any) -> FileError:
    row = int(np.argmax(not_numbers(column))) if _is_text(column) else 0
    cell = column.iloc[row]
    return FileError(
        f"{table.name}: column {short(name)} holds {short(cell)} in {table.where(row)}, which is "
        f"not a number{_decimal_comma(cell)}; {_remedy(name, column, cell)}"
    )


def _remedy(name: str, column: Any, cell: object) -> str:
    """Return what to do about a column that is no numbers; categories only where texts recur."""
    drop = f"--drop {short(name)}"
    if not _is_text(column) or _DATE_OR_TIME.match(str(cell)):
        return (
            f"{drop} leaves it out; dates and times become features only as numbers, such as "
            "days since the first"
        )
    texts = column[not_numbers(column)].astype(str)
    if _decimal_comma(cell) or len(texts) < _FEW <= len(column) * (1.0 - _NEARLY_ALL):
        return f"mend the column, or leave it out by {drop}"
    if len(texts) >= _FEW and texts.nunique() > _NEARLY_ALL * len(texts):
        return (
            f"{drop} leaves it out, as nearly all of its texts are different; --id {short(name)} "
            "calls the rows by them"
        )
    return f"--one-hot makes columns of its texts, {drop} or --columns leaves it out"


def _first_text(table: Table, column: Any) -> str:
    """Point at the first cell that is no number, where other cells are numbers."""
    bad = not_numbers(column)
    row = int(np.argmax(bad))
    return "" if row == 0 else f"; the first is {short(column.iloc[row])} in {table.where(row)}"


def _decimal_comma(cell: object) -> str:
    whole, comma, part = str(cell).strip().lstrip("+-").partition(",")
    spelled = comma and whole.isdigit() and part.isdigit()
    return " (write a decimal point, not a comma)" if spelled else ""


def _factorized(table: Table, name: str, column: Any) -> tuple[npt.NDArray[np.intp], list[Any]]:
    """Return a code per cell (-1: missing) and the values that the codes stand for."""
    try:
        codes, values = require("pandas").factorize(column)
    except TypeError as error:
        raise FileError(
            f"{table.name}: column {short(name)} holds lists or the like; --drop {short(name)}"
        ) from error
    return np.asarray(codes, dtype=np.intp), list(values)


def _spelled(value: Any) -> str:
    """Return a category as CSV would spell it: 1, not 1.0, where a gap made it a float."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def encoded(table: Table, name: str, column: Any, categories: Categories) -> Vector:
    """Return a column in float64: its numbers, or the position of each cell's category.

    Missing cells are NaN, categories never seen `UNKNOWN`.
    """
    if categories is None:
        numbers = as_numbers(column)
        if numbers is None:
            raise _became_text(table, name, column)
        return numbers
    codes, values = _factorized(table, name, column)
    position = {category: float(j) for j, category in enumerate(categories)}
    meaning = [position.get(_spelled(value), UNKNOWN) for value in values]
    return np.array([*meaning, np.nan])[codes]  # code -1 is the last: NaN


def _became_text(table: Table, name: str, column: Any) -> FileError:
    row = int(np.argmax(not_numbers(column))) if _is_text(column) else 0
    cell = column.iloc[row]
    return FileError(
        f"{table.name}: column {short(name)} was learnt as numbers but holds {short(cell)} in "
        f"{table.where(row)}{_decimal_comma(cell)}; mend that cell or leave out that row"
    )


def identifiers(table: Table, name: str) -> npt.NDArray[Any]:
    """Return the ids of the rows: numbers as such, anything else as text."""
    column = _complete(table, name, "id")
    if column.dtype.kind in "biuf":
        return np.asarray(column)
    values = np.empty(table.n_rows, dtype=object)
    values[:] = [str(value) for value in column]
    return values


def labels_of(table: Table, name: str) -> npt.NDArray[Any]:
    """Return the labels of the rows: numbers as such, anything else as text."""
    column = _complete(table, name, "label")
    if column.dtype.kind in "biuf":
        return np.asarray(column)
    return unicode_array(column, name)


def _complete(table: Table, name: str, role: str) -> Any:
    """Return a column in NumPy's types, without missing cells."""
    column = column_of(table, name)
    missing = np.isnan(column) if table.sparse else column.isna().to_numpy()
    if missing.any():
        row = int(np.argmax(missing))
        raise FileError(
            f"{table.name}: {table.where(row)} has no {role} in column {short(name)}; "
            f"give every row a {role}, or take that row out"
        )
    return column if table.sparse else column.to_numpy()
