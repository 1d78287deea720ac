"""From a table to the matrix that an estimator takes: learnt once, applied to every table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from isopivot._arrays import Rows, Vector
from isopivot.data import _matrix
from isopivot.data._columns import UNKNOWN, Categories, identifiers, labels_of
from isopivot.data._options import (
    Impute,
    PreparationOptions,
    Scale,
    check_options,
    known_columns,
    selected_columns,
)
from isopivot.data._state import checked_state, plain_state
from isopivot.data._table import FileError, Table, duplicates, listing, short, suggestion


@dataclass(frozen=True, eq=False)
class Prepared:
    """A table made ready for an estimator.

    Parameters
    ----------
    X : ndarray or scipy.sparse.csr_array of float64, shape (n_kept, n_features)
        The features.
    ids : ndarray, shape (n_kept,)
        The ids of the rows.
    id_name : str
        The name of the id column; ``row`` where rows are numbered from 0.
    labels : ndarray, shape (n_kept,), or None
        The labels, where they were asked for.
    notices : tuple of str
        What was done beyond the expected, one line each.
    rows : ndarray of int, shape (n_kept,)
        The numbers, from 0, of the table's rows that were kept.

    Examples
    --------
    >>> import pandas
    >>> table = Table(pandas.DataFrame({"a": [1.0, None, 3.0]}), ("a",))
    >>> done = Preparation.learn(table, PreparationOptions(impute="drop")).apply(table)
    >>> done.rows.tolist(), done.notices
    ([0, 2], ('the table: 1 of 3 rows left out for missing values',))
    """

    X: Any
    ids: npt.NDArray[Any]
    id_name: str
    labels: npt.NDArray[Any] | None
    notices: tuple[str, ...]
    rows: Rows


@dataclass(frozen=True)
class Preparation:
    """What was learnt from the training table, to treat every later one alike.

    Made by `learn`; the order of work is: select, impute, one-hot, scale.

    Parameters
    ----------
    id_name, label_name : str or None
        The columns with the ids and the labels.
    columns : tuple of str
        The columns that features are made of.
    ignored : tuple of str
        Columns of the training table that were left out on purpose.
    categories : tuple
        For each of `columns`: its texts, sorted, or None where it is numeric.
    impute : {None, "median", "drop"}
        What is done with missing values.
    fills : tuple of float
        For each of `columns`, if `impute` is "median": the value put into gaps (for texts
        the position of the category). Otherwise empty.
    scale : {"none", "standardize", "unit-box"}
        What is done to the features.
    offsets, divisors : tuple of float
        Features become (feature - offset) / divisor. Empty if `scale` is "none".

    Examples
    --------
    >>> import pandas
    >>> frame = pandas.DataFrame({"colour": ["red", "blue"], "size": [2.0, 4.0]})
    >>> table = Table(frame, ("colour", "size"))
    >>> preparation = Preparation.learn(table, PreparationOptions(one_hot=True))
    >>> preparation.feature_names
    ('colour=blue', 'colour=red', 'size')
    >>> preparation.apply(table).X
    array([[0., 1., 2.],
           [1., 0., 4.]])
    """

    id_name: str | None
    label_name: str | None
    columns: tuple[str, ...]
    ignored: tuple[str, ...]
    categories: tuple[Categories, ...]
    impute: Impute | None
    fills: tuple[float, ...]
    scale: Scale
    offsets: tuple[float, ...]
    divisors: tuple[float, ...]

    @cached_property
    def feature_names(self) -> tuple[str, ...]:
        """The names of the features: a column's own, or ``column=text`` for one-hot."""
        return _matrix.feature_names(self.columns, self.categories)

    @classmethod
    def learn(cls, table: Table, options: PreparationOptions | None = None) -> Preparation:
        """Return the preparation that `options` describe, learnt from `table`.

        Parameters
        ----------
        table : Table
            The training table.
        options : PreparationOptions, optional
            What is to be done; by default every column is a number and used as it is.

        Returns
        -------
        Preparation

        Raises
        ------
        FileError
            Where the table does not fit the options, with the remedy.
        """
        options = options or PreparationOptions()
        check_options(options)
        columns = selected_columns(table, options)
        left_out = set(columns) | {options.id, options.label}
        plan = cls(
            id_name=options.id,
            label_name=options.label,
            columns=columns,
            ignored=tuple(name for name in table.columns if name not in left_out),
            categories=(None,) * len(columns),
            impute=options.impute,
            fills=(),
            scale=options.scale,
            offsets=(),
            divisors=(),
        )
        if table.sparse:
            _sparse_features(table, plan)  # raises now what would be raised at every use
            return plan
        return _learnt(table, plan, options.one_hot)

    def apply(self, table: Table, *, label: bool = False) -> Prepared:
        """Return the features, ids and, if wanted, labels of a table.

        Parameters
        ----------
        table : Table
            Any table with the columns of the training table, in any order. Others are
            ignored with a notice; the label may be absent unless `label` is true; without
            the id column rows are numbered, with a notice.
        label : bool, default=False
            Whether to return the labels.

        Returns
        -------
        Prepared
            The matrix is the caller's own: C-contiguous, or CSR for a sparse table.

        Raises
        ------
        FileError
            Where columns are missing or cells cannot be used, with the remedy.
        """
        _check_columns(table, self.columns)
        notices = [*table.notices, *_extra_columns(table, self)]
        X, rows, remarks = (_sparse_features if table.sparse else _features)(table, self)
        ids, id_name = rows, "row"
        if self.id_name in table.columns:
            ids, id_name = identifiers(table, self.id_name)[rows], self.id_name
        elif self.id_name is not None:
            notices.append(
                f"{table.name} has no id column {short(self.id_name)}; rows are numbered from 0"
            )
        labels = _labels(table, self.label_name)[rows] if label else None
        return Prepared(X, ids, id_name, labels, (*notices, *remarks), rows)

    def to_state(self) -> dict[str, Any]:
        """Return this preparation as a tree of JSON values and float64 arrays."""
        return plain_state(self)

    @classmethod
    def from_state(cls, tree: Mapping[str, Any]) -> Preparation:
        """Return the preparation that `to_state` wrote.

        Raises
        ------
        ValueError
            Where an entry is missing, unknown, or not what it must be.
        """
        return cls(**checked_state(tree))


