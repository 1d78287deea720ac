"""Pictures of a fit: the mu curve, the embedding, the distances, the rates.

Every function draws on ``ax`` and returns it. Without ``ax`` it makes a figure of its
own, outside pyplot: nothing pops up and nothing is left open; save it with
``ax.figure.savefig(path)``. Needs matplotlib: ``pip install ".[plot]"`` in the repository.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics import DistanceMetric
from sklearn.utils import check_array, check_consistent_length, column_or_1d

from isopivot.certificate import Certificate

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import PolyCollection

Floats = NDArray[np.float64]

# From Paul Tol's "vibrant" scheme, told apart also by colour-blind readers.
CURVE, BAND, ALARM = "#0077bb", "#ee7733", "#cc3311"
# Ten colours of different hue or lightness; shapes help those who cannot tell them apart.
PALETTE = (
    "#3f90da",
    "#ffa90e",
    "#bd1f01",
    "#94a4a2",
    "#832db6",
    "#1b9e4b",
    "#8c564b",
    "#e377c2",
    "#1f2f6b",
    "#6fd3d8",
)
SHAPES = ("o", "^", "s", "D", "v", "P", "X", "<", ">", "p")
RATE_BINS = 40
LOG_FACTOR = 50.0
TINY = float(np.finfo(float).tiny)


def plot_path(
    path: ArrayLike, *, mu: float | Sequence[float] | None = None, ax: Axes | None = None
) -> Axes:
    """Curve of the dimension that each mu costs, read from one fit.

    Parameters
    ----------
    path : array-like of shape (n_components + 1, 2)
        Rows (largest residual, s), s = 0 first: the ``path_`` of a fitted estimator.
    mu : float or sequence of float, optional
        Values to mark with the dimension they need, in the units of the data. None may be
        below the last residual of the path: the fit does not say what those cost.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure when None. The mu axis is made logarithmic when the path
        spans more than a factor of 50.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> from isopivot.plots import plot_path
    >>> ax = plot_path([[5.0, 0], [2.0, 1], [0.5, 2]], mu=2.5)
    >>> ax.get_ylabel()
    'dimension s'
    """
    if hasattr(path, "path_"):
        name = type(path).__name__
        raise TypeError(f"got the estimator {name} for path; allowed is a path; pass its path_")
    steps: Floats = check_array(path, dtype=np.float64)
    ax = _axes(ax)
    from matplotlib.ticker import MaxNLocator

    # The smallest s whose residual is at most mu: constant from one residual up to the last.
    ax.step(steps[:, 0], steps[:, 1], where="pre", color=CURVE, linewidth=1.8)
    marks = np.atleast_1d(np.asarray([] if mu is None else mu, dtype=np.float64))
    for value, marker in zip(marks, itertools.cycle("os^Dv"), strict=False):
        size = _size_at(steps, value)
        label = f"$\\mu$ = {value:.3g}: s = {size}"
        ax.plot(value, size, marker=marker, color=ALARM, linestyle="none", label=label)
    if len(marks):
        ax.legend()
    _mu_axis(ax, steps[:, 0])
    ax.yaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
    ax.set(xlabel=r"$\mu$ (units of the data)", ylabel="dimension s", ylim=(0, None))
    ax.set_title(r"Dimension needed for each $\mu$ (one fit)")
    return ax


def plot_embedding(
    embedding: ArrayLike,
    dictionary_indices: ArrayLike | None = None,
    *,
    labels: ArrayLike | None = None,
    label_name: str = "label",
    ax: Axes | None = None,
) -> Axes:
    """First two coordinates of every point, the dictionary ringed.

    Parameters
    ----------
    embedding : array-like of shape (n_samples, n_components)
        Coordinates; with ``rotate=True`` the first two carry the most variance. Missing
        columns (n_components < 2) are drawn as zero.
    dictionary_indices : array-like of int, optional
        Rows to mark, ``dictionary_indices_`` of a fitted estimator.
    labels : array-like of shape (n_samples,), optional
        Colour of each point. At most ten different values get a colour and a shape each and a
        legend; more of them must be numbers and get a colour bar.
    label_name : str, default="label"
        What the labels are: the title of the legend, or the text beside the colour bar.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure when None.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> from isopivot.plots import plot_embedding
    >>> ax = plot_embedding([[0.0, 1.0], [2.0, 0.5], [1.0, 0.0]], [1])
    >>> ax.get_legend().get_texts()[0].get_text()
    'dictionary (1)'
    """
    points = _plane(embedding)
    ax = _axes(ax)
    _scatter(ax, points, labels, label_name)
    if dictionary_indices is not None:
        rows = np.asarray(dictionary_indices, dtype=np.intp)
        ax.scatter(
            points[rows, 0],
            points[rows, 1],
            s=34,
            facecolors="none",
            edgecolors="black",
            linewidths=1.0,
            label=f"dictionary ({len(rows):,})",
        )
    _embedding_legend(ax, None if label_name == "label" else label_name)
    n_components = np.shape(embedding)[1]
    ax.set(xlabel="coordinate 1 (units of the data)", ylabel="coordinate 2")
    ax.set(title=f"Embedding: {min(2, n_components)} of {n_components} coordinates")
    ax.set_aspect("equal", adjustable="datalim")
    return ax


def plot_changes(
    X: ArrayLike,
    embedding: ArrayLike,
    certificate_or_bound: Certificate | float,
    *,
    max_points: int = 2000,
    ax: Axes | None = None,
) -> Axes:
    """How much every distance shrank, against its length afterwards, with the certified band.

    Projection never lengthens a distance: a pair at distance d before and e after lies at
    height d - e, between 0 and the certified bound. What was cut away is orthogonal to what
    was kept, which lowers the limit to sqrt(e^2 + bound^2) - e, the dashed curve. The pair
    that changed most is marked. Cells are cut at the edges of the band, unless a pair really
    lies outside.

    Parameters
    ----------
    X : array-like or CSR matrix of shape (n_samples, n_features)
        The points, in the order of ``embedding``.
    embedding : array-like of shape (n_samples, n_components)
        Their coordinates.
    certificate_or_bound : Certificate or float
        The certificate, or its ``distortion_bound``, in the units of the data.
    max_points : int, default=2000
        With more rows, the pairs among this many of them, drawn with a fixed seed. Memory
        grows with its square (about 100 MB at 2000).
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure when None.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> from isopivot.plots import plot_changes
    >>> ax = plot_changes([[0, 0], [3, 4], [0, 9]], [[0], [4], [9]], 3.0)
    >>> ax.get_title()
    'Change of distances, all 3 pairs'
    """
    bound, which, true, embedded = _compared(X, embedding, certificate_or_bound, max_points)
    change = true - embedded
    ax = _axes(ax)
    reach = 1.03 * embedded.max(initial=0.0) or 1.0
    _draw_band(ax, reach, bound)
    if len(change):
        share = np.ptp(change) / max(bound, np.ptp(change), TINY)
        cells = _draw_cells(ax, embedded, change, share)
        if np.all(change <= np.hypot(embedded, bound) - embedded + 1e-9 * reach):
            _cut_above(cells, ax, reach, bound)
        _mark_worst(ax, embedded, change)
    ax.legend(loc="upper right", fontsize="small")  # above the dashed curve: no pair is there
    ax.set(xlabel="distance after, e (units of the data)", ylabel="shrunk by, d - e")
    # At 0 the axes cut cells that only reach below, by their shape; rounding is no violation.
    lowest = change.min(initial=0.0)
    top = 1.04 * max(bound, change.max(initial=0.0)) or 1.0
    ax.set(xlim=(0, reach), ylim=(1.1 * lowest if lowest < -1e-9 * reach else 0.0, top))
    ax.set_title(f"Change of distances, {which}")
    return ax


def plot_distances(
    X: ArrayLike,
    embedding: ArrayLike,
    certificate_or_bound: Certificate | float,
    *,
    max_points: int = 2000,
    ax: Axes | None = None,
) -> Axes:
    """Every true distance against its embedded one, inside the certified band.

    `plot_changes` shows the same pairs with the vertical axis magnified to the band.

    Parameters
    ----------
    X, embedding, certificate_or_bound, max_points, ax
        As in `plot_changes`.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> from isopivot.plots import plot_distances
    >>> ax = plot_distances([[0, 0], [3, 4], [0, 9]], [[0], [4], [9]], 3.0)
    >>> ax.get_title()
    'True against embedded distances, all 3 pairs'
    """
    bound, which, true, embedded = _compared(X, embedding, certificate_or_bound, max_points)
    ax = _axes(ax)
    reach = 1.03 * embedded.max(initial=0.0) or 1.0
    ends = np.array([0.0, reach])
    promise = f"certified: e $\\leq$ d $\\leq$ e + {bound:.3g}"
    ax.fill_between(ends, ends, ends + bound, color=BAND, alpha=0.25, linewidth=0, label=promise)
    ax.plot(ends, ends, color=BAND, linewidth=1.0, label="d = e: kept exactly")
    if len(true):
        _draw_cells(ax, embedded, true, 1.0)
    ax.legend(loc="upper left", fontsize="small")
    ax.set(xlabel="embedded distance e (units of the data)", ylabel="true distance d")
    ax.set(xlim=(0, reach), ylim=(0, 1.03 * max(reach + bound, true.max(initial=0.0))))
    ax.set_title(f"True against embedded distances, {which}")
    return ax


def plot_rates(
    rates: ArrayLike,
    threshold: float,
    *,
    labels: ArrayLike | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Histogram of distortion rates, with the threshold between normal and abnormal.

    Parameters
    ----------
    rates : array-like of shape (n_samples,)
        ``distortion_rate(X)`` of a fitted estimator.
    threshold : float
        Its ``threshold_``: rates above it are abnormal. Infinity (a calibration with too few
        rows) calls nothing abnormal.
    labels : array-like of shape (n_samples,), optional
        Known groups, drawn in a colour each; without them the two sides of the threshold.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure when None.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> from isopivot.plots import plot_rates
    >>> plot_rates([0.1, 0.2, 0.9], threshold=0.5).get_title()
    'Distortion rates: 1 of 3 points above the threshold'
    """
    values: Floats = column_or_1d(check_array(rates, dtype=np.float64, ensure_2d=False))
    abnormal = values > threshold
    ax = _axes(ax)
    edges = _edges(values, threshold).tolist()
    groups = _groups(values, abnormal, labels)
    colours = PALETTE if labels is not None else (CURVE, ALARM)
    coloured = zip(groups, colours, strict=False)
    for (name, group), colour in sorted(coloured, key=lambda pair: -len(pair[0][1])):
        label = f"{name} ({len(group):,})"  # the smallest group comes last, on top
        ax.hist(group, edges, histtype="stepfilled", alpha=0.7, color=colour, label=label)
    highest = ax.get_ylim()[1]
    if np.isfinite(threshold):
        ends = ([threshold, threshold], [0.0, highest])
        ax.plot(*ends, color="black", linestyle="--", label=f"threshold {threshold:.3g}")
    ax.set_ylim(0.0, 1.25 * highest)  # room for the legend
    ax.legend(fontsize="small")
    ax.set(xlabel="distortion rate (units of the data)", ylabel="points")
    ax.set_title(
        f"Distortion rates: {abnormal.sum():,} of {len(values):,} points above the threshold"
    )
    return ax


