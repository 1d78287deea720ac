"""Centring: for a fixed subspace a shift changes residuals and certificate, but no distance and no
distortion; before pivoting it changes the subspace, and pays when the data sit far from zero."""

import numpy as np
from hypothesis import given

from isopivot import ICPQR, actual_distortion, distance_bounds, icpqr
from reference import distances
from strategies import problems, seeds
from tolerances import largest_norm, length_slack


@given(problem=problems(), seed=seeds)
def test_shift_changes_no_embedded_distance_and_any_shift_certifies(problem, seed):
    X, mu = problem
    result = icpqr(X, mu)
    c = np.random.default_rng(seed).standard_normal(X.shape[1]) * largest_norm(X)
    rows, Q = X.astype(np.longdouble) - c, result.basis.astype(np.longdouble)
    moved, perp = rows @ Q.T, rows - rows @ Q.T @ Q
    r = np.sqrt((perp**2).sum(axis=1))
    slack = 2 * length_slack(X, rows)
    assert np.abs(distances(moved) - distances(result.coordinates)).max() <= slack
    lower, upper = distance_bounds(moved.astype(X.dtype), r.astype(X.dtype))
    assert (lower <= distances(X) + slack).all()
    assert (distances(X) <= upper + slack).all()


@given(problem=problems())
def test_centred_fit_ignores_where_the_origin_is(problem):
    X, mu = problem
    result = icpqr(X, mu, center=True)
    by_hand = X.astype(np.longdouble) - result.mean
    residual = by_hand - result.coordinates @ result.basis.astype(np.longdouble)
    norms = np.sqrt((residual**2).sum(axis=1))
    assert np.abs(result.residuals - norms).max() <= length_slack(X)
    mean = X.astype(np.longdouble).mean(axis=0)
    assert np.abs(result.mean - mean).max() <= length_slack(X)


def test_centring_saves_the_pivot_that_a_large_offset_costs():
    saved = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((200, 10)) * 0.7 ** np.arange(10) + 50
        sizes = [len(icpqr(X, 1.0, center=center).pivots) for center in (False, True)]
        saved.append(sizes[0] - sizes[1])
    assert min(saved) >= 0
    assert np.median(saved) == 1


def test_estimator_centres_by_default_and_says_where():
    X = np.random.default_rng(0).standard_normal((30, 4)) + 100
    model = ICPQR(mu="10%").fit(X)
    assert np.abs(model.mean_ - X.mean(axis=0)).max() <= length_slack(X)
    assert np.abs(model.embedding_.mean(axis=0)).max() <= length_slack(X)
    assert actual_distortion(X, model.embedding_) <= 2 * model.mu_ + 2 * length_slack(X)
