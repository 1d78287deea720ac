"""Errata 16: points far from all training points are abnormal, also beside an isolated one."""

import numpy as np
import pytest

from isopivot import DiffusionICPQR
from reference_diffusion import FORMULAS

RNG = np.random.default_rng(0)
CLOUD = RNG.uniform(-1, 1, (300, 3))
ISOLATED = np.array([[40.0, 40.0, 40.0]])
EPSILON = 0.3
METHODS = ["dense", "low_rank"]


def far_from(X, candidates):
    """Those further than five length scales from every training point: k < exp(-25)."""
    d = np.linalg.norm(candidates[:, None, :] - X[None, :, :], axis=2).min(axis=1)
    return candidates[d > 5 * np.sqrt(EPSILON)]


@pytest.mark.parametrize("t", [1, 4])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("isolated", [False, True])
def test_far_points_in_a_box_around_the_data_are_abnormal(isolated, method, t):
    X = np.vstack([CLOUD, ISOLATED]) if isolated else CLOUD
    model = DiffusionICPQR("10%", epsilon=EPSILON, t=t, method=method).fit(X)
    box = RNG.uniform(X.min() - 10, X.max() + 10, (3000, 3))
    far = far_from(X, box)
    assert len(far) > 1500
    assert (model.predict(far) == -1).all()
    assert (model.predict(X) == 1).all()


@pytest.mark.parametrize("method", METHODS)
def test_points_beside_an_isolated_training_point_are_abnormal(method):
    X = np.vstack([CLOUD, ISOLATED])
    model = DiffusionICPQR("10%", epsilon=EPSILON, method=method).fit(X)
    assert len(X) - 1 in model.dictionary_indices_
    directions = RNG.standard_normal((200, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    for radius in (5 * np.sqrt(EPSILON), 20.0, 277.0, 1e6, 1e100):
        assert (model.predict(ISOLATED + radius * directions) == -1).all()
    assert model.predict(ISOLATED)[0] == 1


@pytest.mark.parametrize("method", METHODS)
def test_rates_of_far_points_are_finite_above_all_others_and_ordered_by_remoteness(method):
    model = DiffusionICPQR("10%", epsilon=EPSILON, method=method).fit(CLOUD)
    steps = np.array([5.0, 10.0, 47.0, 48.0, 1e3, 1e6, 1e100, 1e160])
    rates = model.distortion_rate(steps[:, None] * np.ones(3))
    assert np.isfinite(rates).all()
    assert (np.diff(rates[:-1]) > 0).all()
    assert rates[-1] >= rates[-2]
    assert rates.min() > model.distortion_rate(CLOUD).max()
    d = FORMULAS["rbf"](CLOUD, CLOUD, EPSILON).sum(axis=1)
    # ||z|| <= (vol / min d)^1/2 for every point, seen or new
    assert rates.min() >= np.sqrt(d.sum() / d.min()) * (1 - 1e-9)


@pytest.mark.parametrize("method", METHODS)
def test_about_the_quantile_of_fresh_normal_points_is_called_far(method):
    fresh = np.random.default_rng(5).uniform(-1, 1, (4000, 3))
    model = DiffusionICPQR("10%", epsilon=EPSILON, method=method, threshold=1e300).fit(CLOUD)
    ceiling = model._walk.gate.ceiling
    share = (model.distortion_rate(fresh) > ceiling).mean()
    # The quantile of 300 degrees is that of the law up to three standard errors.
    assert share <= 0.01 + 3 * np.sqrt(0.01 * 0.99 / 300)


@pytest.mark.parametrize("method", METHODS)
def test_far_points_are_abnormal_when_more_than_the_quantile_is_isolated(method):
    """Six of 306 points have no neighbour at all: their leave-one-out degree underflows to 0."""
    lonely = 1e3 * np.arange(1, 7)[:, None] * np.ones(3)
    X = np.vstack([CLOUD, lonely])
    model = DiffusionICPQR("10%", epsilon=EPSILON, method=method).fit(X)
    assert (model.predict(X) == 1).all()
    queries = np.vstack([lonely + 100.0, [[1e4, 0.0, 0.0], [20.0, 20.0, 20.0]]])
    assert (model.predict(queries) == -1).all()
