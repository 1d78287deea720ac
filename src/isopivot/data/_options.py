"""What may be asked of a preparation, and which columns that makes it use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from isopivot.data._table import FileError, Table, duplicates, listing, short, suggestion

Scale = Literal["none", "standardize", "unit-box"]
Impute = Literal["median", "drop"]


@dataclass(frozen=True)
class PreparationOptions:
    """What is to be done to a table.

    Parameters
    ----------
    id : str, optional
        The column that names the rows; without one they are numbered from 0.
    label : str, optional
        The column with the classes; it is never a feature.
    columns : tuple of str, optional
        The columns to use; None for all.
    drop : tuple of str
        Columns to leave out.
    scale : {"none", "standardize", "unit-box"}
        Leave the numbers as they are; mean 0 and standard deviation 1; or from 0 to 1.
        Constant columns are only shifted.
    impute : {None, "median", "drop"}
        Missing values: refuse them; take the column's median (for texts the most frequent);
        or leave out their rows.
    one_hot : bool
        Whether a column of texts becomes one 0/1 column for each of its texts.

    Examples
    --------
    >>> PreparationOptions(id="name", scale="standardize").impute is None
    True
    """

    id: str | None = None
    label: str | None = None
    columns: Sequence[str] | None = None
    drop: Sequence[str] = ()
    scale: Scale = "none"
    impute: Impute | None = None
    one_hot: bool = False


def check_options(options: PreparationOptions) -> None:
    """Refuse what no table could fulfil."""
    if options.scale not in get_args(Scale):
        allowed = ", ".join(get_args(Scale))
        raise FileError(f"got scale {short(options.scale)}; choose one of {allowed}")
    if options.impute is not None and options.impute not in get_args(Impute):
        raise FileError(f"got impute {short(options.impute)}; choose median or drop")
    if options.id is not None and options.id == options.label:
        raise FileError(f"column {short(options.id)} cannot be both --id and --label; choose one")


def selected_columns(table: Table, options: PreparationOptions) -> tuple[str, ...]:
    """Return the columns to make features of, in the order asked for."""
    chosen = table.columns if options.columns is None else tuple(options.columns)
    roles = tuple(name for name in (options.id, options.label) if name is not None)
    named = {"--columns": chosen, "--drop": options.drop, "--id or --label": roles}
    for option, names in named.items():
        unknown = [name for name in names if name not in table.columns]
        if unknown:
            raise FileError(
                f"{table.name} has no column {listing(unknown)}, named by {option}"
                f"{suggestion(unknown, table.columns) or known_columns(table)}"
            )
    if options.columns is not None:
        _check_chosen(chosen, roles)
    columns = tuple(n for n in chosen if n not in roles and n not in set(options.drop))
    if not columns:
        raise FileError(f"{table.name} has no column left to make features of; drop fewer")
    return columns


def _check_chosen(chosen: tuple[str, ...], roles: tuple[str, ...]) -> None:
    twice = duplicates(chosen)
    if twice:
        raise FileError(f"--columns names {listing(twice)} more than once; name it once")
    taken = [name for name in chosen if name in roles]
    if taken:
        raise FileError(
            f"--columns names {listing(taken)}, which is the id or the label; leave it out there"
        )


def known_columns(table: Table) -> str:
    """Return the end of a message: the columns there are."""
    return f"; it has {listing(table.columns)}"
