"""The command that checks a promise: certify."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from isopivot.cli import _options as o
from isopivot.cli import _tables as tables
from isopivot.cli._errors import CommandError, Status, refusals
from isopivot.cli._terminal import Output, working

if TYPE_CHECKING:
    from isopivot.cli._checks import Check
    from isopivot.data import Prepared


def certify(
    model: o.ModelFile,
    data: o.Data,
    strict: Annotated[
        bool,
        typer.Option(
            "--strict", help="Hold rows that were not fitted to the model's own bound, too."
        ),
    ] = False,
    from_: o.From = None,
    as_json: o.Json = False,
) -> None:
    """Measure how much distances really change, and compare with the promise.

    Rows that the model was fitted to are held to its certificate; other rows to the bound
    from their own distortion rates (the two largest, added). Status 1 if it is false. Fitted
    rows are recognised as the same table in the same order; any others count as other rows.
    """
    output = Output("certify", as_json)
    whole, prepared, X = tables.prepare(tables.load_model(model), data, from_, output, label=True)
    if str(getattr(whole.estimator, "kernel", "")) == "precomputed":
        raise CommandError(
            Status.USAGE, f"{model} has a precomputed kernel, whose distances are not in a table"
        )
    parts = [
        (name, _checked(estimator, part, name), rows)
        for name, estimator, part, rows in _parts(whole.estimator, X, prepared)
    ]
    facts: dict[str, Any] = {
        "model": model,
        "data": data,
        "rows": X.shape[0],
        "distances": _distances(whole.estimator),
        "checks": [_facts(name, done, rows, prepared, strict) for name, done, rows in parts],
    }
    facts["holds"] = all(part["holds"] for part in facts["checks"])
    output.finish(facts, _words(facts))
    if not facts["holds"]:
        raise SystemExit(Status.PROMISE_FALSE)


def _distances(estimator: Any) -> str:
    if hasattr(estimator, "t"):
        if estimator.certificate_.route == "diffusion-dense":
            return "diffusion distances, which the model's route computes exactly"
        return (
            "diffusion distances as the model's route places the rows; the route's own error is "
            "taken from its proven bound, not measured"
        )
    if getattr(estimator, "kernel", None) is None:
        return "Euclidean distances of the prepared rows"
    return "distances in the kernel's feature space"


def _parts(estimator: Any, X: Any, prepared: Prepared) -> Iterator[tuple[Any, Any, Any, Any]]:
    """Yield each estimator with the rows it speaks of: all, or those of its class."""
    import numpy as np

    if not hasattr(estimator, "estimators_"):
        yield None, estimator, X, np.arange(X.shape[0])
        return
    if prepared.labels is None:
        raise CommandError(
            Status.DATA,
            "a classifier promises distances within each class, and the table has no column of "
            "labels; add the one it was fitted with",
        )
    known = prepared.labels.astype(str)
    plain = X.to_numpy() if hasattr(X, "to_numpy") else X
    for name, own in zip(estimator.classes_.tolist(), estimator.estimators_, strict=True):
        rows = np.flatnonzero(known == str(name))
        if len(rows):
            yield name, own, plain[rows, :], rows


def _checked(estimator: Any, X: Any, name: Any) -> Check:
    from isopivot.cli._checks import check

    of = "" if name is None else f" of class {name}"
    with refusals(Status.DATA), working(f"measuring {X.shape[0]} rows{of}") as progress:
        return check(estimator, X, progress)


def _facts(name: Any, done: Check, rows: Any, prepared: Prepared, strict: bool) -> dict[str, Any]:
    pair = None if done.pair is None else [prepared.ids[rows[i]] for i in done.pair]
    own = done.own_bound and not strict
    return {
        **({} if name is None else {"label": name}),
        "holds": done.holds and (done.model_holds or not strict),
        "actual": done.actual,
        "bound": done.bound if own else done.model_bound,
        "bound_from": "rates of these rows" if own else "certificate of the model",
        "model_bound": done.model_bound,
        "fitted_rows": not done.own_bound,
        "rounding": done.rounding,
        "rows": len(rows),
        "rows_measured": done.measured,
        "rows_beyond_mu": done.beyond,
        "worst_pair": pair,
    }


def _words(facts: dict[str, Any]) -> Iterator[str]:
    yield f"Checked: {facts['distances']}."
    for part in facts["checks"]:
        yield from _part_words(part)
    yield "The promise holds." if facts["holds"] else "The promise does NOT hold."


def _part_words(part: dict[str, Any]) -> Iterator[str]:
    head = f"Class {part['label']}: " if "label" in part else ""
    rows = "fitted" if part["fitted_rows"] else "other"
    if part["rows"] == 1:
        yield f"{head}1 {rows} row has no pairs, so there was nothing to measure."
    else:
        yield f"{head}{_measured_words(part, rows)}"
    if part["worst_pair"] is not None:
        yield f"  Worst pair: {part['worst_pair'][0]} and {part['worst_pair'][1]}."
    if part["rows_beyond_mu"]:
        held = part["bound_from"] == "certificate of the model"
        yield (
            f"  {part['rows_beyond_mu']} rows are farther from the dictionary than mu, for which "
            f"the model does not promise its {part['model_bound']:.6g}; "
            f"{'they are held to it here' if held else '--strict holds them to it'}."
        )


def _measured_words(part: dict[str, Any], rows: str) -> str:
    sign = "<=" if part["holds"] else ">"
    measured = (
        f"all pairs of {part['rows']} {rows} rows"
        if part["rows_measured"] == part["rows"]
        else f"all pairs of {part['rows_measured']} of {part['rows']} {rows} rows, the oddest and "
        "some by lot"
    )
    return (
        f"largest change {part['actual']:.6g} {sign} bound {part['bound']:.6g} "
        f"({part['bound_from']}); {measured}."
    )
