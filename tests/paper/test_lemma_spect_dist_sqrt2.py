"""Lemma spect_dist, sharpened (errata 9): the k-term SVD embedding distorts by at most
sqrt(2) s_{k+1}; the printed 2 s_{k+1} is true and loose."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isopivot import actual_distortion
from strategies import point_sets
from tolerances import length_slack


def svd_embedding(X, k):
    """The first k principal coordinates of the rows (uncentred) and the singular value after."""
    U, S, _ = np.linalg.svd(X, full_matrices=False)
    following = S[k] if k < len(S) else 0.0
    return U[:, :k] * S[:k], following


@given(X=point_sets(min_rows=2, dtypes=(np.float64,)), k=st.integers(0, 12))
def test_svd_distortion_is_at_most_sqrt2_times_the_next_singular_value(X, k):
    embedding, following = svd_embedding(X, k)
    # The SVD is backward stable for the whole matrix, whose norm is at most sqrt(n) M.
    slack = np.sqrt(len(X)) * length_slack(X)
    assert actual_distortion(X, embedding) <= np.sqrt(2) * following + 2 * slack


@pytest.mark.parametrize("following", [0.7, 1e-3])
def test_sqrt2_is_attained(following):
    half = following / np.sqrt(2)
    X = np.array([[0.0, half], [0.0, -half], [3.0, 0.0]])
    embedding, s_next = svd_embedding(X, 1)
    assert abs(s_next - following) <= length_slack(X)
    assert abs(actual_distortion(X, embedding) - np.sqrt(2) * following) <= length_slack(X)
