"""Definitions of kappa-normality, normality and strict normality, and Eq. dist_func.

Every training point is normal and strictly normal, in a batch and alone, in floating point too.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from isopivot import ICPQR
from strategies import problems, seeds
from tolerances import largest_norm, length_slack


@given(
    problem=problems(),
    center=st.booleans(),
    rotate=st.booleans(),
    threshold=st.sampled_from(["mu", "strict"]),
)
def test_every_training_row_is_normal_in_a_batch_and_alone(problem, center, rotate, threshold):
    X, mu = problem
    model = ICPQR(mu=mu, center=center, rotate=rotate, threshold=threshold).fit(X)
    assert (model.predict(X) == 1).all()
    assert all(model.predict(row[None])[0] == 1 for row in X)


@given(
    problem=problems(dtypes=(np.float64,)),
    center=st.booleans(),
    threshold=st.sampled_from(["mu", "strict"]),
)
def test_every_sparse_training_row_is_normal_in_a_batch_and_alone(problem, center, threshold):
    X, mu = problem
    model = ICPQR(mu=mu, center=center, threshold=threshold).fit(csr_array(X))
    assert (model.predict(csr_array(X)) == 1).all()
    assert all(model.predict(csr_array(row[None]))[0] == 1 for row in X)


@given(problem=problems(), center=st.booleans())
def test_mu_strict_is_the_largest_training_rate_and_at_most_mu(problem, center):
    X, mu = problem
    model = ICPQR(mu=mu, center=center).fit(X)
    assert model.mu_strict_ == model.residuals_.max()
    assert model.mu_strict_ <= max(mu, model.certificate_.accuracy_floor)
    assert abs(model.distortion_rate(X).max() - model.mu_strict_) <= length_slack(X)


@given(problem=problems(min_rows=2), center=st.booleans(), seed=seeds)
def test_strictly_normal_points_are_normal(problem, center, seed):
    X, mu = problem
    Y = (np.random.default_rng(seed).standard_normal((9, X.shape[1])) * largest_norm(X)).astype(
        X.dtype
    )
    normal = ICPQR(mu=mu, center=center, threshold="mu").fit(X).predict(Y) == 1
    strict = ICPQR(mu=mu, center=center, threshold="strict").fit(X).predict(Y) == 1
    assert (normal | ~strict).all()


@given(problem=problems(), center=st.booleans(), seed=seeds)
def test_squared_rate_is_what_the_embedding_leaves_of_the_squared_norm(problem, center, seed):
    X, mu = problem
    model = ICPQR(mu=mu, center=center).fit(X)
    Y = (np.random.default_rng(seed).standard_normal((5, X.shape[1])) * largest_norm(X)).astype(
        X.dtype
    )
    centred = Y.astype(np.longdouble) - (model.mean_ if center else 0)
    whole = np.sqrt((centred**2).sum(axis=1))
    parts = np.hypot(
        np.sqrt((model.transform(Y).astype(np.longdouble) ** 2).sum(axis=1)),
        model.distortion_rate(Y).astype(np.longdouble),
    )
    assert np.abs(whole - parts).max() <= 2 * length_slack(X, Y)


@given(problem=problems(), seed=seeds)
def test_prediction_is_the_rate_against_the_threshold(problem, seed):
    X, mu = problem
    model = ICPQR(mu=mu).fit(X)
    Y = (np.random.default_rng(seed).standard_normal((9, X.shape[1])) * largest_norm(X)).astype(
        X.dtype
    )
    abnormal = model.distortion_rate(Y) > model.threshold_
    assert ((model.predict(Y) == -1) == abnormal).all()
    assert ((model.decision_function(Y) < 0) == abnormal).all()


@pytest.mark.parametrize(("kappa", "verdicts"), [(0.5, [1, -1, -1]), (1.5, [1, 1, -1])])
def test_kappa_normality_uses_the_number_given(kappa, verdicts):
    X = np.diag([5.0, 0.25, 0.25])
    model = ICPQR(mu=0.25, center=False, threshold=kappa).fit(X)
    queries = np.array([[9.0, 0.25, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 2.0]])
    assert model.distortion_rate(queries).tolist() == [0.25, 1.0, 2.0]
    assert model.predict(queries).tolist() == verdicts
