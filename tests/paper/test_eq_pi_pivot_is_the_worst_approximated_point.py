"""Eq. pi: each pivot is the point farthest from the span of the earlier ones; ties go low.

Algorithms 1 and 2 are this rule plus a stop; the library takes the same pivots in panels.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import qr

from isopivot import icpqr
from reference import TIE_WINDOW, entry_residuals, greedy
from strategies import problems, seeds
from tolerances import eps_of, length_slack


@given(problem=problems(), center=st.booleans())
def test_no_point_was_farther_than_the_pivot_taken(problem, center):
    X, mu = problem
    result = icpqr(X, mu, center=center)
    before = entry_residuals(X, result.pivots, result.mean)
    for k, pivot in enumerate(result.pivots):
        window = TIE_WINDOW * eps_of(X) * before[k].max()
        assert before[k, pivot] >= before[k].max() - window - 2 * length_slack(X)


@given(seed=seeds, n=st.integers(1, 60), m=st.integers(1, 40), fraction=st.floats(0.01, 0.99))
def test_pivots_equal_those_of_plain_greedy(seed, n, m, fraction):
    X = np.random.default_rng(seed).standard_normal((n, m))
    mu = fraction * np.linalg.norm(X, axis=1).max()
    expected, result = greedy(X, mu), icpqr(X, mu)
    assert result.pivots.tolist() == expected.pivots.tolist()
    assert np.abs(result.residuals - expected.residuals).max() <= 2 * length_slack(X)
    entered = np.abs(result.pivot_residuals - expected.pivot_residuals)
    assert entered.max(initial=0) <= 2 * length_slack(X)


@pytest.mark.parametrize("shape", [(40, 25), (25, 40), (700, 30), (600, 600)])
def test_full_pivot_order_equals_lapack(shape):
    X = np.random.default_rng(7).standard_normal(shape)
    expected = qr(X.T, mode="r", pivoting=True)[1][: min(shape)]
    assert icpqr(X, 0.0).pivots.tolist() == expected.tolist()


@given(n=st.integers(2, 20), m=st.integers(2, 12), seed=seeds)
def test_exact_ties_go_to_the_lowest_index(n, m, seed):
    hot = np.random.default_rng(seed).integers(m, size=n)
    first_seen = [int(np.flatnonzero(hot == c)[0]) for c in range(m) if (hot == c).any()]
    assert icpqr(np.eye(m)[hot], 0.5).pivots.tolist() == sorted(first_seen)


def test_near_tie_within_the_window_goes_to_the_lowest_index():
    eps = np.finfo(float).eps
    X = np.diag([1.0, 1 + 8 * eps, 1 + 16 * eps])
    assert icpqr(X, 0.5).pivots.tolist() == [0, 1, 2]


def test_difference_beyond_the_window_decides():
    X = np.diag([1.0, 1 + 1e-12, 1 + 2e-12])
    assert icpqr(X, 0.5).pivots.tolist() == [2, 1, 0]
