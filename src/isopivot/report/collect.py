"""Everything a report shows, as plain data: model and rows in, dictionary out."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
import numpy.typing as npt

from isopivot._arrays import Rows, Vector, to_numpy
from isopivot.report import _rows, _steps
from isopivot.report._compact import number, numbers, text
from isopivot.report._words import DISTANCE, UNITS, bounded, describe, kind_of

TOP = 20
COORDINATES = 5  # columns of the table
DRAWN = 2_000  # points of a picture that moves smoothly
PAIRED = 46  # rows, hence 1,035 pairs
BINS = 40
FEATURES = 5  # named per anomaly
COLOURS = 10  # groups told apart; the rest is "other"


@_rows.without_names()
def collect(
    model: Any,
    X: Any,
    *,
    names: Any = None,
    labels: Any = None,
    title: str | None = None,
    max_rows: int = 10_000,
    random_state: int = 0,
) -> dict[str, Any]:
    """Return what the page shows; see `isopivot.report.write` for the arguments."""
    X = _rows.as_rows(X)
    rates = _rows.rates_of(model, X)
    training = _rows.is_training(model, X, rates)
    row_names = checked_names(names, X)
    pivots = to_numpy(model.dictionary_indices_).astype(np.intp)
    random = np.random.default_rng(random_state)
    members = pivots if training else pivots[:0]
    shown = kept_rows(rates, members, checked_size(max_rows), random)
    sizes = _steps.chosen_steps(model.n_components_, model.certificate_.n_samples)
    drawn = kept_rows(rates[shown], _places(members[: DRAWN // 2], shown), DRAWN, random)
    extra = _rows.placeable(model, 0 if training else DRAWN // 2)
    return {
        "title": title or f"{type(model).__name__} report",
        "kind": kind_of(model),
        "units": UNITS[kind_of(model)],
        "distance": DISTANCE[kind_of(model)],
        "training": training,
        "bounded": bounded(model),
        "exactBounds": _steps.has_embedding(model),
        "routeError": number(model.certificate_.route_error),
        "words": describe(model, training),
        "rows": {"of": len(rates), "shown": len(shown), "drawn": len(drawn)},
        "facts": facts(model, rates),
        "steps": _steps.step_numbers(model, sizes),
        "dictionary": dictionary(model, row_names if training else None),
        "points": points(model, X, shown, drawn, extra, training, sizes),
        "pairs": pairs(model, X, rates, shown, training, sizes, random),
        "rates": rate_histogram(rates, model.threshold_),
        "anomalies": anomalies(model, X, rates, row_names, training),
        "table": table(model, X, rates, row_names, shown, training),
        "labels": label_groups(labels, len(rates), shown),
    }


# -- arguments ----------------------------------------------------------------------------


def checked_names(names: Any, X: Any) -> list[str]:
    """Return one name per row: the given ones, a frame's index, or row numbers."""
    if names is None:
        names = getattr(X, "index", None)
    if names is None or callable(names):
        return [str(i) for i in range(X.shape[0])]
    return _per_row(names, X.shape[0], "names")


def _per_row(values: Any, n: int, what: str) -> list[str]:
    found = [str(value) for value in values]
    if len(found) != n:
        raise ValueError(
            f"got {len(found)} {what} for {n} rows; allowed is one per row; pass {what} of the "
            "rows of X, in their order"
        )
    return found


def checked_size(max_rows: Any) -> int:
    """Return the number of rows to show at most."""
    if isinstance(max_rows, bool) or not isinstance(max_rows, Integral) or int(max_rows) < 1:
        raise ValueError(
            f"got max_rows={max_rows!r}; allowed is an integer >= 1; pass 10_000 for a page that "
            "opens quickly"
        )
    return int(max_rows)


# -- which rows ---------------------------------------------------------------------------


