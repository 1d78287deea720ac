"""Algorithms 4 and 5 equal their literal, slow form; the extension is consistent in-sample."""

import numpy as np
import pytest
from sklearn.datasets import make_swiss_roll

from isopivot import DiffusionICPQR
from reference_diffusion import FORMULAS, algorithm_4, algorithm_5, geometry
from tolerances import length_slack

POINTS = make_swiss_roll(140, random_state=1)[0]
X, NEW = POINTS[:100], POINTS[100:]
EPSILON = 30.0
K, K_NEW = FORMULAS["rbf"](X, X, EPSILON), FORMULAS["rbf"](NEW, X, EPSILON)


def slack(t):
    """Rounding of a row of Z, carried through t products with K."""
    return 4 * t * length_slack(geometry(K, t))


@pytest.mark.parametrize("mu", [0.05, 0.5, 2.0])
@pytest.mark.parametrize("t", [1, 2, 5])
def test_algorithm_4_is_the_literal_one(t, mu):
    model = DiffusionICPQR(mu, epsilon=EPSILON, t=t, method="dense").fit(X)
    literal = algorithm_4(K, t, mu)
    np.testing.assert_array_equal(model.dictionary_indices_, literal.pivots)
    np.testing.assert_allclose(model.residuals_, literal.residuals, atol=slack(t))
    # A basis vector carries the rounding of Z over the residual that it came from.
    worst = slack(t) * np.linalg.norm(geometry(K, t), axis=1).max() / mu
    np.testing.assert_allclose(model.embedding_, literal.h, atol=worst)
    np.testing.assert_array_equal(model.dictionary_, X[literal.pivots])


@pytest.mark.parametrize("mu", [0.05, 0.5])
@pytest.mark.parametrize("t", [1, 2, 5])
def test_algorithm_5_is_the_literal_one(t, mu):
    model = DiffusionICPQR(mu, epsilon=EPSILON, t=t, method="dense", far_quantile=0.0).fit(X)
    h, rates = algorithm_5(algorithm_4(K, t, mu), K_NEW, K, t)
    worst = slack(t) * np.linalg.norm(geometry(K, t), axis=1).max() / mu
    np.testing.assert_allclose(model.transform(NEW), h, atol=worst)
    # The gate replaces rates of far points alone: those with a smaller sum than any training row.
    near = K_NEW.sum(axis=1) >= (K.sum(axis=1) - 1).min()
    assert near.sum() > 20
    np.testing.assert_allclose(model.distortion_rate(NEW)[near], rates[near], atol=worst)


@pytest.mark.parametrize("method", ["dense", "low_rank"])
@pytest.mark.parametrize("alpha", [0.0, 1.0])
@pytest.mark.parametrize("t", [1, 2, 4, 8])
def test_a_training_point_that_comes_as_a_new_one_is_where_it_was(t, alpha, method):
    model = DiffusionICPQR("10%", epsilon=EPSILON, t=t, alpha=alpha, method=method).fit(X)
    Z = geometry(K, t)
    exact = method == "dense"
    # Nystrom coordinates of the low-rank route carry roundings of the kernel over its pivots.
    atol = (
        10 * slack(t) if exact else np.sqrt(np.finfo(float).eps) * np.linalg.norm(Z, axis=1).max()
    )
    np.testing.assert_allclose(model.transform(X), model.embedding_, atol=atol)
    rates = model.distortion_rate(X)
    error = 0.0 if exact else model.certificate_.route_error
    assert np.abs(rates - model.residuals_).max() <= atol + error
    assert (model.predict(X) == 1).all()