def _axes(ax: Axes | None) -> Axes:
    """Give ``ax`` back, or fresh axes of a figure that pyplot does not know."""
    if ax is not None:
        return ax
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            "pictures need matplotlib, which is not installed; pip install matplotlib"
        ) from error

    ax = Figure(figsize=(6.4, 4.8), dpi=150, layout="constrained").subplots()
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def _mu_axis(ax: Axes, residual: Floats) -> None:
    positive = residual[residual > 0]
    if len(positive) and positive.max() > LOG_FACTOR * positive.min():
        ax.set_xscale("log")
        ax.xaxis.set_major_formatter("{x:g}")
        ax.set_xlim(left=0.8 * positive.min())  # also where a zero residual ends the path
    else:
        ax.set_xlim(left=0.0)


def _size_at(steps: Floats, mu: float) -> int:
    """Smallest s on the path whose largest residual is at most mu."""
    reached = np.flatnonzero(steps[:, 0] <= mu)
    if not len(reached):
        raise ValueError(
            f"mu={mu:g} is below the end of the path ({steps[-1, 0]:g}); "
            f"fit with mu <= {mu:g}, or mark a larger mu"
        )
    return int(steps[reached[0], 1])


def _plane(embedding: ArrayLike) -> Floats:
    points: Floats = check_array(embedding, dtype=np.float64, ensure_min_features=0)
    return np.pad(points[:, :2], ((0, 0), (0, max(0, 2 - points.shape[1]))))


