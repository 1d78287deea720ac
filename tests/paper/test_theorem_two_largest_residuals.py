"""Overall bound: the distortion is at most the sum of the two largest residuals, which is at most
2 mu_strict and 2 mu; and 2 mu cannot be improved, greedy pivoting included."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isopivot import actual_distortion, icpqr
from reference import max_distortion
from strategies import problems
from tolerances import length_slack


@given(problem=problems(min_rows=2), center=st.booleans())
def test_distortion_is_at_most_the_sum_of_the_two_largest_residuals(problem, center):
    X, mu = problem
    result = icpqr(X, mu, center=center)
    two_largest = np.sort(result.residuals.astype(np.longdouble))[-2:].sum()
    assert max_distortion(X, result.coordinates) <= two_largest + 2 * length_slack(X)


@given(problem=problems(min_rows=2), center=st.booleans())
def test_certificate_reports_the_two_largest_residuals_plus_rounding(problem, center):
    X, mu = problem
    result = icpqr(X, mu, center=center)
    certificate = result.certificate
    two_largest = np.sort(result.residuals.astype(np.longdouble))[-2:].sum()
    expected = two_largest + 2 * certificate.accuracy_floor
    assert certificate.distortion_bound == pytest.approx(float(expected), rel=1e-6)
    assert 0 <= certificate.accuracy_floor <= length_slack(X)
    assert certificate.distortion_bound <= 2 * max(mu, certificate.mu_strict) + 2 * length_slack(X)


@pytest.mark.parametrize("mu", [1.0, 0.3, 2.9])
@pytest.mark.parametrize("scale", [1e-150, 1.0, 1e150])
def test_2mu_is_attained_by_one_long_and_two_opposite_points(mu, scale):
    X = scale * np.array([[3.0, 0.0], [0.0, mu], [0.0, -mu]])
    mu = X[1, 1]
    result = icpqr(X, mu)
    assert result.pivots.tolist() == [0]
    assert actual_distortion(X, result.coordinates) == pytest.approx(2 * mu, rel=1e-15)


def test_an_extra_pivot_does_not_loosen_the_bound():
    X = np.array([[3.0, 0, 0], [0, 1, 0], [0, -1, 0], [0, 0, 1], [0, 0, -1]])
    result = icpqr(X, n_components=2)
    assert result.pivots.tolist() == [0, 1]
    assert actual_distortion(X, result.coordinates) == 2.0
