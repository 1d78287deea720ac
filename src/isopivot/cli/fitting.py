"""Commands that learn: fit and landmarks."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from isopivot.cli import _options as o
from isopivot.cli import _tables as tables
from isopivot.cli._errors import refusals, writing
from isopivot.cli._estimators import Choice, blindness, check_size, make_estimator
from isopivot.cli._terminal import Output, PanelCounter, size, working

if TYPE_CHECKING:
    from isopivot.data import Preparation, PreparationOptions, Prepared

Label = Annotated[
    str | None,
    typer.Option(
        "--label",
        metavar="COL",
        rich_help_panel=o.TABLE,
        help="Column with the classes: trains a classifier, for classify. With --diffusion it "
        "is only left out, and colours reports.",
    ),
]
Ignored = Annotated[
    str | None,
    typer.Option(
        "--label", metavar="COL", rich_help_panel=o.TABLE, help="Column with classes to leave out."
    ),
]


def fit(
    data: o.Data,
    model: Annotated[
        Path, typer.Option("--model", "-m", metavar="FILE", help="Where the model goes.")
    ],
    mu: o.Mu = None,
    components: o.Components = None,
    kernel: o.Kernel = None,
    diffusion: o.Diffusion = False,
    t: o.Steps = None,
    epsilon: o.Epsilon = None,
    center: o.Center = None,
    rotate: Annotated[
        bool,
        typer.Option("--rotate", rich_help_panel=o.MODEL, help="Turn axes to principal ones."),
    ] = False,
    threshold: Annotated[
        str | None,
        typer.Option(
            "--threshold",
            metavar="RATE",
            rich_help_panel=o.MODEL,
            help="Rate above which score finds anomalies: a number, mu, or strict.",
        ),
    ] = None,
    embedding: Annotated[
        bool,
        typer.Option(
            "--embedding", rich_help_panel=o.MODEL, help="Keep the embedding in the model file."
        ),
    ] = False,
    label: Label = None,
    id_column: o.Id = None,
    columns: o.Columns = None,
    drop: o.Drop = None,
    standardize: o.Standardize = False,
    unit_box: o.UnitBox = False,
    impute: o.Impute = None,
    drop_missing: o.DropMissing = False,
    one_hot: o.OneHot = False,
    from_: o.From = None,
    as_json: o.Json = False,
) -> None:
    """Learn the dictionary of a table, write the model, print what it promises."""
    choice = Choice(
        mu=o.tolerance(mu),
        n_components=components,
        kernel=kernel and kernel.value,
        diffusion=diffusion,
        t=t,
        epsilon=o.number_or_word("--epsilon", epsilon, ("median",)),
        center=center,
        rotate=rotate or None,
        threshold=o.number_or_word("--threshold", threshold, ("mu", "strict")),
        classify=label is not None,
    )
    options = o.table_options(
        label=label,
        id_column=id_column,
        columns=columns,
        drop=drop,
        standardize=standardize,
        unit_box=unit_box,
        impute=impute,
        drop_missing=drop_missing,
        one_hot=one_hot,
    )
    _fit_and_save(data, model, choice, options, from_, embedding, Output("fit", as_json))


def _fit_and_save(
    data: Path,
    target: Path,
    choice: Choice,
    options: PreparationOptions,
    kind: str | None,
    embedding: bool,
    output: Output,
) -> None:
    from isopivot.estimators import TableModel

    estimator = make_estimator(choice)
    tables.check_target(target, data)
    preparation, prepared = _learnt(data, choice, options, kind, output)
    fitted = _fitted(estimator, tables.features(preparation, prepared), prepared.labels)
    model = TableModel(preparation, fitted, dictionary_ids(fitted, prepared))
    with writing(target), refusals(), working(f"writing {target}"):
        model.save(target, embedding=embedding)
    output.notice(blindness(fitted))
    facts = {
        "data": data,
        "model": target,
        "bytes": target.stat().st_size,
        "estimator": type(fitted).__name__,
        "rows": len(prepared.rows),
        "features": len(preparation.feature_names),
        **_promises(fitted),
    }
    output.finish(facts, _fit_words(facts))


def _learnt(
    data: Path, choice: Choice, options: PreparationOptions, kind: str | None, output: Output
) -> tuple[Preparation, Prepared]:
    """Return the preparation that the options ask for, and the table prepared by it."""
    from isopivot.data import Preparation

    table = tables.read(data, kind, options.id)
    preparation = Preparation.learn(table, options)
    prepared = preparation.apply(table, label="classifier" in choice.kind)
    output.notice(prepared.notices)
    if choice.diffusion and options.label is not None:
        output.notice(
            [f"column {options.label!r} is no feature; there is no classifier with --diffusion"]
        )
    check_size(choice, *prepared.X.shape)
    return preparation, prepared


def _fitted(estimator: Any, X: Any, labels: Any) -> Any:
    name, (rows, columns) = type(estimator).__name__, X.shape
    with refusals(), working(f"fitting {name} to {rows} rows of {columns}") as report:
        if sys.stderr.isatty() and hasattr(estimator, "set_callbacks"):
            estimator.set_callbacks(PanelCounter(report))
        return estimator.fit(X) if labels is None else estimator.fit(X, labels)


def dictionary_ids(estimator: Any, prepared: Prepared) -> tuple[tuple[Any, ...], ...]:
    """Return the ids of the dictionary; for a classifier one tuple per class."""
    import numpy as np

    if not hasattr(estimator, "estimators_"):
        return (_plain_ids(prepared.ids[estimator.dictionary_indices_]),)
    found = []
    for label, own in zip(estimator.classes_, estimator.estimators_, strict=True):
        rows = np.flatnonzero(prepared.labels == label)
        found.append(_plain_ids(prepared.ids[rows[own.dictionary_indices_]]))
    return tuple(found)


def _plain_ids(ids: Any) -> tuple[Any, ...]:
    """Return ids as JSON has them: numbers that it lacks are spelled."""
    import math

    return tuple(
        str(value) if isinstance(value, float) and not math.isfinite(value) else value
        for value in ids.tolist()
    )


# -- what fit prints ----------------------------------------------------------------------


def _promises(fitted: Any) -> dict[str, Any]:
    if not hasattr(fitted, "estimators_"):
        return {"certificate": fitted.certificate_.to_dict(), "threshold": float(fitted.threshold_)}
    parts = zip(fitted.classes_.tolist(), fitted.estimators_, strict=True)
    validation = fitted.validation_
    return {
        "classes": [{"label": name, **own.certificate_.to_dict()} for name, own in parts],
        "mu": fitted.mu_,
        "centered": fitted.kernel is None and bool(fitted.center),
        "held_out_accuracy": None if validation is None else float(validation[:, 2].max()),
    }


def _fit_words(facts: dict[str, Any]) -> Iterator[str]:
    rows = "1 row" if facts["rows"] == 1 else f"{facts['rows']} rows"
    source = "standard input" if str(facts["data"]) == "-" else facts["data"]
    yield f"{facts['estimator']} fitted to {rows} of {facts['features']} features from {source}."
    if "classes" in facts:
        yield from _classifier_words(facts)
    else:
        yield from certificate_words(facts["certificate"], facts["features"])
    yield f"Model: {facts['model']} ({size(facts['bytes'])})"


def certificate_words(promise: dict[str, Any], features: int) -> Iterator[str]:
    """Say in plain words what a certificate promises."""
    kept = promise["n_components"]
    if promise["n_samples"] == 1:
        yield "One row has no distances to keep, so nothing is promised; give a table of more rows."
        return
    distance = _distance(promise)
    most = f"{features} dimensions" if distance == "distance" else f"{promise['n_samples']} rows"
    yield (
        f"Kept {kept} of {most}: no {distance} between two of these rows changes by more than "
        f"{promise['distortion_bound']:.6g}."
    )
    if not promise["certified"]:
        yield (
            f"The mu asked for was not reached: the largest residual is {promise['mu_strict']:.6g}."
        )
    if kept == 0 and promise["mu_strict"] <= promise["accuracy_floor"]:
        yield "Nothing was kept, because all rows are equal."
    elif kept == 0:
        yield "Nothing was kept, because mu exceeds every norm; give a smaller --mu."


def _distance(promise: dict[str, Any]) -> str:
    """Return what kind of distance a certificate speaks of."""
    if promise["route"].startswith("diffusion"):
        return "diffusion distance"
    return "distance" if promise["kernel_evaluations"] is None else "feature-space distance"


def _classifier_words(facts: dict[str, Any]) -> Iterator[str]:
    parts = facts["classes"]
    sizes = ", ".join(f"{p['label']}: {p['n_components']} of {p['n_samples']}" for p in parts[:10])
    more = f" and {len(parts) - 10} more" if len(parts) > 10 else ""
    yield f"Dictionary rows of the {len(parts)} classes: {sizes}{more}; mu {facts['mu']:.6g}."
    if not all(part["n_components"] for part in parts):
        alone = "its mean" if facts["centered"] else "the size of a row"
        yield f"A class with 0 of them needs none at this mu: {alone} alone decides."
    if facts["held_out_accuracy"] is not None:
        yield (
            f"This mu classified {facts['held_out_accuracy']:.1%} of the rows held out to "
            "choose it."
        )
    worst = max(part["distortion_bound"] for part in parts)
    distance = _distance(parts[0])
    yield f"No {distance} between two rows of a class changes by more than {worst:.6g}."


# -- landmarks ----------------------------------------------------------------------------


def landmarks(
    data: o.Data,
    components: o.Components = None,
    mu: o.Mu = None,
    out: o.Out = Path("-"),
    kernel: o.Kernel = None,
    diffusion: o.Diffusion = False,
    t: o.Steps = None,
    epsilon: o.Epsilon = None,
    center: o.Center = None,
    label: Ignored = None,
    id_column: o.Id = None,
    columns: o.Columns = None,
    drop: o.Drop = None,
    standardize: o.Standardize = False,
    unit_box: o.UnitBox = False,
    impute: o.Impute = None,
    drop_missing: o.DropMissing = False,
    one_hot: o.OneHot = False,
    from_: o.From = None,
    to: o.To = None,
    as_json: o.Json = False,
) -> None:
    """Choose the rows that span all others best, best first.

    Columns: the id, the residual at which the row was chosen, and the largest residual of
    any row once it is in.
    """
    choice = Choice(
        mu=o.tolerance(mu),
        n_components=components,
        kernel=kernel and kernel.value,
        diffusion=diffusion,
        t=t,
        epsilon=o.number_or_word("--epsilon", epsilon, ("median",)),
        center=center,
    )
    options = o.table_options(
        label=label,
        id_column=id_column,
        columns=columns,
        drop=drop,
        standardize=standardize,
        unit_box=unit_box,
        impute=impute,
        drop_missing=drop_missing,
        one_hot=one_hot,
    )
    output = Output("landmarks", as_json, str(out))
    _choose(data, out, choice, options, (from_, to), output)


def _choose(
    data: Path,
    out: Path,
    choice: Choice,
    options: PreparationOptions,
    formats: tuple[str | None, str | None],
    output: Output,
) -> None:
    estimator = make_estimator(choice)
    in_json = output.as_json and str(out) == "-"
    if not in_json:
        tables.check_table_target(out, formats[1], output, data)
    preparation, prepared = _learnt(data, choice, options, formats[0], output)
    fitted = _fitted(estimator, tables.features(preparation, prepared), None)
    rows = fitted.dictionary_indices_
    left = fitted.path_[1:, 0]
    left = left * (left > fitted.certificate_.accuracy_floor)  # below it is rounding
    columns = {"residual": fitted.pivot_residuals_, "remaining": left}
    frame = tables.frame_of(prepared, columns, rows)
    if not in_json:
        tables.write(out, formats[1], frame, prepared.id_name)
    facts = {
        "data": data,
        "out": None if in_json else out,
        "landmarks": frame.to_dict("records") if in_json else len(rows),
        **_promises(fitted),
    }
    output.finish(facts, certificate_words(facts["certificate"], prepared.X.shape[1]))
