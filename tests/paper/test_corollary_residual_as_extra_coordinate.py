"""Free improvement: with the residual norm appended as a coordinate, every distance to a pivot is
exact, no distance grows, and the distortion is at most twice the second largest residual."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from isopivot import distance_bounds, icpqr
from reference import distances
from strategies import problems
from tolerances import length_slack


def extended(result):
    return np.column_stack([result.coordinates, result.residuals])


@given(problem=problems(), center=st.booleans())
def test_extra_coordinate_realises_the_lower_bound(problem, center):
    X, mu = problem
    result = icpqr(X, mu, center=center)
    lower, _ = distance_bounds(result.coordinates, result.residuals)
    assert np.abs(distances(extended(result)) - lower).max() <= length_slack(X)


@given(problem=problems(), center=st.booleans())
def test_distances_to_pivots_become_exact(problem, center):
    X, mu = problem
    result = icpqr(X, mu, center=center)
    change = np.abs(distances(X) - distances(extended(result)))[result.pivots]
    assert change.max(initial=0) <= 2 * length_slack(X)


@given(problem=problems(min_rows=2), center=st.booleans())
def test_distortion_is_at_most_twice_the_smaller_residual(problem, center):
    X, mu = problem
    result = icpqr(X, mu, center=center)
    r = result.residuals.astype(np.longdouble)
    change = distances(X) - distances(extended(result))
    slack = 2 * length_slack(X)
    assert (change >= -slack).all()
    assert (change <= 2 * np.minimum(r[:, None], r) + slack).all()
    assert change.max() <= 2 * np.sort(r)[-2] + slack
