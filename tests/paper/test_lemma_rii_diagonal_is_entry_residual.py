"""Lemma 2.1: R_kk is the residual at which pivot k entered, and R is upper trapezoidal."""

import numpy as np
from hypothesis import given

from isopivot import icpqr
from reference import entry_residuals
from strategies import problems
from tolerances import length_slack


@given(problem=problems())
def test_diagonal_equals_the_residual_just_before_entry(problem):
    X, mu = problem
    result = icpqr(X, mu)
    before = entry_residuals(X, result.pivots)
    for k, pivot in enumerate(result.pivots):
        assert abs(result.pivot_residuals[k] - before[k, pivot]) <= length_slack(X)
        assert abs(result.coordinates[pivot, k] - before[k, pivot]) <= length_slack(X)


@given(problem=problems())
def test_diagonal_is_positive_and_non_increasing(problem):
    X, mu = problem
    entered = icpqr(X, mu).pivot_residuals
    assert (entered > 0).all()
    assert (entered >= mu - length_slack(X)).all()
    assert (np.diff(entered) <= length_slack(X)).all()


@given(problem=problems())
def test_dictionary_coordinates_are_triangular(problem):
    X, mu = problem
    result = icpqr(X, mu)
    above = np.triu(result.coordinates[result.pivots], k=1)
    assert np.abs(above).max(initial=0) <= length_slack(X)
