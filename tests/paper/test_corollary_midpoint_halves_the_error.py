"""Minimax estimate: the middle of the distance interval errs by at most min(r_i, r_j) <= mu, half
of what the paper promises."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from isopivot import distance_bounds, icpqr
from reference import distances
from strategies import problems
from tolerances import length_slack


@given(problem=problems(), center=st.booleans())
def test_midpoint_errs_by_at_most_the_smaller_residual(problem, center):
    X, mu = problem
    result = icpqr(X, mu, center=center)
    r = result.residuals.astype(np.longdouble)
    lower, upper = distance_bounds(result.coordinates, result.residuals)
    middle = (lower.astype(np.longdouble) + upper) / 2
    off = ~np.eye(len(X), dtype=bool)
    error = np.abs(middle - distances(X))
    slack = 2 * length_slack(X)
    assert (error[off] <= np.minimum(r[:, None], r)[off] + slack).all()
    assert error[off].max(initial=0) <= mu + slack


@given(e=st.floats(0, 5), r_i=st.floats(0, 2), r_j=st.floats(0, 2))
def test_half_width_of_the_interval_is_at_most_the_smaller_residual(e, r_i, r_j):
    lower, upper = distance_bounds(np.array([[0.0], [e]]), np.array([r_i, r_j]))
    slack = length_slack(np.array([[e, r_i, r_j]]))
    assert (upper[0, 1] - lower[0, 1]) / 2 <= min(r_i, r_j) + slack


def test_no_estimate_from_the_same_numbers_can_do_better():
    # The same embedding and residuals, 3 and 1, fit points at distance 2 and at distance 4.
    near = np.array([[9.0, 0.0], [0.0, 3.0], [0.0, 1.0]])
    far = np.array([[9.0, 0.0], [0.0, 3.0], [0.0, -1.0]])
    for X in (near, far):
        result = icpqr(X, mu=3.0)
        lower, upper = distance_bounds(result.coordinates, result.residuals)
        middle = (lower[1, 2] + upper[1, 2]) / 2
        assert abs(middle - np.linalg.norm(X[1] - X[2])) == 1.0
