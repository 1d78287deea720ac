"""Per-pair interval: sqrt(e^2 + (r_i - r_j)^2) <= d <= sqrt(e^2 + (r_i + r_j)^2), both attained.

It follows from d^2 = e^2 + ||p_i - p_j||^2 with p the residual vectors; the paper has only the sum.
"""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from isopivot import ICPQR, distance_bounds, icpqr
from reference import distances
from strategies import problems, seeds
from tolerances import largest_norm, length_slack


@given(problem=problems(), center=st.booleans())
def test_true_distances_lie_between_the_bounds(problem, center):
    X, mu = problem
    result = icpqr(X, mu, center=center)
    lower, upper = distance_bounds(result.coordinates, result.residuals)
    true, slack = distances(X), 2 * length_slack(X)
    assert lower.shape == upper.shape == true.shape
    assert (lower <= true + slack).all()
    assert (true <= upper + slack).all()


@given(problem=problems(min_rows=2), center=st.booleans(), seed=seeds)
def test_true_distances_of_new_points_lie_between_the_bounds(problem, center, seed):
    X, mu = problem
    Y = (np.random.default_rng(seed).standard_normal((6, X.shape[1])) * largest_norm(X)).astype(
        X.dtype
    )
    lower, upper = ICPQR(mu=mu, center=center).fit(X).distance_bounds(Y, X)
    true, slack = distances(Y, X), 2 * length_slack(X, Y)
    assert lower.shape == upper.shape == true.shape
    assert (lower <= true + slack).all()
    assert (true <= upper + slack).all()


@given(problem=problems(), center=st.booleans())
def test_squared_distance_splits_into_embedding_and_residual_vectors(problem, center):
    X, mu = problem
    result = icpqr(X, mu, center=center)
    rows = X.astype(np.longdouble) - (0 if result.mean is None else result.mean)
    Q = result.basis.astype(np.longdouble)
    perp = rows - rows @ Q.T @ Q
    split = np.hypot(distances(result.coordinates), distances(perp))
    assert np.abs(split - distances(X)).max() <= 2 * length_slack(X)


@given(e=st.floats(0, 5), r_i=st.floats(0, 2), r_j=st.floats(0, 2))
def test_collinear_residuals_attain_both_ends(e, r_i, r_j):
    F, r = np.array([[0.0], [e]]), np.array([r_i, r_j])
    lower, upper = distance_bounds(F, r)
    same_side, opposite = np.hypot(e, r_i - r_j), np.hypot(e, r_i + r_j)
    slack = length_slack(np.array([[e, r_i, r_j]]))
    assert abs(lower[0, 1] - same_side) <= slack
    assert abs(upper[0, 1] - opposite) <= slack
    assert lower[0, 1] == lower[1, 0]
    assert upper[0, 1] == upper[1, 0]


def test_rectangular_bounds_pair_each_row_of_one_set_with_each_of_the_other():
    F, r = np.array([[0.0], [3.0]]), np.array([0.0, 4.0])
    G, q = np.array([[0.0], [3.0], [6.0]]), np.array([4.0, 0.0, 4.0])
    lower, upper = distance_bounds(F, r, G, q)
    assert np.allclose(lower, [[4, 3, np.sqrt(52)], [3, 4, 3]], rtol=1e-15)
    assert np.allclose(upper, [[4, 3, np.sqrt(52)], [np.sqrt(73), 4, np.sqrt(73)]], rtol=1e-15)
