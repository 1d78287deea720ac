"""The certificate is true in floating point, or AccuracyError was raised.

Everything is recomputed in longdouble, from the pivots and the coordinates alone.
"""

import numpy as np
import pytest

from isopivot import ICPQR, AccuracyError, icpqr
from reference import max_distortion, project
from tolerances import largest_norm


def geometric(rate):
    def build(rng, n=60, m=40):
        U = np.linalg.qr(rng.standard_normal((n, m)))[0]
        V = np.linalg.qr(rng.standard_normal((m, m)))[0]
        return (U * rate ** np.arange(m)) @ V

    return build


def vandermonde(rng, n=60, m=40):
    return np.vander(np.linspace(0.0, 1.0, n), m)


def hilbert(rng, n=60, m=40):
    return 1.0 / (1.0 + np.arange(n)[:, None] + np.arange(m)[None, :])


def kahan(rng, m=40, angle=1.2):
    c, s = np.cos(angle), np.sin(angle)
    return (np.diag(s ** np.arange(m)) @ (np.eye(m) - c * np.triu(np.ones((m, m)), 1))).T


def offset(rng, n=60, m=40):
    return rng.standard_normal((n, m)) + 1e6


def low_rank(rng, n=60, m=40):
    return rng.standard_normal((n, 5)) @ rng.standard_normal((5, m))


MATRICES = {
    "geometric 0.9": geometric(0.9),
    "geometric 0.5": geometric(0.5),
    "vandermonde": vandermonde,
    "hilbert": hilbert,
    "kahan": kahan,
    "offset": offset,
    "low rank": low_rank,
}
GRID = [
    *((np.float64, scale, k) for scale in (1.0, 1e160, 1e-160) for k in range(2, 14)),
    *((np.float32, scale, k) for scale in (1.0, 1e30, 1e-30) for k in range(2, 6)),
]


@pytest.mark.parametrize("center", [False, True], ids=["origin", "centred"])
@pytest.mark.parametrize("name", MATRICES)
def test_certificate_is_true_or_refused_at_every_mu_and_scale(name, center):
    base = MATRICES[name](np.random.default_rng(0))
    certified = 0
    for dtype, scale, k in GRID:
        X = (base * scale).astype(dtype)
        mu = 10.0**-k * largest_norm(X)
        try:
            result = icpqr(X, mu, center=center)
        except AccuracyError:
            continue
        certified += 1
        certificate = result.certificate
        _, _, residuals = project(X, result.pivots, result.mean)
        assert certificate.certified
        assert certificate.mu_strict <= mu
        assert residuals.max() <= mu + certificate.accuracy_floor
        assert np.abs(residuals - result.residuals).max() <= certificate.accuracy_floor
        assert max_distortion(X, result.coordinates) <= certificate.distortion_bound
        assert certificate.distortion_bound <= 2 * (mu + certificate.accuracy_floor)
    # The refusals must not be the rule: 1e-13 is 450 eps, and offsets cost their own size.
    assert certified >= len(GRID) // 3


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", MATRICES)
def test_basis_is_orthonormal(name, dtype):
    X = MATRICES[name](np.random.default_rng(1)).astype(dtype)
    Q = icpqr(X, 0.0).basis.astype(np.longdouble)
    s = len(Q)
    defect = np.sqrt(((Q @ Q.T - np.eye(s)) ** 2).sum())
    assert defect <= 45 * np.finfo(dtype).eps * np.sqrt(s)


@pytest.mark.parametrize("threshold", ["mu", "strict"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", MATRICES)
def test_training_rows_are_normal_in_a_batch_and_alone(name, dtype, threshold):
    X = MATRICES[name](np.random.default_rng(2)).astype(dtype)
    for k in (1, 3, 5, 9, 12):
        try:
            model = ICPQR(10.0**-k * largest_norm(X), threshold=threshold).fit(X)
        except AccuracyError:
            continue
        assert (model.predict(X) == 1).all()
        assert all(model.predict(X[i : i + 1])[0] == 1 for i in range(len(X)))


def test_error_below_the_floor_says_got_floor_and_remedy():
    X = np.random.default_rng(0).standard_normal((30, 10)).astype(np.float32)
    with pytest.raises(
        AccuracyError, match=r"mu=1e-09 is below what float32 can certify here .*float64 input"
    ):
        icpqr(X, 1e-9)
    with pytest.raises(AccuracyError, match=r"float64 can certify here .*or mu=0"):
        icpqr(X.astype(np.float64), 1e-16)


def test_mu_zero_goes_down_to_the_floor():
    X = low_rank(np.random.default_rng(3))
    certificate = icpqr(X, 0.0).certificate
    assert certificate.n_components == 5
    assert certificate.stopped_by == "rank"
    assert certificate.certified
    assert certificate.mu_strict <= certificate.accuracy_floor


def test_downdated_residuals_of_large_problems_stay_within_their_slack(monkeypatch):
    """With the free explicit pass switched off, as it is for large data."""
    monkeypatch.setattr("isopivot._factors.FREE_WORK", 0)
    X = geometric(0.9)(np.random.default_rng(4), n=400, m=80)
    M, eps = largest_norm(X), np.finfo(float).eps
    for k in (1, 2, 3, 5, 8):
        result = icpqr(X, 10.0**-k * M)
        _, _, truth = project(X, result.pivots)
        norms = np.linalg.norm(X, axis=1)
        error = np.abs(result.residuals - truth).astype(float)
        allowed = result.certificate.accuracy_floor + np.minimum(
            8 * eps * norms * M / np.maximum(result.residuals, eps * M), np.sqrt(8 * eps) * norms
        )
        assert (error <= allowed).all()
        top = np.argsort(truth)[-2:]
        assert (error[top] <= result.certificate.accuracy_floor).all()
        assert max_distortion(X, result.coordinates) <= result.certificate.distortion_bound
