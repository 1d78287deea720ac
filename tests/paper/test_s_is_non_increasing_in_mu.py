"""Sections 1.3 and 2.3: s never grows with mu, and the greedy dictionaries are nested.

Remark 1 of section 2.3 reads the same path the other way: a limit on s gives the smallest mu
that the path reaches with it.
"""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from isopivot import ICPQR, icpqr
from strategies import mus, point_sets, problems
from tolerances import length_slack


@st.composite
def two_mus(draw):
    X = draw(point_sets())
    small, large = sorted([draw(mus(X)), draw(mus(X))])
    return X, small, large


@given(problem=two_mus(), center=st.booleans())
def test_larger_mu_takes_a_prefix_of_the_same_pivots(problem, center):
    X, small, large = problem
    longer = icpqr(X, small, center=center).pivots.tolist()
    shorter = icpqr(X, large, center=center).pivots.tolist()
    assert shorter == longer[: len(shorter)]


@given(problem=problems(), center=st.booleans())
def test_path_holds_the_largest_residual_after_each_pivot(problem, center):
    X, mu = problem
    model = ICPQR(mu=mu, center=center).fit(X)
    assert model.path_.shape == (model.n_components_ + 1, 2)
    assert model.path_[:, 1].tolist() == list(range(model.n_components_ + 1))
    assert np.abs(model.path_[:-1, 0] - model.pivot_residuals_).max(initial=0) <= length_slack(X)
    assert model.path_[-1, 0] == model.mu_strict_
    assert (np.diff(model.path_[:, 0]) <= length_slack(X)).all()


@given(problem=two_mus())
def test_truncating_equals_fitting_with_the_larger_mu(problem):
    X, small, large = problem
    assume(large > 0)
    model = ICPQR(mu=small).fit(X)
    # A mu within rounding of a point of the path may fall on either side of it.
    assume((np.abs(model.path_[:, 0] - large) > length_slack(X)).all())
    cut, again = model.truncate(mu=large), ICPQR(mu=large).fit(X)
    assert cut.dictionary_indices_.tolist() == again.dictionary_indices_.tolist()
    assert np.abs(cut.residuals_ - again.residuals_).max() <= 2 * length_slack(X)
    assert np.abs(cut.embedding_ - again.embedding_).max(initial=0) <= 2 * length_slack(X)


@given(X=point_sets(), limits=st.tuples(st.integers(1, 12), st.integers(1, 12)))
def test_largest_residual_is_non_increasing_in_the_number_of_components(X, limits):
    few, many = (min(limit, *X.shape) for limit in sorted(limits))
    coarse, fine = icpqr(X, n_components=few), icpqr(X, n_components=many)
    assert len(coarse.pivots) <= few
    assert coarse.pivots.tolist() == fine.pivots.tolist()[: len(coarse.pivots)]
    assert fine.certificate.mu_strict <= coarse.certificate.mu_strict + length_slack(X)


def test_truncating_below_what_was_learnt_is_refused():
    X = np.random.default_rng(0).standard_normal((30, 8))
    model = ICPQR(mu="50%").fit(X)
    with pytest.raises(ValueError, match="mu"):
        model.truncate(mu=model.mu_strict_ / 2)
