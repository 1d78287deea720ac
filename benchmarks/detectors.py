"""Novelty detectors under one roof, and the data they are compared on.

A `Detector` makes a fresh scorer for a seed; the scorer has `fit(X)` and `rates(X)`, larger meaning
less normal. Everybody runs with the defaults of its library: nothing is tuned, per set or at all.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.covariance import EmpiricalCovariance
from sklearn.decomposition import PCA
from sklearn.ensemble import IsolationForest
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import LocalOutlierFactor, NearestNeighbors
from sklearn.preprocessing import StandardScaler
from sklearn.svm import OneClassSVM

from isopivot import ICPQR, KernelICPQR

TRAIN_ROWS = 1_500
TEST_NORMAL_ROWS = 3_000
TEST_ANOMALY_ROWS = 1_500
ROUNDING = 1e-12  # residuals under this part of a row's norm are nothing
# What the grid found worth showing beside the default; the one that is the default is left out.
NAMED = (
    {"kernel": "rbf", "epsilon_scale": 0.5, "mu": 0.1},
    {"kernel": "rbf", "epsilon_scale": 0.25, "mu": 0.1},
    {"kernel": "rbf", "epsilon_scale": 0.25, "mu": 0.3},
    {"kernel": "exponential", "epsilon_scale": 2.0, "mu": 0.3},
    {"kernel": "laplacian", "epsilon_scale": 0.125, "mu": 0.5},
    {"kernel": "laplacian", "epsilon_scale": 2.0, "mu": 0.2},
    {"kernel": "laplacian", "epsilon_scale": 2.0, "mu": 0.3},
    {"kernel": "matern32", "epsilon_scale": 1.0, "mu": 0.05},
)


@dataclass(frozen=True)
class Split:
    """One set, cut by one seed: standardised training rows, test rows and their labels."""

    train: np.ndarray
    test: np.ndarray
    labels: np.ndarray  # 1 = anomaly


@dataclass(frozen=True)
class Detector:
    """A name, and how to make the thing for a seed."""

    name: str
    make: Callable[[int], Any]


# -- data -----------------------------------------------------------------------------------------


def data_folder() -> Path:
    """The ADBench sets; ends the program with a remedy when they are not there."""
    folder = Path(os.environ.get("ISOPIVOT_DATA", "")) / "adbench"
    if "ISOPIVOT_DATA" not in os.environ or not folder.is_dir():
        raise SystemExit(
            f"no sets in {folder}: set ISOPIVOT_DATA to a folder with adbench/*.npz (arrays X, y) "
            "from https://github.com/Minqi824/ADBench"
        )
    return folder


def set_names() -> list[str]:
    """The sets at hand, in ADBench's numbering."""
    names = [path.stem for path in data_folder().glob("*.npz")]
    return sorted(names, key=lambda name: int(name.partition("_")[0]))


def load(name: str) -> tuple[np.ndarray, np.ndarray]:
    """The normal rows and the anomalies of a set, as float64."""
    with np.load(data_folder() / f"{name}.npz", allow_pickle=False) as file:
        X, y = file["X"], file["y"].ravel()
    return X[y == 0].astype(np.float64), X[y == 1].astype(np.float64)


def split(normal: np.ndarray, anomalies: np.ndarray, seed: int) -> Split:
    """Train on half of the normal rows, test on the rest and the anomalies, all with caps."""
    rng = np.random.default_rng(seed)
    normal = normal[rng.permutation(len(normal))]
    anomalies = anomalies[rng.permutation(len(anomalies))][:TEST_ANOMALY_ROWS]
    half = len(normal) // 2
    fresh = normal[half : half + TEST_NORMAL_ROWS]
    scaler = StandardScaler().fit(normal[: min(half, TRAIN_ROWS)])
    return Split(
        train=scaler.transform(normal[: min(half, TRAIN_ROWS)]),
        test=scaler.transform(np.vstack([fresh, anomalies])),
        labels=np.r_[np.zeros(len(fresh), int), np.ones(len(anomalies), int)],
    )


# -- detectors ------------------------------------------------------------------------------------


