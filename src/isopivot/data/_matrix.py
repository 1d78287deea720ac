"""From the cells of a table to a matrix: gaps, one-hot columns, scales.

Cells are float64, one column per column of the table: a number, or the position of a
category; NaN where the table has a gap.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from isopivot._arrays import Rows, Vector
from isopivot.data._columns import UNKNOWN, Categories, categories_of, encoded, plain_numbers
from isopivot.data._table import FileError, Table, listing, short

Mask = npt.NDArray[np.bool_]


def feature_names(columns: Sequence[str], categories: Sequence[Categories]) -> tuple[str, ...]:
    """Return the name of every feature: the column's own, or ``column=text``."""
    names: list[str] = []
    for column, texts in zip(columns, categories, strict=True):
        names += [column] if texts is None else [f"{column}={text}" for text in texts]
    return tuple(names)


def categories_of_all(
    table: Table, columns: Sequence[str], one_hot: bool
) -> tuple[Categories, ...]:
    """Return for each column its categories, or None where it is numeric."""
    frame = _chosen(table, columns)
    return tuple(
        categories_of(table, column, frame.iloc[:, j], one_hot) for j, column in enumerate(columns)
    )


def _chosen(table: Table, columns: Sequence[str]) -> Any:
    position = {name: j for j, name in enumerate(table.columns)}
    return table.values.iloc[:, [position[column] for column in columns]]


def cells_of(table: Table, columns: Sequence[str], categories: Sequence[Categories]) -> Vector:
    """Return the cells of the chosen columns, in memory of their own."""
    frame = _chosen(table, columns)
    if all(texts is None for texts in categories) and plain_numbers(frame):
        return np.array(frame.to_numpy(dtype=np.float64), order="C", copy=True)
    cells = np.empty((table.n_rows, len(columns)))
    for j, (column, texts) in enumerate(zip(columns, categories, strict=True)):
        cells[:, j] = encoded(table, column, frame.iloc[:, j], texts)
    return cells


def check_finite(
    table: Table, names: Sequence[str], values: Vector, rows: Rows | None = None
) -> None:
    """Refuse infinite cells, naming the first; `rows` are the table's rows, if not all."""
    infinite = np.isinf(values)
    if infinite.any():
        row, column = _first(infinite)
        place = table.where(row if rows is None else int(rows[row]))
        raise FileError(
            f"{table.name}: column {short(names[column])} holds {values[row, column]} in "
            f"{place}; give finite numbers, or leave out that row or column"
        )


def check_gaps(table: Table, columns: Sequence[str], gaps: Mask) -> None:
    """Refuse missing cells, naming the first."""
    if gaps.any():
        row, column = _first(gaps)
        raise FileError(
            f"{table.name}: column {short(columns[column])} has no value in {table.where(row)} "
            f"({int(gaps.sum())} missing in all); --impute median fills the gaps, "
            "--drop-missing leaves their rows out"
        )


def complete_rows(table: Table, gaps: Mask) -> Rows:
    """Return the numbers of the rows without gaps."""
    rows = np.flatnonzero(~gaps.any(axis=1))
    if rows.size == 0:
        raise FileError(
            f"{table.name} has a missing value in every row; --drop the columns with gaps, "
            "or --impute median"
        )
    return rows


def _first(mask: Mask) -> tuple[int, int]:
    row, column = np.unravel_index(int(np.argmax(mask)), mask.shape)
    return int(row), int(column)


def fills_of(
    table: Table, columns: Sequence[str], categories: Sequence[Categories], cells: Vector
) -> Vector:
    """Return what gaps are filled with: medians, and the most frequent category."""
    empty: Mask = np.asarray(np.isnan(cells).all(axis=0))
    if empty.any():
        names = [name for name, gone in zip(columns, empty, strict=True) if gone]
        raise FileError(
            f"{table.name} has no value at all in {listing(names)}, so no median; "
            f"--drop {short(names[0])}"
        )
    return np.array(
        [
            _median(column) if texts is None else _most_frequent(column)
            for column, texts in zip(cells.T, categories, strict=True)
        ]
    )


def _median(column: Vector) -> float:
    # Halved first, so that the mean of the two middle values cannot overflow.
    return 2.0 * float(np.median(column[~np.isnan(column)] / 2.0))


def _most_frequent(codes: Vector) -> float:
    return float(np.argmax(np.bincount(codes[~np.isnan(codes)].astype(np.intp))))


def expanded(cells: Vector, categories: Sequence[Categories]) -> Vector:
    """Return the features: numeric columns as they are, one 0/1 column per category."""
    widths = [1 if texts is None else len(texts) for texts in categories]
    starts = np.concatenate([[0], np.cumsum(widths)]).astype(np.intp)
    if all(texts is None for texts in categories):
        return cells
    X = np.zeros((cells.shape[0], int(starts[-1])))
    for j, texts in enumerate(categories):
        if texts is None:
            X[:, starts[j]] = cells[:, j]
        else:
            known = np.flatnonzero(cells[:, j] != UNKNOWN)
            X[known, starts[j] + cells[known, j].astype(np.intp)] = 1.0
    return X


def scaling(X: Vector, scale: str) -> tuple[Vector, Vector]:
    """Return the offset and the divisor of every feature; a constant one is divided by 1."""
    smallest, largest = X.min(axis=0), X.max(axis=0)
    if scale == "unit-box":
        with np.errstate(over="ignore"):
            offsets, divisors = smallest, largest - smallest
    else:
        # Squares overflow or vanish far from 1; a power of two changes no digit.
        size = np.maximum(np.abs(smallest), np.abs(largest))
        unit = np.exp2(np.floor(np.log2(np.where(size > 0.0, size, 1.0))))
        with np.errstate(under="ignore"):
            scaled = X / unit
            offsets, divisors = unit * scaled.mean(axis=0), unit * scaled.std(axis=0)
    constant = (smallest == largest) | (divisors == 0.0)
    # The rounded mean of equal values need not equal them.
    return np.where(constant, smallest, offsets), np.where(constant, 1.0, divisors)


def rescale(X: Vector, offsets: Vector, divisors: Vector) -> None:
    """Subtract and divide in place; what overflows becomes infinite."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        X -= offsets
        X /= divisors
