"""Eq. DM_G, Eqs. P and d_hat: rows of Z are diffusion distances apart; the walk has its limit."""

import numpy as np
import pytest
from sklearn.datasets import make_swiss_roll

from isopivot import DiffusionICPQR
from isopivot.diffusion import dense_geometry
from reference import distances
from reference_diffusion import FORMULAS, diffusion_distances, geometry, transitions
from tolerances import length_slack

X = make_swiss_roll(60, random_state=0)[0]
K = FORMULAS["rbf"](X, X, 30.0)


@pytest.mark.parametrize("t", [1, 2, 3, 8])
def test_eq_dm_g_by_brute_force_over_the_rows_of_p_to_the_t(t):
    _, Z = dense_geometry(K.copy(), t, 0.0)
    np.testing.assert_allclose(Z, geometry(K, t), atol=t * length_slack(Z))
    true = diffusion_distances(K, t)
    np.testing.assert_allclose(distances(Z).astype(float), true, atol=2 * t * length_slack(Z))


@pytest.mark.parametrize("method", ["dense", "low_rank"])
@pytest.mark.parametrize("t", [1, 2, 4])
def test_diffusion_distances_change_by_at_most_2mu(t, method):
    model = DiffusionICPQR("10%", epsilon=30.0, t=t, method=method).fit(X)
    change = np.abs(distances(model.embedding_) - diffusion_distances(K, t)).max()
    assert change <= model.certificate_.distortion_bound <= 2 * model.mu_ * (1 + 1e-12)
    assert model.certificate_.certified


def test_degrees_over_their_sum_are_the_stationary_distribution():
    steady = DiffusionICPQR(epsilon=30.0).fit(X).degrees_ / K.sum()
    P = transitions(K)
    np.testing.assert_allclose(steady @ P, steady, rtol=len(K) * np.finfo(float).eps)
    np.testing.assert_allclose(P.sum(axis=1), 1.0, rtol=len(K) * np.finfo(float).eps)
    s2 = np.sort(np.abs(np.linalg.eigvals(P)))[-2]
    t = int(np.ceil(np.log(1e-12) / np.log(s2)))
    forever = np.linalg.matrix_power(P, t)
    # |P^t_ij - steady_j| <= (d_j / d_i)^1/2 s_2^t
    degrees = K.sum(axis=1)
    assert np.abs(forever - steady).max() <= 1.1e-12 * np.sqrt(degrees.max() / degrees.min())


def test_all_points_meet_when_the_walk_is_long():
    model = DiffusionICPQR(0.01, epsilon=30.0, t=20_000, method="dense").fit(X)
    assert model.n_components_ == 1
    # ||z_i|| -> ||d_hat^1/2|| = 1 for every point
    np.testing.assert_allclose(np.abs(model.embedding_), 1.0, atol=1e-8)
