"""Commands that ask a model about rows: transform, score, classify, explain."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from isopivot.cli import _options as o
from isopivot.cli import _tables as tables
from isopivot.cli._errors import CommandError, Status, refusals, usage, writing
from isopivot.cli._estimators import blindness
from isopivot.cli._terminal import Output, working

if TYPE_CHECKING:
    from isopivot.data import Prepared
    from isopivot.estimators import TableModel


def transform(
    model: o.ModelFile,
    data: o.Data,
    out: o.Out = Path("-"),
    from_: o.From = None,
    to: o.To = None,
    as_json: o.Json = False,
) -> None:
    """Write the coordinates of rows: the id, then one column per dimension."""
    output = Output("transform", as_json, str(out))
    tables.check_table_target(out, to, output, data, model)
    fitted = _one_dictionary(tables.load_model(model), model)
    whole, prepared, X = tables.prepare(fitted, data, from_, output)
    with refusals(Status.DATA), working(f"placing {X.shape[0]} rows"):
        F = whole.estimator.transform(X)
        names = whole.estimator.get_feature_names_out()
    frame = tables.frame_of(prepared, dict(zip(names, F.T, strict=True)))
    tables.write(out, to, frame, prepared.id_name)
    facts = {"model": model, "data": data, "out": out, "rows": len(F), "dimensions": len(names)}
    output.finish(facts, [f"{len(F)} rows in {len(names)} dimensions{output.place}"])


def score(
    model: o.ModelFile,
    data: o.Data,
    out: o.Out = Path("-"),
    false_alarm_rate: Annotated[
        str | None,
        typer.Option(
            "--false-alarm-rate",
            metavar="SHARE",
            help="Share of normal rows that may be called anomalies, such as 1%; needs "
            "--calibrate.",
        ),
    ] = None,
    calibrate: Annotated[
        Path | None,
        typer.Option(
            "--calibrate",
            metavar="NORMAL",
            show_default=False,
            help="Table of normal rows that were not fitted on; sets the threshold, here only "
            "unless with --save-model.",
        ),
    ] = None,
    save_model: Annotated[
        Path | None,
        typer.Option(
            "--save-model",
            metavar="FILE",
            show_default=False,
            help="Where the model goes with its calibrated threshold, which score, explain and "
            "report then use; may be MODEL itself.",
        ),
    ] = None,
    from_: o.From = None,
    to: o.To = None,
    as_json: o.Json = False,
) -> None:
    """Write how far each row lies from the dictionary, and whether that is too far.

    Columns: the id, distortion_rate, and anomaly (1 above the threshold, else 0).
    """
    rate = _wanted_rate(false_alarm_rate, calibrate, save_model)
    output = Output("score", as_json, str(out))
    tables.check_inputs(data, calibrate)
    tables.check_table_target(out, to, output, data, model, calibrate)
    _check_model_target(save_model, out, data, calibrate)
    fitted = _one_dictionary(tables.load_model(model), model)
    if calibrate is not None and rate is not None:
        _calibrate(fitted, calibrate, rate, output)
    else:
        output.notice(blindness(fitted.estimator))
    whole, prepared, X = tables.prepare(fitted, data, from_, output)
    with refusals(Status.DATA), working(f"scoring {X.shape[0]} rows"):
        rates = whole.estimator.distortion_rate(X)
        anomaly = (whole.estimator.predict(X) == -1).astype("int64")
    if save_model is not None:
        _save(fitted, save_model)
    frame = tables.frame_of(prepared, {"distortion_rate": rates, "anomaly": anomaly})
    tables.write(out, to, frame, prepared.id_name)
    facts = {
        "model": model,
        "data": data,
        "out": out,
        "rows": len(rates),
        "anomalies": int(anomaly.sum()),
        "threshold": float(whole.estimator.threshold_),
        "false_alarm_rate": getattr(whole.estimator.calibration_, "false_alarm_rate", None),
        "saved_model": save_model,
    }
    output.finish(facts, _score_words(facts, calibrate is not None))


def _wanted_rate(text: str | None, calibrate: Path | None, save_model: Path | None) -> float | None:
    """Return the false-alarm rate; refuse options that lack the ones they need."""
    if text is not None and calibrate is None:
        raise usage("got --false-alarm-rate without --calibrate NORMAL; give both or neither")
    if text is None and calibrate is not None:
        raise usage("got --calibrate without --false-alarm-rate SHARE; give both or neither")
    if save_model is not None and calibrate is None:
        raise usage(
            "got --save-model without --calibrate and --false-alarm-rate, so there is no new "
            "threshold to save; add these"
        )
    return None if text is None else o.share(text)


def _check_model_target(path: Path | None, out: Path, *inputs: Path | None) -> None:
    """Find out before the work whether the model can be written; it may replace the old one."""
    if path is None:
        return
    tables.check_target(path, *inputs)
    if os.path.realpath(path) == os.path.realpath(out):
        raise usage(f"got {out} both for --out and for --save-model; name two files")


def _calibrate(fitted: Any, path: Path, rate: float, output: Output) -> None:
    """Set the threshold from a table of normal rows that the model has not seen."""
    whole, _, X = tables.prepare(fitted, path, None, output)
    with refusals(), working(f"calibrating on {X.shape[0]} rows"):
        if _was_fitted(whole.estimator, X):
            raise usage(
                f"got {path} for --calibrate, the table the model was fitted on, whose rates are "
                "smaller than those of new rows; give normal rows that were not fitted on"
            )
        whole.estimator.calibrate(X, rate)


def _was_fitted(estimator: Any, X: Any) -> bool:
    """Return whether these are the training rows, whose largest rate is then known."""
    from isopivot.report._rows import is_training, rates_of

    promise = estimator.certificate_
    if X.shape[0] != promise.n_samples:
        return False
    rates, slack = rates_of(estimator, X), promise.accuracy_floor + promise.route_error
    # Of an empty dictionary this is all there is to compare.
    return bool(rates.max() >= promise.mu_strict - slack) and is_training(estimator, X, rates)


def _save(model: Any, path: Path) -> None:
    """Write a model with as much in it as its own file had."""
    with writing(path), refusals(), working(f"writing {path}"):
        model.save(path, embedding=hasattr(_estimator_of(model), "embedding_"))


def _score_words(facts: dict[str, Any], calibrated: bool) -> Iterator[str]:
    rate, found, rows = facts["false_alarm_rate"], facts["anomalies"], facts["rows"]
    promise = (
        "" if rate is None else f", set to give {100 * rate:.4g}% of normal rows a false alarm"
    )
    bound = f"{facts['threshold']:.6g}{promise}."
    if found == 0:
        yield f"None of {rows} rows is an anomaly: no distortion rate exceeds {bound}"
    elif found == 1:
        yield f"1 of {rows} rows is an anomaly: its distortion rate exceeds {bound}"
    else:
        yield f"{found} of {rows} rows are anomalies: their distortion rate exceeds {bound}"
    if str(facts["out"]) != "-":
        yield f"Scores: {facts['out']}"
    if facts["saved_model"] is not None:
        yield f"Model with this threshold: {facts['saved_model']}"
    elif calibrated:
        yield "Only this run has this threshold; --save-model FILE keeps it for explain and report."


def classify(
    model: o.ModelFile,
    data: o.Data,
    out: o.Out = Path("-"),
    from_: o.From = None,
    to: o.To = None,
    as_json: o.Json = False,
) -> None:
    """Write the class of every row: the id, label, and the distortion rate of each class.

    The class with the smallest rate wins. Where the table has the label column of the
    model, the share of right answers is printed.
    """
    import numpy as np

    output = Output("classify", as_json, str(out))
    tables.check_table_target(out, to, output, data, model)
    whole, prepared, X = tables.prepare(
        _classifier(tables.load_model(model), model), data, from_, output, label=True
    )
    estimator = whole.estimator
    with refusals(Status.DATA), working(f"classifying {X.shape[0]} rows"):
        labels, rates = estimator.predict(X), estimator.distortion_rates(X)
    columns = {f"rate_{name}": rates[:, k] for k, name in enumerate(estimator.classes_.tolist())}
    tables.write(out, to, tables.frame_of(prepared, {"label": labels, **columns}), prepared.id_name)
    right = None
    if prepared.labels is not None:
        right = float(np.mean(labels.astype(str) == prepared.labels.astype(str)))
    facts = {"model": model, "data": data, "out": out, "rows": len(labels), "accuracy": right}
    words = f"{len(labels)} rows classified" + ("" if right is None else f", {right:.1%} right")
    output.finish(facts, [f"{words}{output.place}"])


# -- explain ------------------------------------------------------------------------------


def explain(
    model: o.ModelFile,
    data: o.Data,
    row: Annotated[
        str,
        typer.Option("--row", metavar="ID", help="Id of the row; without ids its number from 0."),
    ],
    top: Annotated[int, typer.Option("--top", metavar="N", min=1, help="Features to show.")] = 10,
    neighbors: Annotated[
        int, typer.Option("--neighbors", metavar="N", min=0, help="Dictionary rows to show.")
    ] = 5,
    from_: o.From = None,
    as_json: o.Json = False,
) -> None:
    """Say why a row has its distortion rate: by which features, and what it is near to."""
    output = Output("explain", as_json)
    whole, prepared, X = tables.prepare(tables.load_model(model), data, from_, output)
    position = _position(prepared, row, output)
    one = X.iloc[[position]] if hasattr(X, "iloc") else X[[position], :]
    facts = {"model": model, "data": data, "row": prepared.ids[position]}
    with refusals(Status.DATA):
        facts |= _explained(whole, one, neighbors)
    output.finish(facts, _explain_words(facts, top))


def _position(prepared: Prepared, row: str, output: Output) -> int:
    """Return where the row with that id is."""
    found = [i for i, name in enumerate(prepared.ids.tolist()) if str(name) == row]
    if not found:
        known = ", ".join(str(name) for name in prepared.ids[:3])
        raise usage(
            f"got --row {row}; there is no such {prepared.id_name} among the {len(prepared.ids)} "
            f"rows ({known}, ...); give one of these"
        )
    if len(found) > 1:
        output.notice([f"{len(found)} rows are called {row!r}; this is the first"])
    return found[0]


def _explained(whole: TableModel, one: Any, neighbors: int) -> dict[str, Any]:
    estimator, facts, part = whole.estimator, {}, 0
    if hasattr(estimator, "estimators_"):
        rates = estimator.distortion_rates(one)[0]
        facts = {
            "label": estimator.predict(one)[0],
            "rates": dict(zip(map(str, estimator.classes_.tolist()), rates.tolist(), strict=True)),
        }
        part = int(rates.argmin())
        estimator = estimator.estimators_[part]
        one = getattr(one, "values", one)  # the classes' own estimators know no names
    why = estimator.explain(one, n_neighbors=neighbors)
    return {
        **facts,
        "distortion_rate": float(why.rates[0]),
        "threshold": float(estimator.threshold_),
        "anomaly": bool(estimator.predict(one)[0] == -1),
        "contributions": _contributions(whole, why),
        "contributions_are": None if why.contributions is None else _meaning(estimator),
        "neighbors": _neighbors(whole, part, estimator, why),
    }


def _contributions(whole: TableModel, why: Any) -> list[dict[str, Any]] | None:
    """Return the features by what they contribute, the largest first."""
    if why.contributions is None:
        return None
    values = why.contributions[0].tolist()
    named = zip(whole.preparation.feature_names, values, strict=True)
    return [
        {"feature": name, "contribution": value}
        for name, value in sorted(named, key=lambda pair: -abs(pair[1]))
    ]


def _meaning(estimator: Any) -> str:
    if hasattr(estimator, "kernel"):
        return "how fast the rate grows with the feature"
    return "what the dictionary misses of the feature; squared, they add up to the rate squared"


def _neighbors(whole: TableModel, part: int, estimator: Any, why: Any) -> list[dict[str, Any]]:
    known = whole.dictionary_ids
    ids = dict(
        zip(estimator.dictionary_indices_.tolist(), known[part] if known else (), strict=False)
    )
    pairs = zip(why.neighbors[0].tolist(), why.neighbor_distances[0].tolist(), strict=True)
    return [{"id": ids.get(row, row), "distance": distance} for row, distance in pairs]


def _explain_words(facts: dict[str, Any], top: int) -> Iterator[str]:
    verdict = "an anomaly" if facts["anomaly"] else "normal"
    if "label" in facts:
        yield f"Row {facts['row']}: class {facts['label']}, the one with the smallest rate."
        yield "  " + ", ".join(f"{name}: {rate:.4g}" for name, rate in facts["rates"].items())
        yield "For that class:"
    yield (
        f"Row {facts['row']}: distortion rate {facts['distortion_rate']:.6g}, threshold "
        f"{facts['threshold']:.6g}: {verdict}."
    )
    parts = facts["contributions"]
    if parts is None:
        yield "This model does not tell features apart: distances run through all training rows."
    else:
        yield f"Features ({facts['contributions_are']}):"
        width = max(len(str(part["feature"])) for part in parts[:top])
        for part in parts[:top]:
            yield f"  {part['feature']:<{width}}  {part['contribution']:+.4g}"
        if len(parts) > top:
            yield f"  and {len(parts) - top} more (--top)"
    if facts["neighbors"]:
        yield "Nearest dictionary rows (distance):"
        for part in facts["neighbors"]:
            yield f"  {part['id']}  ({part['distance']:.4g})"


# -- which model --------------------------------------------------------------------------


def _estimator_of(model: Any) -> Any:
    return getattr(model, "estimator", model)


def _one_dictionary(model: Any, path: Path) -> Any:
    if hasattr(_estimator_of(model), "estimators_"):
        raise CommandError(Status.USAGE, f"{path} is a classifier; use isopivot classify")
    return model


def _classifier(model: Any, path: Path) -> Any:
    if not hasattr(_estimator_of(model), "estimators_"):
        raise CommandError(
            Status.USAGE, f"{path} is no classifier; fit one with isopivot fit --label COL"
        )
    return model
