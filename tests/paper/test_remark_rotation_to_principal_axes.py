"""Remark 3, with the centring it lacks (errata 22): rotation sorts the axes by variance and changes
neither distances nor residuals."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from isopivot import ICPQR
from reference import distances
from strategies import problems
from tolerances import eps_of, length_slack


@given(problem=problems(min_rows=2), center=st.booleans())
def test_rotated_axes_are_uncorrelated_and_sorted_by_variance(problem, center):
    X, mu = problem
    F = ICPQR(mu=mu, center=center, rotate=True).fit(X).embedding_.astype(np.longdouble)
    F = F - F.mean(axis=0)
    spread2 = F.T @ F
    # Lengths err by the slack, their products by the slack times the largest length.
    reach = np.sqrt((F**2).sum(axis=0)).max(initial=0) + length_slack(X)
    slack2 = 2 * len(X) * reach * length_slack(X)
    assert np.abs(spread2 - np.diag(np.diag(spread2))).max(initial=0) <= slack2
    assert (np.diff(np.diag(spread2)) <= slack2).all()


@given(problem=problems(min_rows=2), center=st.booleans())
def test_rotation_keeps_distances_dictionary_and_residuals(problem, center):
    X, mu = problem
    plain = ICPQR(mu=mu, center=center).fit(X)
    turned = ICPQR(mu=mu, center=center, rotate=True).fit(X)
    gap = distances(plain.embedding_) - distances(turned.embedding_)
    assert np.abs(gap).max() <= 2 * length_slack(X)
    assert turned.dictionary_indices_.tolist() == plain.dictionary_indices_.tolist()
    assert np.abs(turned.residuals_ - plain.residuals_).max() <= length_slack(X)


@given(problem=problems(min_rows=2), center=st.booleans())
def test_rotated_components_stay_orthonormal(problem, center):
    X, mu = problem
    C = ICPQR(mu=mu, center=center, rotate=True).fit(X).components_.astype(np.longdouble)
    tolerance = (10 + 2 * X.shape[1]) * eps_of(X)
    assert np.abs(C @ C.T - np.eye(len(C))).max(initial=0) <= tolerance