def _scatter(ax: Axes, points: Floats, labels: ArrayLike | None, label_name: str) -> None:
    style: dict[str, Any] = {"s": 12, "alpha": 0.75, "linewidths": 0, "rasterized": True}
    if labels is None:
        ax.scatter(*points.T, color=CURVE, **style)
        return
    values = column_or_1d(labels)
    check_consistent_length(points, values)
    names = np.unique(values)
    if len(names) > len(PALETTE) and np.issubdtype(values.dtype, np.number):
        drawn = ax.scatter(points[:, 0], points[:, 1], c=values, cmap="viridis", **style)
        ax.figure.colorbar(drawn, ax=ax, label=label_name, shrink=0.8)
        return
    _check_colours(names, "pass numbers for a colour scale")
    for name, colour, shape in zip(names, PALETTE, SHAPES, strict=False):
        group = points[values == name]
        ax.scatter(*group.T, color=colour, marker=shape, label=str(name), **style)


def _embedding_legend(ax: Axes, title: str | None) -> None:
    names = ax.get_legend_handles_labels()[1]
    if len(names) > 2:  # a long legend would hide points
        place: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0), "title": title}
        legend = ax.legend(fontsize="small", frameon=False, **place)
    elif names:
        legend = ax.legend(fontsize="small")
    else:
        return
    for shown in legend.legend_handles:
        if shown is not None:  # the points themselves are too small and pale to compare
            shown.set(alpha=1.0, sizes=[36.0])