def kept_rows(rates: Vector, members: Rows, most: int, random: np.random.Generator) -> Rows:
    """Return at most so many rows: the oddest and the dictionary first, others by lot."""
    if len(rates) <= most:
        return np.arange(len(rates))
    wanted = np.concatenate([_oddest(rates), members, random.permutation(len(rates))])
    first = np.sort(np.unique(wanted, return_index=True)[1])
    return np.sort(wanted[first][:most]).astype(np.intp)


def _oddest(rates: Vector) -> Rows:
    return np.argsort(-rates, kind="stable")[:TOP]


def _places(rows: Rows, within: Rows) -> Rows:
    """Return where rows stand in a sorted selection that may lack some of them."""
    return np.flatnonzero(np.isin(within, rows))


# -- parts --------------------------------------------------------------------------------


def facts(model: Any, rates: Vector) -> list[tuple[str, str]]:
    """Return the headline numbers, each with its label."""
    certificate = model.certificate_
    return [
        ("training rows", f"{certificate.n_samples:,}"),
        ("dictionary rows", f"{certificate.n_components:,}"),
        (bound_label(model), text(certificate.distortion_bound)),
        ("rows above the threshold", f"{int((rates > model.threshold_).sum()):,}"),
    ]


def bound_label(model: Any) -> str:
    """Return what the bound says: what a change stays below, not how large one was."""
    noun = DISTANCE[kind_of(model)]
    if bounded(model):
        return f"no {noun} changes by more than"
    return f"estimated change of a {noun}"


def dictionary(model: Any, names: list[str] | None) -> list[tuple[str, str]]:
    """Return name and entry residual of every member, in the order of choice."""
    rows = to_numpy(model.dictionary_indices_).tolist()
    entered = to_numpy(model.pivot_residuals_)
    return [
        (_name(row, names), text(residual)) for row, residual in zip(rows, entered, strict=True)
    ]


def _name(row: int, names: list[str] | None) -> str:
    return f"training row {row}" if names is None else names[row]


def points(
    model: Any, X: Any, shown: Rows, drawn: Rows, extra: Rows, training: bool, sizes: Rows
) -> dict[str, Any]:
    """Return the pictured points: places in the table, then dictionary members beyond it."""
    F = _rows.coordinates(model, X, shown[drawn], training)
    D = _rows.member_coordinates(model, extra) if len(extra) else F[:0]
    return {
        "rows": drawn.tolist(),
        "extra": extra.tolist(),
        "views": _steps.views(np.concatenate([F, D]), sizes),
    }


def pairs(
    model: Any,
    X: Any,
    rates: Vector,
    shown: Rows,
    training: bool,
    sizes: Rows,
    random: np.random.Generator,
) -> dict[str, Any]:
    """Return distances between some of the shown rows."""
    places = _steps.pair_rows(rates[shown], PAIRED, random)
    rows = shown[places]
    F = _rows.coordinates(model, X, rows, training)
    return _steps.pair_data(F, _rows.true_distances(model, X, rows, training), sizes, places)


def rate_histogram(rates: Vector, threshold: float) -> dict[str, Any]:
    """Return counts of the rates of all rows, on a log scale where they span decades."""
    top = max(float(rates.max()), threshold if np.isfinite(threshold) else 0.0)
    positive = rates[rates > 0.0]
    # Two decades above the middle would leave one bar for nearly all rows.
    log = bool(len(positive)) and top > 100.0 * float(np.median(positive)) > 0.0
    low = max(float(positive.min()), 1e-9 * top) if log else 0.0
    edges = np.geomspace(low, top, BINS + 1) if log else np.linspace(0.0, top or 1.0, BINS + 1)
    counts = np.histogram(np.clip(rates, edges[0], edges[-1]), edges)[0]
    return {
        "edges": numbers(edges),
        "counts": counts.tolist(),
        "log": log,
        "threshold": number(threshold),
        "thresholdText": text(threshold) if np.isfinite(threshold) else "none",
        "above": int((rates > threshold).sum()),
    }


