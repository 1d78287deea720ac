"""Matrix approximation, corrected (errata 8): ||X - F Q||_F is exactly the root of the sum of
squared residuals, hence at most mu sqrt(n - s); the spectral norm is no larger."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from isopivot import ICPQR, icpqr
from strategies import problems
from tolerances import length_slack


def approximation_error(X, result):
    rows = X.astype(np.longdouble)
    if result.mean is not None:
        rows = rows - result.mean
    return rows - result.coordinates.astype(np.longdouble) @ result.basis.astype(np.longdouble)


def frobenius(E):
    return np.sqrt((E * E).sum())


def spectral(E):
    scale = np.abs(E).max(initial=0) or np.longdouble(1)
    return scale * np.linalg.norm((E / scale).astype(float), ord=2)


@given(problem=problems(), center=st.booleans())
def test_frobenius_error_is_the_root_of_summed_squared_residuals(problem, center):
    X, mu = problem
    result = icpqr(X, mu, center=center)
    expected = frobenius(result.residuals.astype(np.longdouble))
    slack = np.sqrt(len(X)) * length_slack(X)
    assert abs(frobenius(approximation_error(X, result)) - expected) <= slack


@given(problem=problems(), center=st.booleans())
def test_both_norms_are_at_most_mu_times_root_of_points_left_out(problem, center):
    X, mu = problem
    result = icpqr(X, mu, center=center)
    n, s = result.coordinates.shape
    E = approximation_error(X, result)
    slack = np.sqrt(n) * length_slack(X)
    assert spectral(E) <= frobenius(E) + slack
    assert frobenius(E) <= mu * np.sqrt(n - s) + slack


@given(problem=problems(min_rows=2))
def test_inverse_transform_errs_by_the_residual_of_each_row(problem):
    X, mu = problem
    model = ICPQR(mu=mu).fit(X)
    back = model.inverse_transform(model.embedding_).astype(np.longdouble)
    error = np.sqrt(((X.astype(np.longdouble) - back) ** 2).sum(axis=1))
    assert np.abs(error - model.residuals_).max() <= 2 * length_slack(X)
