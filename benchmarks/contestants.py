"""Who takes part, and what each of them delivers.

Everybody gets the same C-ordered X and the same number of components s, and must deliver the
embedding of all rows: the product one has after `icpqr`, which PCA has after `fit_transform`.
`dgeqp3rk` and `qr` are timed without unpacking their result and without forming a basis: that is
in their favour.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import lapack


@dataclass(frozen=True)
class Outcome:
    """What a result is worth. Absent parts are None."""

    s: int
    embedding: np.ndarray | None = None
    residuals: np.ndarray | None = None
    pivots: np.ndarray | None = None
    bound: float | None = None
    passes: float | None = None


@dataclass(frozen=True)
class Contestant:
    """One row of the table.

    Attributes
    ----------
    name : str
    call : callable (argument, s) -> result
        What is timed.
    judge : callable (X, s, result) -> Outcome
    kept : callable (result) -> list of arrays
        What the caller wanted; not counted as extra memory.
    prepare : callable (X, s) -> argument
        Before each call, off the clock, but within the memory that is measured.
    dtype : str
        The dtype of X for this contestant.
    most_features : int or None
        Skipped where there are more: it makes a square matrix of that size.
    """

    name: str
    call: Callable[[Any, int], Any]
    judge: Callable[[np.ndarray, int, Any], Outcome]
    kept: Callable[[Any], list[np.ndarray]]
    prepare: Callable[[np.ndarray, int], Any] = lambda X, s: X
    dtype: str = "float64"
    most_features: int | None = None


# The floor: the one product that no method which delivers an embedding can do without.


def _with_random_basis(X, s):
    return X, np.random.default_rng(0).standard_normal((X.shape[1], s))


def _gemm_numpy(pair, s):
    X, Q = pair
    return X @ Q, Q


def _gemm_scipy(pair, s):
    from scipy.linalg.blas import dgemm

    X, Q = pair
    return dgemm(1.0, Q.T, X.T).T, Q  # both transposes are Fortran-ordered: no copies


def _judge_gemm(X, s, result):
    return Outcome(s)


# LAPACK


def _copy(X, s):
    return X.copy()


def _geqp3rk(vendor):
    return lambda X, s: lapack.geqp3rk(X, s, vendor=vendor)


def _geqp3rk_blocked(X, s):
    return lapack.geqp3rk_blocked(X, s)


def _judge_geqp3rk(X, s, qr):
    embedding, residuals = lapack.unpack(qr)
    return Outcome(qr.rank, embedding, residuals, qr.order[: qr.rank])


def _kept_geqp3rk(qr):
    return [qr.work[:, : qr.rank]]


def _full_qr(X, s):
    from scipy.linalg import qr

    R, order = qr(X.T, pivoting=True, mode="r")
    return R[:s], R[s:], order


def _judge_full_qr(X, s, result):
    head, tail, order = result
    embedding, residuals = np.empty((len(X), s)), np.empty(len(X))
    embedding[order], residuals[order] = head.T, np.linalg.norm(tail, axis=0)
    return Outcome(s, embedding, residuals, order[:s])


# scikit-learn


def _pca(solver):
    def call(X, s):
        from sklearn.decomposition import PCA

        model = PCA(s, svd_solver=solver, random_state=0)
        return model.fit_transform(X), model

    return call


def _incremental_pca(X, s):
    from sklearn.decomposition import IncrementalPCA

    model = IncrementalPCA(s).fit(X)
    return model.transform(X), model


def _judge_pca(X, s, result):
    embedding, model = result
    rest = X - embedding @ model.components_ - model.mean_
    return Outcome(embedding.shape[1], embedding, np.linalg.norm(rest, axis=1))


def _kept_pca(result):
    embedding, model = result
    return [embedding, model.components_]


# isopivot


def _icpqr(X, s):
    from isopivot import icpqr

    return icpqr(X, n_components=s)


def _judge_icpqr(X, s, result):
    return Outcome(
        result.coordinates.shape[1],
        result.coordinates,
        result.residuals,
        result.pivots,
        result.certificate.distortion_bound,
        result.certificate.passes,
    )


def _kept_icpqr(result):
    return [result.coordinates, result.basis, result.residuals, result.pivot_residuals]


def _estimator(X, s):
    from isopivot import ICPQR

    return ICPQR(mu=None, n_components=s).fit(X)


def _judge_estimator(X, s, model):
    certificate = model.certificate_
    # Centred, so its pivots are those of other vectors than LAPACK saw: not compared.
    return Outcome(
        model.n_components_,
        model.embedding_,
        model.residuals_,
        None,
        certificate.distortion_bound,
        certificate.passes,
    )


def _kept_estimator(model):
    return [
        model.embedding_,
        model.components_,
        model.residuals_,
        model.pivot_residuals_,
        model.dictionary_,
    ]


FLOOR = "GEMM X @ Q (NumPy)"
BASELINE = "dgeqp3rk (SciPy)"

CONTESTANTS = (
    Contestant(FLOOR, _gemm_numpy, _judge_gemm, list, _with_random_basis),
    Contestant("GEMM X @ Q (SciPy)", _gemm_scipy, _judge_gemm, list, _with_random_basis),
    Contestant(BASELINE, _geqp3rk("scipy"), _judge_geqp3rk, _kept_geqp3rk, _copy),
    Contestant("dgeqp3rk (NumPy)", _geqp3rk("numpy"), _judge_geqp3rk, _kept_geqp3rk, _copy),
    Contestant("dgeqp3rk, blocked", _geqp3rk_blocked, _judge_geqp3rk, _kept_geqp3rk, _copy),
    Contestant("isopivot icpqr", _icpqr, _judge_icpqr, _kept_icpqr),
    Contestant("isopivot ICPQR.fit, centred", _estimator, _judge_estimator, _kept_estimator),
    Contestant("isopivot icpqr, float32", _icpqr, _judge_icpqr, _kept_icpqr, dtype="float32"),
    Contestant("scipy qr, all columns", _full_qr, _judge_full_qr, lambda result: [result[0]]),
    Contestant("PCA full", _pca("full"), _judge_pca, _kept_pca),
    Contestant(
        *("PCA covariance_eigh", _pca("covariance_eigh"), _judge_pca, _kept_pca),
        most_features=10_000,
    ),
    Contestant("PCA randomized", _pca("randomized"), _judge_pca, _kept_pca),
    Contestant("IncrementalPCA", _incremental_pca, _judge_pca, _kept_pca),
)