def anomalies(
    model: Any, X: Any, rates: Vector, names: list[str], training: bool
) -> list[dict[str, Any]]:
    """Return the rows with the largest rates, and what made them odd."""
    oddest = _oddest(rates)
    reasons = explained(model, X, oddest, names if training else None)
    return [
        {
            "name": names[row],
            "rate": text(rates[row]),
            "value": number(rates[row]),
            "normal": bool(rates[row] <= model.threshold_),
            **reason,
        }
        for row, reason in zip(oddest, reasons, strict=True)
    ]


def explained(model: Any, X: Any, rows: Rows, names: list[str] | None) -> list[dict[str, Any]]:
    """Return features and nearest dictionary members of some rows, where they are known."""
    if not _explainable(model):
        return [{"features": [], "neighbors": []} for _ in rows]
    explanation = model.explain(_rows.take(X, rows), n_neighbors=3)
    return [
        {
            "features": _features(explanation, i, kind_of(model)),
            "neighbors": [
                (_name(int(row), names), text(distance))
                for row, distance in zip(
                    explanation.neighbors[i], explanation.neighbor_distances[i], strict=True
                )
            ],
        }
        for i in range(len(rows))
    ]


def _explainable(model: Any) -> bool:
    """Return whether `explain` can answer: a precomputed kernel may lack k(x, x)."""
    blind = kind_of(model) == "kernel" and _rows.is_precomputed(model)
    return not (blind and model._diagonal is None)


def _features(explanation: Any, i: int, kind: str) -> list[tuple[str, str, float | None]]:
    """Return name, value and share of the features that matter most for one row."""
    if explanation.contributions is None:
        return []
    values = np.asarray(explanation.contributions[i], dtype=np.float64)
    size = np.abs(values) / (np.abs(values).max() or 1.0)
    # Misses add up in squares to the squared rate; slopes have no such sum.
    weight = size**2 if kind == "linear" else size
    total = float(weight.sum()) or 1.0
    most = np.argsort(-weight, kind="stable")[:FEATURES]
    return [
        (str(explanation.feature_names[j]), f"{values[j]:+.4g}", number(weight[j] / total))
        for j in most
        if weight[j] > 0.0
    ]


def table(
    model: Any, X: Any, rates: Vector, names: list[str], shown: Rows, training: bool
) -> dict[str, Any]:
    """Return the columns of the table of shown rows."""
    rank = np.zeros(len(rates), dtype=np.intp)
    if training:
        pivots = to_numpy(model.dictionary_indices_)
        rank[pivots] = np.arange(1, len(pivots) + 1)
    F = _rows.first_coordinates(model, X, shown, training, COORDINATES)
    return {
        "names": [names[row] for row in shown],
        "rate": numbers(rates[shown]),
        "normal": (rates[shown] <= model.threshold_).astype(int).tolist(),
        "rank": rank[shown].tolist(),
        "coordinates": [numbers(column) for column in F.T],
        "coordinateNames": [str(name) for name in model.get_feature_names_out()[: F.shape[1]]],
    }


def label_groups(labels: Any, n: int, shown: Rows) -> dict[str, Any] | None:
    """Return the colour groups of the shown rows: a scale for numbers, names otherwise."""
    if labels is None:
        return None
    texts = _per_row(labels, n, "labels")
    values = _as_scale(np.asarray(labels))
    if values is not None:
        return {"texts": [text(value) for value in values[shown]], "scale": numbers(values[shown])}
    chosen = [texts[row] for row in shown]
    found, counts = np.unique(np.array(chosen, dtype=object).astype(str), return_counts=True)
    common = sorted(found[np.argsort(-counts, kind="stable")[:COLOURS]].tolist())
    place = {name: i for i, name in enumerate(common)}
    groups = [place.get(label, len(common)) for label in chosen]
    rest = ["other"] if len(found) > len(common) else []
    return {"texts": chosen, "names": common + rest, "group": groups}


def _as_scale(labels: npt.NDArray[Any]) -> Vector | None:
    """Return labels as numbers if they are, and too many to be names."""
    if labels.dtype.kind not in "fiu" or len(np.unique(labels)) <= COLOURS:
        return None
    return labels.astype(np.float64)