def _refuse_sparse(table: Table, plan: Preparation) -> None:
    """Refuse what would fill a sparse matrix, or has no meaning there."""
    if plan.scale != "none":
        raise FileError(
            f"{table.name} is sparse and scale {plan.scale!r} would fill its zeros; "
            "use no --standardize or --unit-box, or write it as a dense .npy"
        )
    if plan.impute is not None:
        raise FileError(f"{table.name} is sparse and has no gaps; leave --impute out")
    if any(texts is not None for texts in plan.categories):
        raise FileError(f"{table.name} is sparse and has no texts; give a table as in training")


def _learnt(table: Table, plan: Preparation, one_hot: bool) -> Preparation:
    """Return the plan with categories, fills and scales taken from the table."""
    columns = plan.columns
    categories = _matrix.categories_of_all(table, columns, one_hot)
    twice = duplicates(_matrix.feature_names(columns, categories))
    if twice:
        raise FileError(f"one-hot makes more than one feature {listing(twice)}; rename a column")
    fills: Vector = np.empty(0)
    if plan.impute == "median":
        cells = _matrix.cells_of(table, columns, categories)
        _matrix.check_finite(table, columns, cells)
        fills = _matrix.fills_of(table, columns, categories, cells)
    plan = replace(plan, categories=categories, fills=tuple(fills.tolist()))
    if plan.scale == "none":
        _features(table, plan)  # raises now what would be raised at every use
        return plan
    X, _, _ = _features(table, replace(plan, scale="none"))
    offsets, divisors = _matrix.scaling(X, plan.scale)
    if not np.isfinite([offsets, divisors]).all():
        worst = plan.feature_names[int(np.argmin(np.isfinite(offsets + divisors)))]
        raise FileError(f"{table.name}: column {short(worst)} is too large to scale; rescale it")
    return replace(plan, offsets=tuple(offsets.tolist()), divisors=tuple(divisors.tolist()))