class FromSklearn:
    """Anything with `score_samples`, larger meaning more normal."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def fit(self, X: np.ndarray) -> None:
        self.model.fit(X)

    def rates(self, X: np.ndarray) -> np.ndarray:
        return -self.model.score_samples(X)


class FromPyod(FromSklearn):
    """PyOD's `decision_function`: larger means less normal."""

    def rates(self, X: np.ndarray) -> np.ndarray:
        return self.model.decision_function(X)


class Neighbors(FromSklearn):
    """Mean distance to the k nearest training rows."""

    def rates(self, X: np.ndarray) -> np.ndarray:
        return self.model.kneighbors(X)[0].mean(axis=1)


class Mahalanobis(FromSklearn):
    """Distance in the metric of the covariance's pseudo-inverse, so that it may be singular."""

    def rates(self, X: np.ndarray) -> np.ndarray:
        return self.model.mahalanobis(X)


class Reconstruction(FromSklearn):
    """What the leading principal components leave out."""

    def rates(self, X: np.ndarray) -> np.ndarray:
        rest = X - self.model.inverse_transform(self.model.transform(X))
        return without_rounding(np.linalg.norm(rest, axis=1), X)


class Linear(FromSklearn):
    """ICPQR's distance from the span of its dictionary."""

    def rates(self, X: np.ndarray) -> np.ndarray:
        return without_rounding(self.model.distortion_rate(X), X)


def without_rounding(rates: np.ndarray, X: np.ndarray) -> np.ndarray:
    """Zero where a residual is rounding error.

    Where a span fills the space, every residual is about eps times the norm: ranking by it is
    ranking by the norm, and would credit a blind method with a detector that it is not.
    """
    return np.where(rates <= ROUNDING * np.linalg.norm(X, axis=1), 0.0, rates)


def default_name() -> str:
    """The default KernelICPQR, with what its defaults are in the installed version."""
    return f"KernelICPQR() = {kernel_name(default_settings())}"


def default_settings() -> dict[str, Any]:
    parameters = KernelICPQR().get_params()
    return {key: parameters[key] for key in ("kernel", "epsilon_scale", "mu")}


def kernel_name(settings: dict[str, Any]) -> str:
    return f"{settings['kernel']}, {settings['epsilon_scale']:g}, mu {settings['mu']:g}"


def detectors() -> Iterator[Detector]:
    """The default first, then its named alternatives, then everybody else."""
    yield Detector(default_name(), lambda _: FromSklearn(KernelICPQR()))
    for settings in NAMED:
        if settings != default_settings():
            yield Detector(
                f"KernelICPQR({kernel_name(settings)})",
                lambda _, settings=settings: FromSklearn(KernelICPQR(**settings)),
            )
    yield Detector("ICPQR()", lambda _: Linear(ICPQR()))
    yield from _sklearn_peers()
    yield from _pyod_peers()


def _sklearn_peers() -> Iterator[Detector]:
    yield Detector("1-NN distance", lambda _: Neighbors(NearestNeighbors(n_neighbors=1)))
    yield Detector("5-NN mean distance", lambda _: Neighbors(NearestNeighbors(n_neighbors=5)))
    yield Detector("LOF", lambda _: FromSklearn(LocalOutlierFactor(novelty=True)))
    yield Detector("Mahalanobis", lambda _: Mahalanobis(EmpiricalCovariance()))
    yield Detector("Gaussian mixture", lambda seed: FromSklearn(GaussianMixture(random_state=seed)))
    yield Detector("PCA residual, 95 %", lambda _: Reconstruction(PCA(n_components=0.95)))
    yield Detector("one-class SVM", lambda _: FromSklearn(OneClassSVM()))
    yield Detector("isolation forest", lambda seed: FromSklearn(IsolationForest(random_state=seed)))


def _pyod_peers() -> Iterator[Detector]:
    def make(module: str, name: str) -> FromPyod:
        from importlib import import_module

        return FromPyod(getattr(import_module(f"pyod.models.{module}"), name)())

    for name in ("ECOD", "COPOD", "HBOS", "KNN"):
        yield Detector(f"PyOD {name}", lambda _, name=name: make(name.lower(), name))
