"""The nested path in steps: numbers, pictures and distances for every position of the slider.

Legend: F = coordinates in the order of the pivots, so that step s is their first s columns.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import linalg

from isopivot._arrays import Rows, Vector
from isopivot.certificate import distances
from isopivot.report._compact import number, numbers, packed, text

MOST_STEPS = 60
FEWEST_STEPS = 8
ENTRIES = 3_000_000_000  # of the embedding that are read for all steps together
EXACT_AXES = 300  # up to this many coordinates a whole eigenproblem is cheap
BLOCK = 8  # columns of the subspace iteration beyond


def chosen_steps(n_components: int, n_samples: int) -> Rows:
    """Return dictionary sizes along the path, both ends included, denser where they are small."""
    affordable = ENTRIES // max(1, n_components * n_samples)
    count = int(np.clip(affordable, FEWEST_STEPS, MOST_STEPS))
    if n_components < count:
        return np.arange(n_components + 1)
    share = np.linspace(0.0, 1.0, count) ** 1.5
    return np.unique(np.rint(share * n_components).astype(np.intp))


def step_numbers(model: Any, sizes: Rows) -> list[dict[str, Any]]:
    """Return mu, dimension and bound per step."""
    return [_numbers_of(model, int(s)) for s in sizes]


def _numbers_of(model: Any, s: int) -> dict[str, Any]:
    mu, bound = float(model.path_[s, 0]), bound_at(model, s)
    return {
        "s": s,
        "mu": number(mu),
        "muText": text(mu),
        "bound": number(bound),
        "boundText": text(bound),
    }


def bound_at(model: Any, s: int) -> float:
    """Return the certified bound of the first s dictionary rows.

    A model without its embedding knows only the largest miss of each step: twice that and
    the rounding of the whole fit is a bound too, and no smaller.
    """
    if s == model.n_components_:
        return float(model.certificate_.distortion_bound)
    if has_embedding(model):
        return float(model._truncated(s, model.mu).certificate.distortion_bound)
    return 2.0 * float(model.path_[s, 0] + model.certificate_.accuracy_floor)


def has_embedding(model: Any) -> bool:
    """Return whether a model still has its training rows' coordinates (a file may not)."""
    return hasattr(model, "embedding_")


# -- pictures -----------------------------------------------------------------------------


def views(F: Vector, sizes: Rows) -> list[dict[str, Any]]:
    """Return, per step, three principal coordinates of every point, packed."""
    return [packed(view) for view in principal_views(F, sizes)]


def principal_views(F: Vector, sizes: Rows) -> list[Vector]:
    """Return (n, 3) views on principal axes; signs follow the finest step.

    The scatter matrix of a step is the leading block of the whole one.
    """
    scale = float(np.abs(F).max(initial=0.0)) or 1.0
    Y = F / scale
    Y = Y - Y.mean(axis=0)
    scatter = Y.T @ Y
    found: list[Vector] = []
    axes = _starting_block(F.shape[1])
    view = np.zeros((len(F), 3))
    for s in sizes[::-1]:
        axes = _leading_axes(scatter[:s, :s], axes[:s])
        view = _facing(_padded(Y[:, :s] @ axes[:, :3]), view)
        found.append(view * scale)
    return found[::-1]


def _starting_block(n_columns: int) -> Vector:
    return np.random.default_rng(0).standard_normal((n_columns, BLOCK))


def _leading_axes(scatter: Vector, guess: Vector) -> Vector:
    """Return the leading principal axes, the largest first."""
    s = len(scatter)
    if s == 0:
        return np.zeros((0, BLOCK))
    if s <= EXACT_AXES:
        kept = min(s, BLOCK)
        axes = linalg.eigh(scatter, subset_by_index=[s - kept, s - 1])[1]
        return np.asarray(axes[:, ::-1])
    for _ in range(12):  # the step before is a good guess
        guess = np.linalg.qr(scatter @ guess)[0]
    inner = np.linalg.eigh(guess.T @ scatter @ guess)[1]
    return np.asarray(guess @ inner[:, ::-1])


def _padded(view: Vector) -> Vector:
    return np.pad(view, ((0, 0), (0, 3 - view.shape[1])))


def _facing(view: Vector, other: Vector) -> Vector:
    """Return the view with axes that point the same way as another one's."""
    against = (view * other).sum(axis=0) < 0.0
    return np.where(against[None, :], -view, view)


# -- distances ----------------------------------------------------------------------------


def pair_rows(rates: Vector, most: int, random: np.random.Generator) -> Rows:
    """Return rows whose pairs are compared: the four most missed, and others by lot."""
    worst = np.argsort(-rates, kind="stable")[:4]
    others = random.permutation(np.setdiff1d(np.arange(len(rates)), worst))
    return np.sort(np.concatenate([worst, others])[:most]).astype(np.intp)


def pair_data(F: Vector, bounds: tuple[Vector, Vector], sizes: Rows, rows: Rows) -> dict[str, Any]:
    """Return true distances of all pairs of some points, and their change at every step.

    Parameters
    ----------
    F : ndarray of shape (k, s)
        Coordinates of the points.
    bounds : two ndarrays of shape (k, k)
        Between which each true distance lies; equal where it is known.
    sizes : ndarray of int
        Steps.
    rows : ndarray of shape (k,)
        What the page calls these points.
    """
    i, j = np.triu_indices(len(F), k=1)
    lower, upper = bounds[0][i, j], bounds[1][i, j]
    changes = [lower - distances(F[:, :s], F[:, :s])[i, j] for s in sizes]
    known = bool(np.array_equal(lower, upper))
    return {
        "rows": rows.tolist(),
        "lower": numbers(lower),
        "width": None if known else numbers(upper - lower),
        "change": [packed(change) for change in changes],
        "typical": text(float(np.median((lower + upper) / 2.0))) if len(i) else None,
    }