def _check_columns(table: Table, columns: Sequence[str]) -> None:
    known = set(table.columns)
    absent = [name for name in columns if name not in known]
    if absent:
        raise FileError(
            f"{table.name} lacks {len(absent)} of the {len(columns)} columns of the model: "
            f"{listing(absent)}; add them or rename{suggestion(absent[:1], table.columns)}"
        )


def _extra_columns(table: Table, plan: Preparation) -> list[str]:
    expected = {*plan.columns, *plan.ignored, plan.id_name, plan.label_name}
    extra = [name for name in table.columns if name not in expected]
    return [f"{table.name}: ignored, as the model has no {listing(extra)}"] if extra else []


def _features(table: Table, plan: Preparation) -> tuple[Vector, Rows, list[str]]:
    """Return the dense features, the rows they belong to, and what there is to say."""
    cells = _matrix.cells_of(table, plan.columns, plan.categories)
    _matrix.check_finite(table, plan.columns, cells)
    remarks = _unknown_categories(table, plan, cells)
    rows = np.arange(table.n_rows, dtype=np.intp)
    gaps = np.isnan(cells)
    if gaps.any():
        if plan.impute is None:
            _matrix.check_gaps(table, plan.columns, gaps)
        elif plan.impute == "drop":
            rows = _matrix.complete_rows(table, gaps)
            cells = cells[rows]
            remarks.append(
                f"{table.name}: {table.n_rows - rows.size} of {table.n_rows} rows left out for "
                "missing values"
            )
        else:
            np.copyto(cells, plan.fills, where=gaps)
            remarks.append(f"{table.name}: {int(gaps.sum())} missing values filled by medians")
    X = _matrix.expanded(cells, plan.categories)
    if plan.scale != "none":
        _matrix.rescale(X, np.array(plan.offsets), np.array(plan.divisors))
        _matrix.check_finite(table, plan.feature_names, X, rows)
    return X, rows, remarks


def _unknown_categories(table: Table, plan: Preparation, cells: Vector) -> list[str]:
    notices = []
    for j, texts in enumerate(plan.categories):
        unknown = np.flatnonzero((cells[:, j] == UNKNOWN) & (texts is not None))
        if unknown.size:
            notices.append(
                f"{table.name}: column {short(plan.columns[j])} holds texts unknown to the model "
                f"in {len(unknown)} rows, first in {table.where(int(unknown[0]))}; "
                "they count as none of its categories"
            )
    return notices


def _sparse_features(table: Table, plan: Preparation) -> tuple[Any, Rows, list[str]]:
    _refuse_sparse(table, plan)
    X = table.values
    if plan.columns != table.columns:
        position = {name: j for j, name in enumerate(table.columns)}
        X = X[:, [position[name] for name in plan.columns]]
    X = sparse.csr_array(X, dtype=np.float64, copy=True)
    bad = np.flatnonzero(~np.isfinite(X.data))
    if bad.size:
        row = int(np.searchsorted(X.indptr, bad[0], side="right")) - 1
        raise FileError(
            f"{table.name}: column {short(plan.columns[X.indices[bad[0]]])} holds "
            f"{X.data[bad[0]]} in {table.where(row)}; give finite numbers"
        )
    return X, np.arange(table.n_rows, dtype=np.intp), []


def _labels(table: Table, name: str | None) -> npt.NDArray[Any]:
    if name is None:
        raise FileError(
            "the model was fitted without labels; name their column by --label and fit again"
        )
    if name not in table.columns:
        raise FileError(
            f"{table.name} has no label column {short(name)}"
            f"{suggestion([name], table.columns) or known_columns(table)}"
        )
    return labels_of(table, name)
