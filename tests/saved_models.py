"""Small fitted models of every estimator and route, with points to ask them about."""

import numpy as np
from scipy import sparse
from sklearn.base import clone

from isopivot import ICPQR, DiffusionICPQR, ICPQRClassifier, KernelICPQR

__all__ = ["MODELS", "fitted", "methods", "points"]


def points(n=40, m=6, seed=0):
    """Points near a subspace, so that dictionaries are small, and a few away from it."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3)) @ rng.standard_normal((3, m)) + 2.0
    return X + 0.05 * rng.standard_normal((n, m))


def wide(n=20, m=150, seed=3):
    """Sparse rows too wide for an explicit basis."""
    X = sparse.random(n, m, density=0.1, format="csr", random_state=np.random.default_rng(seed))
    return sparse.csr_array(X)


def gram(X, Y):
    """A precomputed kernel with a constant diagonal."""
    return np.exp(-((X[:, None, :] - Y[None, :, :]) ** 2).sum(axis=2) / 40.0)


LABELS = np.array(["ant", "bee", "cow"])[np.arange(40) % 3]

# name -> (estimator, what it is fitted on, what it is asked)
MODELS = {
    "linear": (ICPQR("10%"), points(), points(seed=1)),
    "linear-fortran": (ICPQR("10%"), np.asfortranarray(points()), points(seed=1)),
    "linear-float32-rotated": (
        ICPQR("10%", rotate=True, relaxation=0.5),
        points().astype(np.float32),
        points(seed=1).astype(np.float32),
    ),
    "linear-uncentred": (ICPQR(1.0, center=False, threshold=0.7), points(), points(seed=1)),
    "linear-sparse": (ICPQR("10%"), sparse.csr_matrix(points()), sparse.csr_matrix(points())),
    "linear-empty": (ICPQR("100%"), points(), points(seed=1)),
    "linear-huge": (ICPQR("10%"), points() * 1e300, points(seed=1) * 1e300),
    "linear-one-row": (ICPQR(), points(1), points(seed=1)),
    "wide": (ICPQR("30%", rotate=True), wide(), wide(seed=4)),
    "wide-float32": (ICPQR("60%", center=False), wide().astype(np.float32), wide(seed=4)),
    "wide-tiny": (ICPQR("60%"), wide() * 1e-290, wide(seed=4) * 1e-290),
    "rbf": (KernelICPQR(0.3), points(), points(seed=1)),
    "rbf-float32-rotated": (
        KernelICPQR(0.5, rotate=True),
        points().astype(np.float32),
        points(seed=1).astype(np.float32),
    ),
    "laplacian-sparse": (
        KernelICPQR(0.7, kernel="laplacian"),
        sparse.csr_matrix(points()),
        sparse.csr_matrix(points(seed=1)),
    ),
    "matern32": (KernelICPQR(0.4, kernel="matern32", epsilon=9), points(), points(seed=1)),
    "exponential": (KernelICPQR(None, 8, kernel="exponential"), points(), points(seed=1)),
    "cosine": (KernelICPQR("5%", kernel="cosine"), points(), points(seed=1)),
    "polynomial": (
        KernelICPQR("5%", kernel="polynomial", kernel_params={"degree": 2, "coef0": 0.5}),
        points(),
        points(seed=1),
    ),
    "kernel-linear-huge": (
        KernelICPQR("5%", kernel="linear"),
        points() * 1e200,
        points(seed=1) * 1e200,
    ),
    "precomputed": (
        KernelICPQR(0.3, kernel="precomputed"),
        gram(points(), points()),
        gram(points(seed=1), points()),
    ),
    "diffusion": (DiffusionICPQR("10%", t=2), points(), points(seed=1)),
    "diffusion-float32": (
        DiffusionICPQR("10%", alpha=0.5, rotate=True),
        points().astype(np.float32),
        points(seed=1).astype(np.float32),
    ),
    "diffusion-low-rank": (
        DiffusionICPQR("3%", method="low_rank", epsilon_scale=3.0, t=2, rotate=True),
        points(),
        points(seed=1),
    ),
    "diffusion-sparse": (
        DiffusionICPQR("10%", kernel="polynomial", kernel_params={"degree": 2}),
        sparse.csr_matrix(np.abs(points())),
        sparse.csr_matrix(np.abs(points(seed=1))),
    ),
    "diffusion-precomputed": (
        DiffusionICPQR("10%", kernel="precomputed"),
        gram(points(), points()),
        gram(points(seed=1), points()),
    ),
    "classifier": (ICPQRClassifier(random_state=0), points(), points(seed=1)),
    "classifier-rbf": (
        ICPQRClassifier(
            0.5,
            kernel="rbf",
            epsilon_scale=[0.5, 1.0],
            reject=True,
            reject_label="none",
            random_state=0,
        ),
        points(),
        points(seed=1),
    ),
}


def fitted(name):
    """The fitted model of that name, and its queries."""
    model, X, queries = MODELS[name]
    return clone(model).fit(X, LABELS[: X.shape[0]]), queries


def methods(model):
    """The methods that answer about points."""
    names = (
        "transform",
        "distortion_rate",
        "score_samples",
        "decision_function",
        "predict",
        "distance_bounds",
        "distortion_rates",
        "predict_proba",
    )
    return [name for name in names if hasattr(model, name)]
