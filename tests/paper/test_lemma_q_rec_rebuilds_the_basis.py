"""Lemma 2.2: Q_k = (a_pi(k) - sum_{i<k} R_ik Q_i) / R_kk; and Eqs. W_i and O: Q is orthonormal."""

import numpy as np
from hypothesis import given

from isopivot import icpqr
from strategies import problems
from tolerances import eps_of, length_slack


@given(problem=problems())
def test_recursion_gives_each_basis_row_from_the_earlier_ones(problem):
    X, mu = problem
    result = icpqr(X, mu)
    Q, T = result.basis.astype(np.longdouble), result.coordinates[result.pivots]
    for k, pivot in enumerate(result.pivots):
        # Multiplied by R_kk: the division would only magnify the rounding of the left side.
        remainder = X[pivot] - T[k, :k] @ Q[:k]
        gap = remainder - result.pivot_residuals[k] * Q[k]
        assert np.sqrt(gap @ gap) <= length_slack(X)


@given(problem=problems())
def test_basis_rows_are_orthonormal(problem):
    X, mu = problem
    result = icpqr(X, mu)
    s = len(result.pivots)
    assert result.basis.shape == (s, X.shape[1])
    gram = result.basis.astype(np.longdouble) @ result.basis.T.astype(np.longdouble)
    assert np.abs(gram - np.eye(s)).max(initial=0) <= (10 + X.shape[1]) * eps_of(X)


@given(problem=problems())
def test_basis_spans_the_dictionary(problem):
    X, mu = problem
    result = icpqr(X, mu)
    Q, dictionary = result.basis.astype(np.longdouble), X[result.pivots].astype(np.longdouble)
    outside = dictionary - dictionary @ Q.T @ Q
    assert np.sqrt((outside**2).sum(axis=1)).max(initial=0) <= length_slack(X)
