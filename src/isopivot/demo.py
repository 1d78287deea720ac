"""The demonstration behind ``isopivot demo``: certificates, false alarms and hits, pictures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits, make_swiss_roll

from isopivot import ICPQR, KernelICPQR, actual_distortion
from isopivot.plots import plot_changes, plot_distances, plot_embedding, plot_path, plot_rates

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.table import Table

Floats = NDArray[np.float64]
Detector = ICPQR | KernelICPQR
VIEWS = ("path", "embedding", "distances", "changes")
ASKED = (0.01, 0.05, 0.10)
DRAWN_DIGIT, DRAWN_RATE = 8, 0.05


@dataclass(frozen=True)
class Case:
    """A data set with the tolerances to try, smallest first, and the one to draw."""

    name: str
    description: str
    X: Floats
    labels: NDArray[np.generic]
    label_name: str
    mus: tuple[str, ...]
    drawn: str


@dataclass(frozen=True)
class Row:
    """What one tolerance cost and kept; lengths in the units of the data."""

    data: str
    percent: str
    mu: float
    n_components: int
    n_features: int
    bound: float
    distortion: float
    how: str
    seconds: float


@dataclass(frozen=True)
class Detection:
    """One detector at one false-alarm rate, with a digit left out of the fit; shares of rows."""

    detector: str
    mu: str
    unseen: int
    n_components: int
    n_train: int
    asked: float
    false_alarms: float
    hits: float


def run(out: Path, report: Callable[[str], None]) -> list[Row]:
    """Fit the demonstration data, write the pictures to ``out``, return the table.

    The table of detections is printed.

    Parameters
    ----------
    out : Path
        Existing folder for the PNG files named by `pictures`.
    report : callable
        Told, in a sentence, what is being done.

    Returns
    -------
    list of Row
        One per data set and tolerance. One fit per data set serves all its tolerances.
    """
    from rich.console import Console

    rows = [row for case in cases() for row in _run_case(case, out, report)]
    table = detection_table(detect(out, report))
    Console(highlight=False, soft_wrap=True).print(table)
    return rows


def detect(out: Path, report: Callable[[str], None]) -> list[Detection]:
    """Leave each digit out in turn; count false alarms on held-out rows and hits on that digit.

    Parameters
    ----------
    out : Path
        Existing folder for ``digits-rates.png``.
    report : callable
        Told, in a sentence, what is being done.

    Returns
    -------
    list of Detection
        One per detector, digit and false-alarm rate.
    """
    X, y = load_digits(return_X_y=True)
    found = []
    for digit in range(10):
        report(f"detection: fitting and calibrating on all digits but {digit}")
        parts = _split(X, y, digit)
        models = _detectors(parts[0])
        found += [row for model in models for row in _count(model, digit, parts)]
        if digit == DRAWN_DIGIT:
            _draw_rates(models, parts, _rates_picture(out))
    return found


def detection_table(found: list[Detection]) -> Table:
    """Lay out what `detect` found, averaged over the digits, as a table."""
    from rich.table import Table

    rows = np.mean([d.n_train for d in found])
    table = Table(
        title="Novelty detection: each of the ten digits in turn is never shown to the fit",
        caption=f"Fitted on a third of the other nine digits (about {rows:.0f} rows), calibrated "
        "on a third,\nfalse alarms counted on a third. Means over the ten (smallest-largest). "
        "The rate asked\nis that over all draws of such rows: this one may lie above it, and "
        "the ten share their rows.",
        title_style="bold",
    )
    table.add_column("detector", no_wrap=True)
    for heading in ("mu", "s", "asked", "false alarms\nseen", "unseen digit\nhit"):
        table.add_column(heading, justify="right", no_wrap=True)
    for name in dict.fromkeys(d.detector for d in found):
        for asked in ASKED:
            group = [d for d in found if (d.detector, d.asked) == (name, asked)]
            table.add_row(*_detection_cells(group))
        table.add_section()
    return table


def _detection_cells(group: list[Detection]) -> tuple[str, ...]:
    return (
        group[0].detector,
        group[0].mu,
        f"{np.mean([d.n_components for d in group]):.0f}",
        f"{group[0].asked:.0%}",
        _mean_and_range([d.false_alarms for d in group]),
        _mean_and_range([d.hits for d in group]),
    )


def _mean_and_range(shares: list[float]) -> str:
    return f"{np.mean(shares):.1%} ({100 * min(shares):.1f}-{100 * max(shares):.1f})"


def cases() -> tuple[Case, Case]:
    """Digits and a Swiss roll; neither is downloaded."""
    return _digits(), _swiss_roll()


def pictures(out: Path) -> list[Path]:
    """Files that `run` writes to ``out``."""
    views = [_picture(out, case.name, view) for case in cases() for view in VIEWS]
    return [*views, _rates_picture(out)]


def _digits() -> Case:
    X, y = load_digits(return_X_y=True)
    return Case(
        name="digits",
        description="1,797 scanned digits of 8 x 8 pixels, grey 0 to 16, bundled with scikit-learn",
        X=X,
        labels=y,
        label_name="digit",
        mus=("5%", "10%", "20%", "40%"),
        drawn="40%",
    )


def _swiss_roll() -> Case:
    """Swiss roll in 20 dimensions: three carry the roll, noise fills all of them."""
    rng = np.random.default_rng(0)
    roll, position = make_swiss_roll(2000, random_state=0)
    directions, _ = np.linalg.qr(rng.standard_normal((20, 3)))
    X = roll @ directions.T + 0.05 * rng.standard_normal((2000, 20))
    return Case(
        name="swiss-roll",
        description=(
            "2,000 points of make_swiss_roll(random_state=0), its 3 coordinates laid along 3 "
            "random orthonormal directions of 20, plus Gaussian noise of deviation 0.05 in each "
            "of the 20 (seed 0)"
        ),
        X=X,
        labels=position,
        label_name="position along the roll",
        mus=("1%", "2%", "5%", "80%"),
        drawn="5%",
    )


def _run_case(case: Case, out: Path, report: Callable[[str], None]) -> list[Row]:
    report(f"{case.name}: fitting once at mu = {case.mus[0]} of the largest norm")
    start = perf_counter()
    finest = ICPQR(mu=case.mus[0], rotate=True).fit(case.X)
    rows, models = [_row(case, case.mus[0], finest, "fit", perf_counter() - start)], [finest]
    for mu in case.mus[1:]:
        report(f"{case.name}: cutting the same fit at mu = {mu}, measuring all distances")
        start = perf_counter()
        models.append(finest.truncate(mu=mu))
        rows.append(_row(case, mu, models[-1], "cut", perf_counter() - start))
    report(f"{case.name}: drawing")
    _draw(case, out, finest, models[case.mus.index(case.drawn)], [row.mu for row in rows])
    return rows


def _row(case: Case, percent: str, model: ICPQR, how: str, seconds: float) -> Row:
    return Row(
        data=case.name,
        percent=percent,
        mu=float(model.mu_),
        n_components=int(model.n_components_),
        n_features=case.X.shape[1],
        bound=float(model.certificate_.distortion_bound),
        distortion=actual_distortion(case.X, model.embedding_, model.residuals_),
        how=how,
        seconds=seconds,
    )


def _draw(case: Case, out: Path, finest: ICPQR, drawn: ICPQR, mus: list[float]) -> None:
    embedding, rows = drawn.embedding_, drawn.dictionary_indices_
    axes = {
        "path": plot_path(finest.path_, mu=mus),
        "embedding": plot_embedding(
            embedding, rows, labels=case.labels, label_name=case.label_name
        ),
        "distances": plot_distances(case.X, embedding, drawn.certificate_),
        "changes": plot_changes(case.X, embedding, drawn.certificate_),
    }
    mu = rf"$\mu$ = {drawn.mu_:.3g} ({case.drawn} of the largest norm), s = {drawn.n_components_}"
    for view, ax in axes.items():
        head = case.name if view == "path" else f"{case.name}, {mu}"
        ax.set_title(f"{head}\n{ax.get_title()}", fontsize="medium")
        cast("Figure", ax.figure).savefig(_picture(out, case.name, view))


def _picture(out: Path, name: str, view: str) -> Path:
    return out / f"{name}-{view}.png"


# -- detection ------------------------------------------------------------------------------


def _split(X: Floats, y: NDArray[np.generic], unseen: int) -> tuple[Floats, ...]:
    """Return rows to fit, to calibrate and to test on, then the rows of the unseen digit."""
    normal = np.random.default_rng(0).permutation(X[y != unseen])
    return (*np.array_split(normal, 3), X[y == unseen])


def _detectors(train: Floats) -> list[Detector]:
    # Grey levels are one unit for all pixels: nothing to scale.
    return [ICPQR(mu="40%").fit(train), KernelICPQR().fit(train)]


def _count(model: Detector, unseen: int, parts: tuple[Floats, ...]) -> list[Detection]:
    train, held_out, test, strange = parts
    found = []
    for asked in ASKED:
        model.calibrate(held_out, asked)
        alarms, hits = (float(np.mean(model.predict(rows) == -1)) for rows in (test, strange))
        name, size = type(model).__name__, int(model.n_components_)
        shares = (asked, alarms, hits)
        found.append(Detection(name, str(model.mu), unseen, size, len(train), *shares))
    return found


def _draw_rates(models: list[Detector], parts: tuple[Floats, ...], target: Path) -> None:
    from matplotlib.figure import Figure

    _, held_out, test, strange = parts
    unseen = f"{DRAWN_DIGIT}, never shown"
    labels = np.repeat(["other digits, held out", unseen], [len(test), len(strange)])
    figure = Figure(figsize=(11, 4.6), dpi=150, layout="constrained")
    units = ("grey levels", "feature space, at most 1")
    for ax, model, unit in zip(figure.subplots(1, 2), models, units, strict=True):
        model.calibrate(held_out, DRAWN_RATE)
        rates = model.distortion_rate(np.vstack([test, strange]))
        plot_rates(rates, model.threshold_, labels=labels, ax=ax)
        ax.spines[["top", "right"]].set_visible(False)
        size = rf"$\mu$ = {model.mu_:.3g}, s = {model.n_components_}"
        ax.set(title=f"{type(model).__name__}, {size}", xlabel=f"distortion rate ({unit})")
    figure.suptitle(
        f"digits: fitted and calibrated without the {DRAWN_DIGIT}, "
        f"{DRAWN_RATE:.0%} false alarms asked"
    )
    figure.savefig(target)


def _rates_picture(out: Path) -> Path:
    return _picture(out, "digits", "rates")
