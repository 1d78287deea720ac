"""The paper's section 4.1: diffusion maps of a Swiss roll, by dictionary and by spectrum."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.spatial import KDTree
from scipy.spatial.distance import cdist
from sklearn.datasets import make_swiss_roll

from isopivot import DiffusionICPQR, actual_distortion, align
from isopivot._arrays import Rows, Vector
from isopivot.baselines import DiffusionMaps, MuIDM
from isopivot.diffusion import dense_geometry
from isopivot.experiments import _swiss_figures as figures
from isopivot.experiments import _swiss_words as words
from isopivot.experiments._book import Picture, Result, Sheet
from isopivot.experiments._dimension import DimensionCurve, dimension_curve, upper_distances

NOISE = 0.05
EPSILON = 3.0
EPSILONS = (1.0, 5.0, 25.0)
MUS = (0.1, 1.0, 5.0, 10.0)
SHOWN = (0.1, 1.0, 5.0)  # those of the paper's four panels
DICTIONARY_MU = 5.0
TARGETS = (0.1, 0.3, 1.0, 3.0, 10.0)
ENERGIES = (0.9, 0.99, 0.999)
BANDS = (0.0, 0.25, 0.5, 1.0, 2.0, np.inf)  # distance of new points from the training points
PAPER = {  # mu: dictionary size, time and actual distortion of both methods
    0.1: {"ICPQR-DM": (1246, "43 s", 0.01), "muIDM": (2305, "7 h", 0.03)},
    1.0: {"ICPQR-DM": (752, "27 s", 0.23), "muIDM": (1293, "71 min", 0.61)},
    5.0: {"ICPQR-DM": (382, "17 s", 3.91), "muIDM": (630, "15 min", 4.46)},
    10.0: {"ICPQR-DM": (190, "9 s", 12.81), "muIDM": (284, "4 min", 13.24)},
}

Report = Callable[[str], None]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Neighbourhood:
    """The diffusion geometry for one epsilon: its spectrum, distances and dimensions."""

    epsilon: float
    spectrum: Vector  # all n eigenvalues, the trivial 1 first
    edges: Vector  # of the histogram of diffusion distances
    density: Vector
    bound: Vector  # entry k: what Lemma svd_distort promises for k coordinates
    median: float  # diffusion distance
    analytic: tuple[int | None, ...]  # fewest coordinates for each target, by that promise
    dictionary: DimensionCurve
    spectral: DimensionCurve


@dataclass(frozen=True, eq=False)
class Fit:
    """One method at one mu: what it took, how long, and how far distances changed."""

    method: str
    mu: float
    model: Any
    seconds: float
    distortion: float
    bound: float

    @property
    def size(self) -> int:
        """Number of points in the dictionary."""
        return len(self.model.dictionary_indices_)


@dataclass(frozen=True, eq=False)
class NewPoints:
    """Points from the bounding box of the roll, judged by the finest dictionary."""

    points: Vector
    rates: Vector
    normal: Flags
    gap: Vector  # distance to the nearest training point
    nearest: Rows  # its row
    view: Vector  # two coordinates of the normal ones, aligned


def run(
    report: Report, *, n: int = 3000, n_new: int = 10_000, seed: int = 0, draws: int = 5
) -> Result:
    """Return every table and figure of section 4.1 beside the paper's numbers.

    Parameters
    ----------
    report : callable
        Told, in a sentence, what is being done.
    n : int, default=3000
        Points on the roll; the paper's number.
    n_new : int, default=10_000
        New points in its bounding box; the paper's number.
    seed : int, default=0
        Of the roll and, plus one, of the new points.
    draws : int, default=5
        Further rolls on which only the dictionary sizes are counted.

    Returns
    -------
    Result
    """
    X = roll(n, seed)
    neighbourhoods = [neighbourhood(X, epsilon, report) for epsilon in EPSILONS]
    fits = compare(X, report)
    sizes = dictionary_sizes(n, range(seed + 1, seed + 1 + draws), report)
    report(f"swiss-roll: the spectral map for epsilon = {EPSILON:g}, and alignment with it")
    psi = DiffusionMaps(n - 1, epsilon=EPSILON, eigen_solver="dense").fit(X).embedding_
    dictionary = {fit.mu: fit for fit in fits if fit.method == "ICPQR-DM"}
    views = {mu: aligned(psi, dictionary[mu].model.embedding_) for mu in SHOWN}
    report(f"swiss-roll: placing {n_new:,} new points")
    new = judge(dictionary[SHOWN[0]].model, X, views[SHOWN[0]], n_new, seed + 1)
    sheets = (
        _sizes_sheet(dictionary, sizes),
        _comparison_sheet(fits),
        _dimensions_sheet(neighbourhoods),
        _spectra_sheet(neighbourhoods),
        _new_points_sheet(new),
    )
    report("swiss-roll: drawing")
    pictures = (
        *_geometry_pictures(X, neighbourhoods),
        *_embedding_pictures(X, psi, views, fits, new),
    )
    text = words.text(n, n_new, seed, draws)
    missing = words.not_reproduced(*_in_favour(neighbourhoods))
    return Result("swiss-roll", words.TITLE, text, sheets, pictures, missing)


def roll(n: int, seed: int) -> Vector:
    """Return a noisy Swiss roll, rows from its inner end to its outer."""
    X, angle = make_swiss_roll(n, noise=NOISE, random_state=seed)
    return np.asarray(X[np.argsort(angle, kind="stable")])


def exact_points(X: Vector, epsilon: float) -> Vector:
    """Return rows whose Euclidean distances are the diffusion distances for t = 1."""
    return dense_geometry(np.exp(cdist(X, X, "sqeuclidean") / -epsilon), 1, 0.0)[1]


# -- epsilon and dimension --------------------------------------------------------------------


def neighbourhood(X: Vector, epsilon: float, report: Report) -> Neighbourhood:
    """Measure spectrum, distances and dimensions for one epsilon."""
    report(f"swiss-roll: epsilon = {epsilon:g}, spectrum and distances of all pairs")
    n = len(X)
    spectral = DiffusionMaps(n - 1, epsilon=epsilon, eigen_solver="dense").fit(X)
    spectrum = np.concatenate([[1.0], np.abs(spectral.eigenvalues_)])
    d = upper_distances(exact_points(X, epsilon))
    pairs = d[np.triu_indices(n, 1)]
    density, edges = np.histogram(pairs, bins=80, density=True)
    c = np.sqrt(spectral.degrees_.sum() / spectral.degrees_.min())
    bound = np.append(np.sqrt(2.0) * c * spectrum, 0.0)
    report(f"swiss-roll: epsilon = {epsilon:g}, distortion for growing dimension")
    fine = DiffusionICPQR(MUS[0], epsilon=epsilon, method="dense").fit(X)
    own = dimension_curve(d, fine.embedding_, TARGETS)
    # The lemma says how many spectral coordinates certainly do as well; no more are of interest.
    enough = int(np.argmax(bound <= min(own.distortions[-1], *TARGETS)))
    return Neighbourhood(
        epsilon=epsilon,
        spectrum=spectrum,
        edges=edges,
        density=density,
        bound=bound,
        median=float(np.median(pairs)),
        analytic=tuple(int(np.argmax(bound <= target)) for target in TARGETS),
        dictionary=own,
        # The constant coordinate, which the paper counts, changes no distance.
        spectral=_with_constant(dimension_curve(d, spectral.embedding_[:, :enough], TARGETS)),
    )


def _in_favour(cases: list[Neighbourhood]) -> tuple[int, int]:
    """Count the targets for which the dictionary needs fewer dimensions, and all targets."""
    pairs = [
        pair
        for case in cases
        for pair in zip(case.dictionary.fewest, case.spectral.fewest, strict=True)
    ]
    fewer = [own is not None and (other is None or own < other) for own, other in pairs]
    return sum(fewer), len(pairs)


def _with_constant(curve: DimensionCurve) -> DimensionCurve:
    fewest = tuple(None if k is None else k + 1 for k in curve.fewest)
    return DimensionCurve(curve.sizes + 1, curve.distortions, fewest)


# -- the two dictionaries ---------------------------------------------------------------------


def compare(X: Vector, report: Report) -> list[Fit]:
    """Fit both methods at every mu, one by one so that each has its time."""
    Z = exact_points(X, EPSILON)
    fits = []
    for mu in MUS:
        report(f"swiss-roll: epsilon = {EPSILON:g}, mu = {mu:g}, both dictionaries")
        own = DiffusionICPQR(mu, epsilon=EPSILON, method="dense", threshold="mu")
        seconds = _timed(own, X)
        change = actual_distortion(Z, own.embedding_, own.residuals_)
        bound = own.certificate_.distortion_bound
        fits.append(Fit("ICPQR-DM", mu, own, seconds, change, bound))
        peer = MuIDM(mu, epsilon=EPSILON)
        seconds = _timed(peer, X)
        change = actual_distortion(Z, peer.embedding_)
        fits.append(Fit("muIDM", mu, peer, seconds, change, peer.distortion_bound_))
    return fits


def _timed(model: Any, X: Vector) -> float:
    """Fit and return the median time of three fits, in seconds."""
    seconds = []
    for _ in range(3):
        start = perf_counter()
        model.fit(X)
        seconds.append(perf_counter() - start)
    return median(seconds)


def dictionary_sizes(n: int, seeds: range, report: Report) -> Vector:
    """Return the dictionary sizes of other rolls, (number of seeds, number of mus)."""
    sizes = []
    for seed in seeds:
        report(f"swiss-roll: dictionary sizes of the roll with seed {seed}")
        model = DiffusionICPQR(MUS[0], epsilon=EPSILON, method="dense").fit(roll(n, seed))
        cuts = [model.truncate(mu=mu).n_components_ for mu in MUS[1:]]
        sizes.append([model.n_components_, *cuts])
    return np.array(sizes, dtype=float).reshape(len(seeds), len(MUS))


# -- views and new points ---------------------------------------------------------------------


def aligned(psi: Vector, embedding: Vector) -> Vector:
    """Return two coordinates of an embedding laid on the spectral one."""
    # Aligning costs the cube of the width; coordinates this short move nothing that is seen.
    lengths = np.linalg.norm(psi, axis=0)
    width = int(np.sum(lengths > 1e-3 * lengths.max()))
    return align(psi[:, :width], embedding)[:, :2]


def judge(model: Any, X: Vector, view: Vector, n_new: int, seed: int) -> NewPoints:
    """Draw points uniformly from the bounding box of the roll and place the normal ones."""
    points = np.random.default_rng(seed).uniform(X.min(axis=0), X.max(axis=0), (n_new, X.shape[1]))
    rates = model.distortion_rate(points)
    normal = rates <= model.threshold_
    gap, nearest = KDTree(X).query(points)
    chosen = points[normal]
    placed = model.transform(chosen) if len(chosen) else model.embedding_[:0]
    move = rigid_map(model.embedding_, view)
    return NewPoints(points, rates, normal, gap, nearest, move(placed))


def rigid_map(embedding: Vector, view: Vector) -> Callable[[Vector], Vector]:
    """Return the alignment that made the view, for further points: it is affine."""
    mean, centre = embedding.mean(axis=0), view.mean(axis=0)
    turn = scipy.linalg.lstsq(embedding - mean, view - centre, lapack_driver="gelsy")[0]
    return lambda points: np.asarray((points - mean) @ turn + centre)


# -- pictures ---------------------------------------------------------------------------------


def _geometry_pictures(X: Vector, cases: list[Neighbourhood]) -> tuple[Picture, ...]:
    return (
        Picture("roll", words.ROLL, figures.roll(X, _colour(X))),
        Picture("spectra", words.SPECTRA, figures.spectra(cases)),
        Picture("dimensions", words.DIMENSIONS, figures.dimensions(cases)),
    )


def _embedding_pictures(
    X: Vector, psi: Vector, views: dict[float, Vector], fits: list[Fit], new: NewPoints
) -> tuple[Picture, ...]:
    own = {fit.mu: fit for fit in fits if fit.method == "ICPQR-DM"}
    both = [fit for fit in fits if fit.mu == DICTIONARY_MU]
    colour = _colour(X)
    return (
        Picture("embedding", words.EMBEDDING, figures.embedding(psi, views, own, colour)),
        Picture("new-points", words.NEW_POINTS, figures.new_points(new, colour, SHOWN[0])),
        Picture("dictionaries", words.DICTIONARIES, figures.dictionaries(X, both)),
    )


def _colour(X: Vector) -> Vector:
    return np.asarray(np.linalg.norm(X, axis=1))


# -- tables -----------------------------------------------------------------------------------


def _sizes_sheet(dictionary: dict[float, Fit], sizes: Vector) -> Sheet:
    rows = []
    for column, (mu, fit) in enumerate(dictionary.items()):
        size, _, distortion = PAPER[mu]["ICPQR-DM"]
        spread = None
        if len(sizes) > 1:
            mean, deviation = sizes[:, column].mean(), sizes[:, column].std(ddof=1)
            spread = f"{mean:,.0f} ± {deviation:.0f}"
        rows.append((mu, size, fit.size, spread, distortion, fit.distortion, fit.bound))
    return Sheet(
        "sizes",
        words.sizes(len(sizes)),
        (
            "mu",
            "s, paper",
            "s, ours",
            "s, further rolls",
            "distortion, paper",
            "distortion, ours",
            "certified bound",
        ),
        rows,
    )


def _comparison_sheet(fits: list[Fit]) -> Sheet:
    rows = []
    for fit in fits:
        size, time, distortion = PAPER[fit.mu][fit.method]
        ours = (fit.size, time, round(fit.seconds, 2), distortion, fit.distortion, fit.bound)
        rows.append((fit.mu, fit.method, size, *ours))
    return Sheet(
        "comparison",
        words.COMPARISON,
        (
            "mu",
            "method",
            "s, paper",
            "s, ours",
            "time, paper",
            "seconds, ours",
            "distortion, paper",
            "distortion, ours",
            "proven bound",
        ),
        rows,
    )


def _dimensions_sheet(neighbourhoods: list[Neighbourhood]) -> Sheet:
    rows = [
        (case.epsilon, target, bound, own, spectral)
        for case in neighbourhoods
        for target, bound, own, spectral in zip(
            TARGETS, case.analytic, case.dictionary.fewest, case.spectral.fewest, strict=True
        )
    ]
    columns = ("epsilon", "distortion", "analytic bound", "ICPQR-DM", "minimal DM")
    return Sheet("dimensions", words.DIMENSIONS_TABLE, columns, rows)


def _spectra_sheet(neighbourhoods: list[Neighbourhood]) -> Sheet:
    rows = []
    for case in neighbourhoods:
        energy = figures.energy(case.spectrum)
        counts = [int(np.argmax(energy >= share)) + 1 for share in ENERGIES]
        rows.append((case.epsilon, *counts, case.median))
    shares = tuple(f"components for {share:.1%}" for share in ENERGIES)
    columns = ("epsilon", *shares, "median diffusion distance")
    return Sheet("spectra", words.SPECTRA_TABLE, columns, rows)


def _new_points_sheet(new: NewPoints) -> Sheet:
    rows = []
    for low, high in itertools.pairwise(BANDS):
        inside = (new.gap >= low) & (new.gap < high)
        name = f"{low:g} to {high:g}" if np.isfinite(high) else f"{low:g} and more"
        rows.append((name, *_judged(new, inside)))
    rows.append(("all", *_judged(new, np.ones(len(new.gap), dtype=bool))))
    columns = ("distance from the training points", "points", "normal", "share", "median rate")
    return Sheet("new-points", words.NEW_POINTS_TABLE, columns, rows)


def _judged(new: NewPoints, inside: Flags) -> tuple[int, int, str | None, float | None]:
    count, normal = int(inside.sum()), int(new.normal[inside].sum())
    if not count:
        return 0, 0, None, None
    return count, normal, f"{normal / count:.1%}", float(np.median(new.rates[inside]))
