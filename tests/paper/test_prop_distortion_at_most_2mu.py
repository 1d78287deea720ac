"""Proposition 2.3, the promise: no pairwise distance changes by more than 2 mu.

The certificate's own bound holds without any slack of ours: it must contain its own rounding.
"""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from isopivot import ICPQR, AccuracyError, actual_distortion, icpqr
from reference import distances, max_distortion, project
from strategies import point_sets, problems
from tolerances import length_slack, q_less_slack


@given(problem=problems(), center=st.booleans())
def test_no_distance_changes_by_more_than_2mu(problem, center):
    X, mu = problem
    result = icpqr(X, mu, center=center)
    assert max_distortion(X, result.coordinates) <= 2 * mu + 2 * length_slack(X)


@given(problem=problems(), center=st.booleans())
def test_certificate_bounds_the_true_distortion_without_slack(problem, center):
    X, mu = problem
    result = icpqr(X, mu, center=center)
    assert max_distortion(X, result.coordinates) <= result.certificate.distortion_bound


@given(problem=problems(), center=st.booleans(), relaxation=st.sampled_from([1.0, 0.7, 0.1]))
def test_every_residual_is_at_most_mu_and_true(problem, center, relaxation):
    X, mu = problem
    result = icpqr(X, mu, center=center, relaxation=relaxation)
    true = project(X, result.pivots, result.mean)[2]
    assert np.abs(result.residuals - true).max() <= length_slack(X)
    assert result.residuals.max() <= max(mu, result.certificate.accuracy_floor)


@given(problem=problems(dtypes=(np.float64,)), center=st.booleans())
def test_sparse_rows_keep_the_promise(problem, center):
    X, mu = problem
    result = icpqr(csr_array(X), mu, center=center)
    slack = length_slack(X) if result.certificate.route == "orthonormal" else q_less_slack(X)
    assert max_distortion(X, result.coordinates) <= 2 * mu + 2 * slack
    assert max_distortion(X, result.coordinates) <= result.certificate.distortion_bound


@pytest.mark.parametrize("as_input", [np.asarray, csr_array])
def test_point_exactly_at_mu_keeps_its_residual(as_input):
    for seed in range(100):
        X = np.random.default_rng(seed).standard_normal((3, 12))
        X[1] = -0.97 * X[0]
        norms = np.linalg.norm(X, axis=1)
        result = icpqr(as_input(X), norms.max())
        if len(result.pivots) == 0:
            assert np.abs(result.residuals - norms).max() <= q_less_slack(X)
        assert max_distortion(X, result.coordinates) <= result.certificate.distortion_bound


@given(X=point_sets(), center=st.booleans())
def test_mu_zero_keeps_every_distance_to_rounding(X, center):
    result = icpqr(X, 0.0, center=center)
    assert len(result.pivots) <= min(X.shape)
    assert max_distortion(X, result.coordinates) <= 2 * length_slack(X)


@given(problem=problems(min_rows=2), center=st.booleans())
def test_distances_inside_the_dictionary_are_exact(problem, center):
    X, mu = problem
    result = icpqr(X, mu, center=center)
    dictionary, images = X[result.pivots], result.coordinates[result.pivots]
    change = np.abs(distances(dictionary) - distances(images))
    assert change.max(initial=0) <= 2 * length_slack(X)


@given(X=point_sets(min_rows=2), percent=st.sampled_from([0.5, 5, 50, 100]))
def test_estimator_with_percent_mu_keeps_its_certificate(X, percent):
    try:
        model = ICPQR(mu=f"{percent}%").fit(X)
    except AccuracyError as error:  # rows far from the origin and close together
        centred = np.linalg.norm(X.astype(float) - X.mean(axis=0, dtype=float), axis=1).max()
        floor = float(re.search(r"certify here \((.*?)\)", str(error))[1])
        assert percent / 100 * centred < 1.01 * floor
        return
    assert actual_distortion(X, model.embedding_) <= 2 * model.mu_ + 2 * length_slack(X)
    assert max_distortion(X, model.embedding_) <= model.certificate_.distortion_bound


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("X", [np.zeros((4, 3)), np.ones((1, 1)), np.full((5, 1), 7.0)])
def test_points_within_mu_of_the_origin_need_no_pivot(X, dtype):
    X = X.astype(dtype)
    result = icpqr(X, mu=7.0)
    assert result.pivots.shape == (0,)
    assert result.coordinates.shape == (len(X), 0)
    assert result.certificate.stopped_by == "mu"
    assert result.certificate.mu_strict == X.max()
