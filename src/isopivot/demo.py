"""The demonstration behind ``isopivot demo``: bundled data, certificates, pictures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits, make_swiss_roll

from isopivot import ICPQR, actual_distortion
from isopivot.plots import plot_distances, plot_embedding, plot_path

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]
VIEWS = ("path", "embedding", "distances")


@dataclass(frozen=True)
class Case:
    """A data set with the tolerances to try, smallest first, and the one to draw."""

    name: str
    description: str
    X: Floats
    labels: NDArray[np.generic]
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


def run(out: Path, report: Callable[[str], None]) -> list[Row]:
    """Fit the demonstration data, write the pictures to ``out``, return the table.

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
    return [row for case in cases() for row in _run_case(case, out, report)]


def cases() -> tuple[Case, Case]:
    """Digits and a Swiss roll; neither is downloaded."""
    return _digits(), _swiss_roll()


def pictures(out: Path) -> list[Path]:
    """Files that `run` writes to ``out``."""
    return [_picture(out, case.name, view) for case in cases() for view in VIEWS]


def _digits() -> Case:
    X, y = load_digits(return_X_y=True)
    return Case(
        name="digits",
        description="1,797 scanned digits of 8 x 8 pixels, grey 0 to 16, bundled with scikit-learn",
        X=X,
        labels=y,
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
        mus=("1%", "2%", "5%", "80%"),
        drawn="80%",
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
    embedding = drawn.embedding_
    axes = {
        "path": plot_path(finest.path_, mu=mus),
        "embedding": plot_embedding(embedding, drawn.dictionary_indices_, labels=case.labels),
        "distances": plot_distances(case.X, embedding, drawn.certificate_),
    }
    for view, ax in axes.items():
        ax.set_title(f"{case.name}: {ax.get_title()}")
        cast("Figure", ax.figure).savefig(_picture(out, case.name, view))


def _picture(out: Path, name: str, view: str) -> Path:
    return out / f"{name}-{view}.png"
