"""Tables and model files, as the commands use them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from isopivot.cli._errors import CommandError, Status, unwritable, usage, writing
from isopivot.cli._terminal import Output, working

if TYPE_CHECKING:
    from isopivot.data import Preparation, Prepared, Table
    from isopivot.estimators import TableModel


def read(path: Path, kind: str | None, text: str | None) -> Table:
    """Return the table in a file; the column named `text` is kept letter by letter."""
    from isopivot.data import read_table

    with working(f"reading {path}"):
        return read_table(path, format=kind, text=[] if text is None else [text])


def features(preparation: Preparation, prepared: Prepared) -> Any:
    """Return the features with their names, so that the estimator knows them too."""
    from scipy import sparse

    if sparse.issparse(prepared.X):
        return prepared.X
    import pandas

    return pandas.DataFrame(prepared.X, columns=list(preparation.feature_names), copy=False)


def load_model(path: Path) -> Any:
    """Return what a model file holds: a TableModel, or an estimator saved from Python."""
    from isopivot import load

    with working(f"reading {path}"):
        return load(path)


def table_model(model: Any, table: Table) -> TableModel:
    """Return the model with a preparation; a bare estimator takes the table's columns."""
    from isopivot.data import FileError, Preparation, PreparationOptions
    from isopivot.estimators import TableModel

    if isinstance(model, TableModel):
        return model
    names = getattr(model, "feature_names_in_", None)
    options = PreparationOptions(columns=None if names is None else [str(n) for n in names])
    preparation = Preparation.learn(table, options)
    if len(preparation.feature_names) != model.n_features_in_:
        raise FileError(
            f"{table.name} has {len(preparation.feature_names)} columns where the model has "
            f"{model.n_features_in_} features; give the columns it was fitted on"
        )
    return TableModel(preparation, model)


def prepare(
    model: Any, path: Path, kind: str | None, output: Output, *, label: bool = False
) -> tuple[TableModel, Prepared, Any]:
    """Return the model with its preparation, and a table prepared for it."""
    preparation = getattr(model, "preparation", None)
    table = read(path, kind, None if preparation is None else preparation.id_name)
    model = table_model(model, table)
    label = label and model.preparation.label_name in table.columns
    plan = model.preparation
    prepared = _with_labels(plan, table, output) if label else plan.apply(table)
    output.notice(prepared.notices)
    X = features(model.preparation, prepared)
    # Without stored names the estimator would warn about being given some.
    named = hasattr(model.estimator, "feature_names_in_")
    return model, prepared, X if named or not hasattr(X, "columns") else prepared.X


def _with_labels(plan: Preparation, table: Table, output: Output) -> Prepared:
    """Return the table with its labels; new rows may have the column but not its values."""
    from isopivot.data import FileError

    try:
        return plan.apply(table, label=True)
    except FileError as error:
        prepared = plan.apply(table)  # raises again if the labels are not it
        output.notice([f"{error}; labels are not used"])
        return prepared


def frame_of(prepared: Prepared, columns: Mapping[str, Any], rows: Any = None) -> Any:
    """Return a table whose first column are the ids, of all rows or of some."""
    import pandas

    ids = prepared.ids if rows is None else prepared.ids[rows]
    # A dictionary would let a column take the place of an id of the same name.
    frame = pandas.DataFrame(dict(columns))
    frame.insert(0, prepared.id_name, ids, allow_duplicates=True)
    return frame


def write(path: Path, kind: str | None, frame: Any, id_name: str) -> None:
    """Write a table; whatever prevents that ends the command."""
    from isopivot.data import write_table

    with writing(path):
        if kind == "sparse":  # which has no place for ids
            write_table(path, frame.iloc[:, 1:], format=kind)
        else:
            write_table(path, frame, format=kind, id_name=id_name)


# -- before the work ----------------------------------------------------------------------


def check_inputs(*paths: Path | None) -> None:
    """Refuse to read standard input twice."""
    if sum(str(path) == "-" for path in paths) > 1:
        raise usage("got - more than once; standard input can be read once, name a file")


def check_table_target(path: Path, kind: str | None, output: Output, *inputs: Path | None) -> None:
    """Find out before the work, not after it, that a table cannot be written."""
    from isopivot.data import FileError
    from isopivot.data.files import _format_of

    try:
        _format_of(path, kind)
    except FileError as error:
        raise CommandError(Status.WRITING, str(error)) from error
    if str(path) != "-":
        check_target(path, *inputs, devices=True)
    elif output.as_json:
        raise usage("got --json, which needs standard output for itself; give -o FILE")


def check_target(path: Path, *inputs: Path | None, devices: bool = False) -> None:
    """Find out before the work, not after it, that a file cannot be written."""
    for source in inputs:
        if source is not None and source.exists() and path.exists() and path.samefile(source):
            raise usage(f"{path} would be overwritten by what is made from it; name another file")
    if path.is_dir():
        raise CommandError(Status.WRITING, f"{path} is a folder; name a file in it")
    if path.exists() and not path.is_file():
        if devices:
            return
        raise CommandError(Status.WRITING, f"{path} is no ordinary file; name another one")
    folder = Path(os.path.realpath(path)).parent
    if not folder.exists():
        raise CommandError(Status.WRITING, f"the folder of {path} does not exist; make it first")
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise unwritable(path, error) from error


def make_folder(folder: Path) -> None:
    """Make the folder for the output, and find out whether it can be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        remedy = "choose a folder you may write to with --out DIR"
        raise unwritable(folder, error, remedy) from error
