"""The 7 x 7 example of the paper's section 2.2: why the order of the columns matters.

The paper's columns are rows here; tables count them from 1, as the paper does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from isopivot import Factorization, actual_distortion, icpqr
from isopivot.experiments._book import Picture, Result, Sheet
from isopivot.plots import ALARM, BAND, CURVE, plot_path

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]

MU = 1.5  # the paper's
TOLERANCES = (5.0, 2.0, MU, 1.0, 0.75, 0.5, 0.0)
PAPERS = (0, 3, 6)  # its columns 1, 4 and 7

TEXT = """\
Section 2.2 of the paper shows, on seven vectors of seven coordinates (ones on and above the \
diagonal, the last entry 20), that a good choice of dictionary saves dimensions: taken in the \
order given, the vectors need all seven dimensions to keep every distance within 3, while the \
dictionary {1, 4, 7} needs three.

Both statements hold. The greedy algorithm does better still: at mu = 1.5 it takes the columns 7 \
and 6 and stops, because no residual exceeds the square root of 3/2. Column 1 of the paper's \
dictionary changes the largest residual by nothing: {4, 7} reaches the same.

The printed Algorithm 1 admits a pivot before it tests whether one is needed, and so would add \
column 3; here the test comes first. Everything is computed without centring, as in the paper."""


def run(report: Callable[[str], None]) -> Result:
    """Return the example's dictionaries, residuals and distortions beside the paper's.

    Parameters
    ----------
    report : callable
        Told, in a sentence, what is being done.

    Returns
    -------
    Result
    """
    report("toy: factoring the 7 x 7 example")
    X = example()
    full = icpqr(X, mu=0.0)
    sheets = (_dictionaries(X), _pivots(X, full), _tolerances(X))
    report("toy: drawing")
    caption = (
        "Left: dimension that each mu needs, from one factorization. Right: residual of every "
        "column under the paper's dictionary and the greedy one at mu = 1.5; both stay below "
        "the dashed line, so that no distance changes by more than 3."
    )
    pictures = (Picture("path-and-residuals", caption, _draw(X, full)),)
    return Result("toy", "The 7 x 7 example (section 2.2)", TEXT, sheets, pictures, ())


def example() -> Floats:
    """Return the paper's matrix, its columns as rows."""
    X = np.tril(np.ones((7, 7)))
    X[6, 6] = 20.0
    return X


def project(X: Floats, rows: Sequence[int]) -> tuple[Floats, Floats]:
    """Return coordinates on the span of the given rows, and residual norms."""
    Q = np.linalg.qr(X[list(rows)].T)[0]
    coordinates = X @ Q
    return coordinates, np.linalg.norm(X - coordinates @ Q.T, axis=1)


def _columns(rows: Sequence[int]) -> str:
    return "{" + ", ".join(str(row + 1) for row in rows) + "}"


def _dictionaries(X: Floats) -> Sheet:
    greedy = [int(row) for row in icpqr(X, mu=MU).pivots]
    cases: list[tuple[str, Sequence[int], str]] = [
        ("in the order given, six", range(6), "not enough for 3"),
        ("in the order given, all", range(7), "needed for 3"),
        ("the paper's", PAPERS, "residuals < 1.5, distortion <= 3"),
        ("the paper's less column 1", PAPERS[1:], "–"),
        ("greedy, mu = 1.5", greedy, "–"),
    ]
    rows = []
    for name, chosen, statement in cases:
        coordinates, residuals = project(X, chosen)
        change = actual_distortion(X, coordinates)
        rows.append(
            (
                name,
                _columns(chosen),
                len(chosen),
                statement,
                _clean(residuals.max()),
                _clean(change),
            )
        )
    return Sheet(
        "dictionaries",
        "Dictionaries, what the paper says of them, and what we find: the largest residual and "
        "the largest change of a distance.",
        ("choice", "columns", "s", "paper", "largest residual, ours", "distortion, ours"),
        rows,
    )


def _clean(length: float) -> float:
    """Return a length that is zero but for rounding as zero."""
    return 0.0 if length < 1e-12 else float(length)


def _pivots(X: Floats, full: Factorization) -> Sheet:
    rows = []
    for step, (pivot, entry) in enumerate(zip(full.pivots, full.pivot_residuals, strict=True), 1):
        cut = icpqr(X, n_components=step)
        left = _clean(float(cut.residuals.max()))
        change = _clean(actual_distortion(X, cut.coordinates))
        rows.append((step, int(pivot) + 1, float(entry), left, change))
    return Sheet(
        "pivots",
        "The greedy order to the end. A column enters with the largest residual of all that are "
        "left, which is what the diagonal of R holds.",
        ("step", "column", "residual on entry", "largest residual after", "distortion after"),
        rows,
    )


def _tolerances(X: Floats) -> Sheet:
    rows = []
    for mu in TOLERANCES:
        found = icpqr(X, mu=mu)
        certificate = found.certificate
        change = _clean(actual_distortion(X, found.coordinates))
        bound = _clean(certificate.distortion_bound)
        residual = _clean(certificate.mu_strict)
        rows.append((mu, certificate.n_components, residual, change, bound, 2 * mu))
    return Sheet(
        "tolerances",
        "One tolerance a row: distortion <= certified bound <= 2 mu (up to rounding).",
        ("mu", "s", "largest residual", "distortion", "certified bound", "2 mu"),
        rows,
    )


def _draw(X: Floats, full: Factorization) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    norms = np.linalg.norm(X, axis=1).max()
    largest = [norms, *(icpqr(X, n_components=s).residuals.max() for s in range(1, 7))]
    plot_path(np.column_stack([largest, range(7)]), mu=[5.0, MU, 0.75], ax=left)
    left.set(xscale="log", xlim=(0.6, 24))
    left.set_xticks([1, 2, 5, 10, 20], labels=["1", "2", "5", "10", "20"])
    left.set_xticks([], minor=True)
    _draw_residuals(right, X, [int(row) for row in full.pivots[:2]])
    for ax in (left, right):
        ax.spines[["top", "right"]].set_visible(False)
    return figure


def _draw_residuals(ax: Axes, X: Floats, greedy: list[int]) -> None:
    place = np.arange(1, 8)
    for rows, colour, hatch, shift, name in (
        (PAPERS, BAND, "//", -0.2, "paper's"),
        (greedy, CURVE, None, 0.2, "greedy"),
    ):
        label = f"{name} {_columns(rows)}, s = {len(rows)}"
        residuals = project(X, rows)[1]
        ax.bar(place + shift, residuals, 0.38, color=colour, hatch=hatch, label=label)
    ax.axhline(MU, color=ALARM, linestyle="--", linewidth=1.2, label=r"$\mu$ = 1.5")
    ax.set(xlabel="column", ylabel="residual (units of the data)", ylim=(0, 2.15))
    ax.set(xticks=place, title="Distance of every column from the dictionary's span")
    ax.legend(loc="upper left", fontsize="small", ncols=2)
