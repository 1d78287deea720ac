"""Figures of the Swiss roll, after the paper's section 4.1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from isopivot._arrays import Vector
from isopivot.plots import ALARM, BAND, CURVE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from isopivot.experiments.swiss_roll import Fit, Neighbourhood, NewPoints

PROMISE, DARK, PALE = "#009988", "#1f2f6b", "#c9ced6"
STYLES = ((CURVE, "-"), (BAND, "--"), (ALARM, "-."))
COLOURS = "viridis"
DISTANCE = "distance from the origin"


def energy(spectrum: Vector) -> Vector:
    """Return the paper's E: the share of the spectrum's length in its first components."""
    return np.asarray(np.sqrt(np.cumsum(spectrum**2) / np.sum(spectrum**2)))


def roll(X: Vector, colour: Vector) -> Figure:
    """Draw the roll in space."""
    figure = _figure(7.2, 5.2)
    ax: Any = figure.add_subplot(projection="3d")
    # Depth-dependent shading would blur the colours that carry the distance.
    dots = ax.scatter(*X.T, c=colour, cmap=COLOURS, s=6, depthshade=False, rasterized=True)
    ax.set(xlabel="$x_1$", ylabel="$x_2$", zlabel="$x_3$")
    ax.set_box_aspect(np.ptp(X, axis=0), zoom=1.2)
    ax.view_init(elev=12, azim=-72)
    ax.locator_params(nbins=5)
    figure.colorbar(dots, ax=ax, label=DISTANCE, shrink=0.65, pad=0.1)
    return figure


def spectra(cases: Sequence[Neighbourhood]) -> Figure:
    """Draw spectra, spectra ratios and distributions of diffusion distances."""
    figure = _figure(13, 4)
    left, middle, right = figure.subplots(1, 3)
    for case, (colour, line) in zip(cases, STYLES, strict=False):
        look = {"color": colour, "linestyle": line, "label": rf"$\varepsilon$ = {case.epsilon:g}"}
        number = np.arange(1, len(case.spectrum) + 1)
        left.plot(number, case.spectrum, **look)
        middle.plot(number / len(number), energy(case.spectrum), **look)
        right.stairs(case.density, case.edges, linewidth=1.5, **look)
    left.set(xlabel="component", ylabel="eigenvalue", title=r"Spectra of $P_\varepsilon$")
    middle.set(
        xlabel="share of components, r", ylabel=r"$E_\varepsilon(r)$", title="Spectra ratios"
    )
    right.set(xlabel="diffusion distance", ylabel="density", title="Diffusion distances")
    right.set(xlim=(0, max(_nearly_all(case) for case in cases)), ylim=(0, None))
    for ax in (left, middle, right):
        _plain(ax)
        ax.legend()
    return figure


def _nearly_all(case: Neighbourhood) -> float:
    """Return the diffusion distance that 99.9 % of the pairs do not exceed."""
    share = np.cumsum(case.density * np.diff(case.edges))
    return float(case.edges[1 + np.argmax(share >= 0.999)])


def dimensions(cases: Sequence[Neighbourhood]) -> Figure:
    """Draw the dimension against the distortion, one panel per epsilon."""
    figure = _figure(13, 4.2)
    for ax, case in zip(figure.subplots(1, len(cases)), cases, strict=True):
        own, spectral = case.dictionary, case.spectral
        # All curves on the interval that the dictionary covers.
        low, high = float(own.distortions[-1]), float(own.distortions[0])
        ax.plot(
            case.bound, np.arange(len(case.bound)), color=PROMISE, label="analytic bound, spectral"
        )
        ax.plot(own.distortions, own.sizes, color=ALARM, linestyle="--", label="ICPQR-DM, actual")
        ax.plot(
            spectral.distortions, spectral.sizes, color=CURVE, linestyle="-.", label="DM, minimal"
        )
        top = 1.05 * float(np.argmax(case.bound <= low))
        ax.set(xscale="log", xlim=(low, high), ylim=(0, top))
        ax.set(xlabel="distortion (diffusion distance)", ylabel="dimension")
        ax.set(title=rf"$\varepsilon$ = {case.epsilon:g}")
        _plain(ax)
    figure.axes[0].legend()
    return figure


def embedding(
    psi: Vector, views: Mapping[float, Vector], fits: Mapping[float, Fit], colour: Vector
) -> Figure:
    """Draw two coordinates of the spectral map and of the aligned dictionaries'."""
    figure = _figure(10, 8.4)
    axes = figure.subplots(2, 2, sharex=True, sharey=True)
    titles = ["DM"]
    for mu in views:
        fit = fits[mu]
        titles.append(
            rf"ICPQR-DM, $\mu$ = {mu:g}, s = {fit.size:,}, distortion {fit.distortion:.2g}"
        )
    for ax, points, title in zip(axes.flat, [psi, *views.values()], titles, strict=True):
        dots = ax.scatter(*points[:, :2].T, c=colour, cmap=COLOURS, s=6, rasterized=True)
        ax.set(title=title)
        _plain(ax)
    for ax in axes[-1]:
        ax.set(xlabel="coordinate 1 (diffusion distance)")
    for ax in axes[:, 0]:
        ax.set(ylabel="coordinate 2")
    figure.colorbar(dots, ax=axes, label=DISTANCE, shrink=0.6)
    return figure


