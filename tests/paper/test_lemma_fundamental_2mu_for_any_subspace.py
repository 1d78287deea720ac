"""Lemma 1.1: projecting with residuals of at most mu changes no distance by more than 2 mu.

The lemma holds for every subspace, however it was found, so the subspaces here are random.
"""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from isopivot import actual_distortion
from reference import distances, max_distortion
from strategies import point_sets, seeds
from tolerances import length_slack


def embed_in_random_subspace(X, s, seed):
    """Coordinates and residual norms of X on s random orthonormal directions, at X's precision."""
    m = X.shape[1]
    Q = np.linalg.qr(np.random.default_rng(seed).standard_normal((m, m)))[0][:, :s]
    rows = X.astype(np.longdouble)
    residuals = np.sqrt(((rows - rows @ Q @ Q.T) ** 2).sum(axis=1))
    return (rows @ Q).astype(X.dtype), residuals.astype(X.dtype)


@given(X=point_sets(min_rows=2), s=st.integers(0, 12), seed=seeds)
def test_distortion_is_at_most_twice_the_largest_residual(X, s, seed):
    embedding, residuals = embed_in_random_subspace(X, s, seed)
    assert actual_distortion(X, embedding) <= 2 * residuals.max() + 2 * length_slack(X)


@given(X=point_sets(), s=st.integers(0, 12), seed=seeds)
def test_projection_never_expands_a_distance(X, s, seed):
    embedding, _ = embed_in_random_subspace(X, s, seed)
    assert (distances(embedding) <= distances(X) + 2 * length_slack(X)).all()


@given(X=point_sets(), s=st.integers(0, 12), seed=seeds)
def test_actual_distortion_is_the_exact_maximum_over_all_pairs(X, s, seed):
    embedding, residuals = embed_in_random_subspace(X, s, seed)
    expected = max_distortion(X, embedding)
    assert abs(actual_distortion(X, embedding) - expected) <= length_slack(X)
    assert abs(actual_distortion(X, embedding, residuals) - expected) <= length_slack(X)
