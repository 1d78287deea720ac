"""The options that commands share, and how their text becomes values."""

from __future__ import annotations

import csv
import math
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from isopivot.cli._errors import usage

if TYPE_CHECKING:
    from isopivot.data import PreparationOptions

TABLE, MODEL = "Table", "Model"


class KernelName(StrEnum):
    """Kernels that have a name."""

    RBF = "rbf"
    EXPONENTIAL = "exponential"
    LAPLACIAN = "laplacian"
    MATERN32 = "matern32"
    COSINE = "cosine"
    POLYNOMIAL = "polynomial"
    LINEAR = "linear"


class Fill(StrEnum):
    """What missing values are filled with."""

    MEDIAN = "median"


class FormatName(StrEnum):
    """Formats of tables."""

    CSV = "csv"
    TSV = "tsv"
    PARQUET = "parquet"
    FEATHER = "feather"
    NPY = "npy"
    NPZ = "npz"
    SPARSE = "sparse"


KINDS = ", ".join(FormatName)

Data = Annotated[
    Path,
    typer.Argument(
        metavar="DATA",
        show_default=False,
        help="Table: .csv, .tsv (both also .gz), .parquet, .feather, .npy, .npz; - is standard "
        "input.",
    ),
]
ModelFile = Annotated[
    Path, typer.Argument(metavar="MODEL", show_default=False, help="File that fit wrote.")
]
Out = Annotated[
    Path,
    typer.Option("-o", "--out", metavar="FILE", help="Table to write; - is standard output."),
]
From = Annotated[
    FormatName | None,
    typer.Option(
        "--from",
        metavar="FORMAT",
        help=f"Format of DATA, where its ending does not say it: {KINDS}.",
    ),
]
To = Annotated[
    FormatName | None,
    typer.Option(
        "--to",
        metavar="FORMAT",
        help=f"Format of the output, where its ending does not say it: {KINDS}.",
    ),
]
Json = Annotated[
    bool, typer.Option("--json", help="Print one JSON object on standard output instead of words.")
]

Id = Annotated[
    str | None,
    typer.Option("--id", metavar="COL", rich_help_panel=TABLE, help="Column that names the rows."),
]
Columns = Annotated[
    list[str] | None,
    typer.Option(
        "--columns",
        metavar="COLS",
        rich_help_panel=TABLE,
        help="Columns to use, separated by commas; may be repeated. Without it: all.",
    ),
]
Drop = Annotated[
    list[str] | None,
    typer.Option(
        "--drop",
        metavar="COLS",
        rich_help_panel=TABLE,
        help="Columns to leave out, separated by commas; may be repeated.",
    ),
]
Standardize = Annotated[
    bool,
    typer.Option(
        "--standardize", rich_help_panel=TABLE, help="Give every column mean 0 and deviation 1."
    ),
]
UnitBox = Annotated[
    bool,
    typer.Option("--unit-box", rich_help_panel=TABLE, help="Stretch every column from 0 to 1."),
]
Impute = Annotated[
    Fill | None,
    typer.Option("--impute", rich_help_panel=TABLE, help="Fill missing values by this."),
]
DropMissing = Annotated[
    bool,
    typer.Option(
        "--drop-missing", rich_help_panel=TABLE, help="Leave out rows with missing values."
    ),
]
OneHot = Annotated[
    bool,
    typer.Option("--one-hot", rich_help_panel=TABLE, help="Make columns of texts 0/1 columns."),
]

Mu = Annotated[
    str | None,
    typer.Option(
        "--mu",
        metavar="MU",
        rich_help_panel=MODEL,
        help="Largest residual: a number, a percentage of the largest norm, or (classifiers) "
        "auto, chosen on rows held out. Distances change by at most twice this. Without it: 5% "
        "(kernels 0.1, a classifier auto).",
    ),
]
Components = Annotated[
    int | None,
    typer.Option(
        "-n",
        "--components",
        metavar="N",
        min=1,
        rich_help_panel=MODEL,
        help="Largest dictionary; without --mu this alone decides.",
    ),
]
Kernel = Annotated[
    KernelName | None,
    typer.Option(
        "--kernel", rich_help_panel=MODEL, help="Measure distances in a kernel's feature space."
    ),
]
Diffusion = Annotated[
    bool,
    typer.Option(
        "--diffusion", rich_help_panel=MODEL, help="Measure diffusion distances (kernel: rbf)."
    ),
]
Steps = Annotated[
    int | None,
    typer.Option(
        "--t", metavar="T", min=1, rich_help_panel=MODEL, help="Steps of --diffusion (1)."
    ),
]
Epsilon = Annotated[
    str | None,
    typer.Option(
        "--epsilon",
        metavar="EPS",
        rich_help_panel=MODEL,
        help="Squared length scale of the kernel, or median.",
    ),
]
Center = Annotated[
    bool | None,
    typer.Option(
        "--center/--no-center",
        show_default=False,
        rich_help_panel=MODEL,
        help="Whether to measure from the mean (without a kernel; on by default).",
    ),
]


def table_options(
    *,
    label: str | None,
    id_column: str | None,
    columns: list[str] | None,
    drop: list[str] | None,
    standardize: bool,
    unit_box: bool,
    impute: Fill | None,
    drop_missing: bool,
    one_hot: bool,
) -> PreparationOptions:
    """Return what is asked of the table; refuse options that contradict each other."""
    from isopivot.data import PreparationOptions

    if standardize and unit_box:
        raise usage("got --standardize and --unit-box; give one of them")
    if impute and drop_missing:
        raise usage("got --impute and --drop-missing; give one of them")
    return PreparationOptions(
        id=id_column,
        label=label,
        columns=tuple(names(columns)) if columns else None,
        drop=tuple(names(drop or [])),
        scale="standardize" if standardize else "unit-box" if unit_box else "none",
        impute="drop" if drop_missing else "median" if impute else None,
        one_hot=one_hot,
    )


def names(values: list[str]) -> list[str]:
    """Return the names in comma-separated lists; quoted, a name may hold a comma."""
    found = (name for row in csv.reader(values, skipinitialspace=True) for name in row)
    return [name.strip() for name in found if name.strip()]


def number_or_word(option: str, text: str | None, words: tuple[str, ...]) -> float | str | None:
    """Return an option's number, or one of the words it may be instead."""
    if text is None or text in words:
        return text
    try:
        return float(text)
    except ValueError:
        allowed = "a number" if not words else f"a number or {' or '.join(words)}"
        raise usage(f"got {option} {text}; give {allowed}") from None


def tolerance(text: str | None) -> float | str | None:
    """Return mu: a number, a percentage or auto."""
    if text is None or text == "auto":
        return text
    bare = text.strip()
    try:
        value = float(bare.removesuffix("%"))
    except ValueError:
        value = -1.0
    if not 0.0 <= value < math.inf:
        raise usage(
            f"got --mu {text}; give a number >= 0, a percentage such as 5%, or (with --label) auto"
        )
    return bare if bare.endswith("%") else value


def share(text: str) -> float:
    """Return a false-alarm rate, given as a percentage or as a number below 1."""
    bare = text.strip()
    try:
        rate = float(bare.removesuffix("%")) / (100.0 if bare.endswith("%") else 1.0)
    except ValueError:
        rate = -1.0
    if not 0.0 < rate < 1.0:
        raise usage(f"got --false-alarm-rate {text}; give a share such as 1% or 0.01")
    return rate