def new_points(new: NewPoints, colour: Vector, mu: float) -> Figure:
    """Draw new points by rate, by verdict, and the normal ones embedded."""
    figure = _figure(15, 4.8)
    left, middle, right = figure.subplots(1, 3)
    side = new.points[:, [0, 2]]
    _draw_rates(left, side, new.rates)
    for inside, shade, name in ((~new.normal, PALE, "abnormal"), (new.normal, DARK, "normal")):
        label = f"{name} ({int(inside.sum()):,})"
        middle.scatter(*side[inside].T, c=shade, s=5, rasterized=True, label=label)
    middle.set(title=rf"Normal: rate $\leq$ {mu:g}")
    # Beside the points, not on them.
    middle.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2, markerscale=3)
    for ax in (left, middle):
        ax.set(xlabel="$x_1$", ylabel="$x_3$")
        ax.set_aspect("equal")
    hues = colour[new.nearest[new.normal]]
    limits = {"vmin": colour.min(), "vmax": colour.max()}
    dots = right.scatter(*new.view.T, c=hues, cmap=COLOURS, s=9, rasterized=True, **limits)
    right.set(title="Normal points, embedded", xlabel="coordinate 1 (diffusion distance)")
    right.set(ylabel="coordinate 2")
    figure.colorbar(dots, ax=right, label=f"{DISTANCE}\n(of the nearest training point)")
    for ax in (left, middle, right):
        _plain(ax)
    return figure


def _draw_rates(ax: Axes, side: Vector, rates: Vector) -> None:
    from matplotlib.colors import LogNorm

    lowest = max(float(rates.min()), 1e-4 * float(rates.max()), np.finfo(float).tiny)
    norm = LogNorm(lowest, float(rates.max()))
    # The smallest rates are drawn last: they trace the roll.
    order = np.argsort(-rates, kind="stable")
    x, y, clipped = side[order, 0], side[order, 1], np.maximum(rates, lowest)[order]
    dots = ax.scatter(x, y, c=clipped, cmap="cividis", norm=norm, s=5, rasterized=True)
    ax.set(title=f"Distortion rate of {len(rates):,} new points")
    ax.figure.colorbar(dots, ax=ax, label="distortion rate (diffusion distance)")


def dictionaries(X: Vector, fits: Sequence[Fit]) -> Figure:
    """Draw which points each method took, the roll laid flat."""
    figure = _figure(11, 6)
    # On this roll the angle is the radius; the formula is the length of an Archimedean spiral.
    angle = np.hypot(X[:, 0], X[:, 2])
    along = (angle * np.hypot(1.0, angle) + np.arcsinh(angle)) / 2.0
    along -= along.min()
    for ax, fit in zip(figure.subplots(2, 1, sharex=True), fits, strict=True):
        chosen = fit.model.dictionary_indices_
        ax.scatter(along, X[:, 1], c=PALE, s=6, rasterized=True)
        ax.scatter(along[chosen], X[chosen, 1], c=DARK, s=9, rasterized=True)
        ax.set(title=rf"{fit.method}, $\mu$ = {fit.mu:g}: {fit.size:,} points", ylabel="$x_2$")
        ax.set_aspect("equal")
        _plain(ax)
    figure.axes[-1].set(xlabel="length along the roll, from its inner end")
    return figure


def _figure(width: float, height: float) -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _plain(ax: Axes) -> None:
    ax.spines[["top", "right"]].set_visible(False)
