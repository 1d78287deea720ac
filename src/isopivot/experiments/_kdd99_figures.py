"""Pictures of the intrusion experiment: the aligned views and the trade-off curves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_curve

from isopivot import DiffusionICPQR, align
from isopivot.baselines import DiffusionMaps
from isopivot.plots import ALARM, CURVE, PALETTE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

NORMAL = "#1b9e4b"
ANGLES = ((22, -60), (22, -35), (40, -50))
NAMES = ("all rows", "where most training rows are", "around the rows called abnormal")


@dataclass(frozen=True, eq=False)
class Views:
    """Training and test rows in the first three aligned coordinates."""

    training: Floats
    test: Floats
    far: Flags  # test rows that cannot be placed: the paper's set F
    misfit: float  # of the training rows, relative to the spread of the spectral coordinates


def aligned_views(model: DiffusionICPQR, training: Floats, test: Floats, rates: Floats) -> Views:
    """Return the embedding laid on spectral diffusion coordinates, and its extension.

    `rates` are those of the test rows.
    """
    spectral = DiffusionMaps(3, epsilon=model.epsilon).fit(training).embedding_
    own = model.embedding_
    laid = align(spectral, own)[:, :3]
    # The rigid motion of the training rows, which new rows have to follow.
    centre, target = own.mean(axis=0), laid.mean(axis=0)
    turn = np.linalg.lstsq(own - centre, laid - target, rcond=None)[0]
    moved = (model.transform(test) - centre) @ turn + target
    spread = np.linalg.norm(spectral - spectral.mean(axis=0))
    # No point that can be placed has a rate above this; points that cannot have larger ones.
    ceiling = np.sqrt(model.degrees_.sum() / model.degrees_.min())
    far = rates > (1.0 - 1e-6) * ceiling
    return Views(laid, moved, far, float(np.linalg.norm(laid - spectral) / spread))


def draw_views(training: Floats, test: Floats, alarms: Flags, anomalous: Flags) -> Figure:
    """Return three views, the paper's colours: blue, green, red, and rings for attacks."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13.5, 4.6))
    figure.subplots_adjust(left=0.0, right=0.97, bottom=0.1, top=0.98, wspace=0.08)
    most = np.quantile(training, [0.05, 0.95], axis=0)
    windows = (None, most, test[alarms] if alarms.any() else None)
    for place, (angle, name, window) in enumerate(zip(ANGLES, NAMES, windows, strict=True)):
        ax: Any = figure.add_subplot(1, 3, place + 1, projection="3d")
        _scatter(ax, training, test, alarms, anomalous, window)
        ax.view_init(*angle)
        ax.set_title(name, y=0.97)
        ax.set_box_aspect(None, zoom=0.88)
        ax.locator_params(nbins=4)
        ax.set(xlabel="coordinate 1", ylabel="coordinate 2", zlabel="coordinate 3")
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=4)
    return figure


def _scatter(
    ax: Any, training: Floats, test: Floats, alarms: Flags, anomalous: Flags, window: Floats | None
) -> None:
    layers = (
        (training, {"s": 4, "color": CURVE, "alpha": 0.25}, "training rows"),
        (test[~alarms], {"s": 8, "color": NORMAL, "alpha": 0.8}, "new rows, normal"),
        (test[alarms], {"s": 22, "color": ALARM, "marker": "^"}, "new rows, abnormal"),
        (
            test[anomalous],
            {"s": 80, "facecolors": "none", "edgecolors": "black", "linewidths": 1.2},
            "attacks (labelled)",
        ),
    )
    inside = np.array([[-np.inf] * 3, [np.inf] * 3])
    if window is not None:
        low, high = window.min(axis=0), window.max(axis=0)
        margin = 0.05 * (high - low)
        inside = np.array([low - margin, high + margin])
    for points, look, label in layers:
        kept = points[((points >= inside[0]) & (points <= inside[1])).all(axis=1)]
        # A rasterised cloud keeps the vector file small.
        ax.scatter(*kept.T, label=f"{label} ({len(points)})", rasterized=True, **look)


def draw_tradeoff(
    curves: Sequence[tuple[str, Floats, tuple[float, float]]],
    anomalous: Flags,
    paper: tuple[float, float],
) -> Figure:
    """Return detections against false alarms; each curve is a name, rates, two thresholds."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.5, 5.0), layout="constrained")
    ax = figure.subplots()
    for (name, rates, thresholds), colour in zip(curves, PALETTE, strict=False):
        false, caught, _ = roc_curve(anomalous, rates, drop_intermediate=False)
        ax.step(100 * false, 100 * caught, where="post", color=colour, label=name)
        for threshold, marker in zip(thresholds, "os", strict=True):
            alarms = rates > threshold
            point = [100 * np.mean(alarms[part]) for part in (~anomalous, anomalous)]
            ax.plot(*point, marker=marker, color=colour, markeredgecolor="black", markersize=8)
    ax.plot(*paper, marker="*", color="black", markersize=14, linestyle="none", label="paper")
    ticks = [0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100]
    ax.set(xscale="log", xlim=(0.1, 100), ylim=(80, 100.5))
    ax.set_xticks(ticks, labels=[f"{tick:g}" for tick in ticks])
    ax.set_xticks([], minor=True)
    ax.set(xlabel="false alarms (% of normal rows)", ylabel="attacks detected (%)")
    ax.set_title("Five test sets together")
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(loc="lower right")
    return figure