def _check_colours(names: NDArray[Any], remedy: str) -> None:
    if len(names) > len(PALETTE):
        raise ValueError(
            f"labels have {len(names)} different values, at most {len(PALETTE)} colours can be "
            f"told apart; group them, or {remedy}"
        )


def _rows(X: Any, embedding: ArrayLike, max_points: int) -> NDArray[np.intp]:
    """Rows to compare: all, or a seeded sample (evenly spaced ones would alias)."""
    check_consistent_length(X, embedding)
    n_samples = np.shape(X)[0]
    if n_samples <= max_points:
        return np.arange(n_samples)
    chosen = np.random.default_rng(0).choice(n_samples, size=max_points, replace=False)
    return np.sort(chosen)


def _pair_distances(X: ArrayLike, rows: NDArray[np.intp]) -> Floats:
    """Distances of all pairs i < j, from differences: Gram products would lose small ones."""
    points = check_array(X, accept_sparse="csr", dtype=np.float64, ensure_min_features=0)[rows]
    if points.shape[1] == 0:
        return np.zeros(len(rows) * (len(rows) - 1) // 2)
    square: Floats = DistanceMetric.get_metric("euclidean").pairwise(points)
    return square[np.triu_indices(len(rows), k=1)]


def _compared(
    X: ArrayLike, embedding: ArrayLike, given: Certificate | float, max_points: int
) -> tuple[float, str, Floats, Floats]:
    """Return the bound, which pairs they are, and their true and embedded distances."""
    bound = given.distortion_bound if isinstance(given, Certificate) else float(given)
    rows = _rows(X, embedding, max_points)
    true, embedded = _pair_distances(X, rows), _pair_distances(embedding, rows)
    everyone = len(rows) == np.shape(X)[0]
    which = f"all {len(true):,} pairs" if everyone else f"pairs of {len(rows):,} points"
    return bound, which, true, embedded


def _draw_band(ax: Axes, reach: float, bound: float) -> None:
    promise = f"certified: d - e $\\leq$ {bound:.3g}"
    ax.fill_between([0, reach], bound, color=BAND, alpha=0.18, linewidth=0, label=promise)
    e = np.linspace(0.0, reach, 400)
    sharper = f"certified: d $\\leq \\sqrt{{e^2 + {bound:.3g}^2}}$"
    ax.plot(e, np.hypot(e, bound) - e, color=BAND, linestyle="--", linewidth=1.4, label=sharper)


def _cut_above(cells: PolyCollection, ax: Axes, reach: float, bound: float) -> None:
    """Hide what cells have above the dashed curve: no pair is there, only the cell's shape."""
    from matplotlib.patches import Polygon

    e = np.linspace(0.0, reach, 400)
    curve = np.column_stack([e, np.hypot(e, bound) - e])
    below = [[reach, -bound - reach], [0.0, -bound - reach]]  # the axes cut there
    cells.set_clip_path(Polygon(np.vstack([curve, below]), transform=ax.transData))


def _draw_cells(ax: Axes, embedded: Floats, change: Floats, share: float) -> PolyCollection:
    """Draw pairs as cells, about as high as wide when they fill that share of the height."""
    cells = ax.hexbin(
        embedded,
        change,
        gridsize=(120, 4 + round(60 * share)),
        bins="log",
        mincnt=1,
        cmap="viridis",
        linewidths=0.1,
        rasterized=True,
    )
    ax.figure.colorbar(cells, ax=ax, label="pairs per cell")
    return cells


def _mark_worst(ax: Axes, embedded: Floats, change: Floats) -> None:
    worst = int(np.argmax(np.abs(change)))
    ax.plot(
        embedded[worst],
        change[worst],
        marker="o",
        markersize=9,
        markerfacecolor="none",
        markeredgecolor=ALARM,
        markeredgewidth=1.8,
        linestyle="none",
        clip_on=False,
        label=f"largest change seen: {abs(change[worst]):.3g}",
    )


def _groups(
    values: Floats, abnormal: NDArray[np.bool_], labels: ArrayLike | None
) -> list[tuple[str, Floats]]:
    if labels is None:
        return [("normal", values[~abnormal]), ("abnormal", values[abnormal])]
    names = column_or_1d(labels)
    check_consistent_length(values, names)
    _check_colours(np.unique(names), "leave labels out")
    return [(str(name), values[names == name]) for name in np.unique(names)]


def _edges(values: Floats, threshold: float) -> Floats:
    """Bins of about one width with an edge just above the threshold: no bar mixes sides."""
    low = min(0.0, values.min())
    split = np.nextafter(threshold, np.inf) if np.isfinite(threshold) else low
    high = max(values.max(), split)
    if high - low < RATE_BINS * np.finfo(float).tiny:  # nothing to divide
        high = low + 1.0
    bins_below = round(RATE_BINS * (split - low) / (high - low))
    width = (split - low) / bins_below if bins_below else (high - low) / RATE_BINS
    below = np.linspace(low, split, max(bins_below, 1) + 1)
    above = split + width * np.arange(np.floor((high - split) / width) + 2)
    return np.unique(np.concatenate([below, above]))
