"""Lemma svd_distort: k spectral coordinates distort by at most sqrt(2) c |s_(k+1)|^t."""

import numpy as np
import pytest
from sklearn.datasets import make_swiss_roll

from isopivot import actual_distortion
from isopivot.baselines import DiffusionMaps
from reference_diffusion import FORMULAS, geometry
from tolerances import eigen_slack

X = make_swiss_roll(80, random_state=0)[0]


@pytest.mark.parametrize("epsilon", [0.5, 10.0, 300.0])
@pytest.mark.parametrize("t", [1, 2, 5])
def test_the_analytic_bound_holds(t, epsilon):
    Z = geometry(FORMULAS["rbf"](X, X, epsilon), t)
    for k in (1, 2, 5, 20, 60, 79):
        model = DiffusionMaps(k, epsilon=epsilon, t=t).fit(X)
        distortion = actual_distortion(Z, model.embedding_)
        assert distortion <= model.analytic_bound_ + t * eigen_slack(Z)


def nearly_the_identity(n=10):
    noise = np.random.default_rng(0).uniform(0, 0.02, (n, n))
    return np.eye(n) + (noise + noise.T) / 2


def test_the_constant_is_nearly_attained():
    K = nearly_the_identity()
    model = DiffusionMaps(1, kernel="precomputed").fit(K)
    distortion = actual_distortion(geometry(K), model.embedding_)
    assert 0.8 * model.analytic_bound_ <= distortion <= model.analytic_bound_


def test_13_the_middle_step_of_the_printed_proof_fails():
    K = nearly_the_identity()
    steady = K.sum(axis=1) / K.sum()
    model = DiffusionMaps(2, kernel="precomputed").fit(K)
    full = DiffusionMaps(9, kernel="precomputed").fit(K)
    tail = np.linalg.norm(full.embedding_[:, 2:], axis=1)
    printed = full.eigenvalues_[2] * np.sqrt(1 / steady[:, None] + 1 / steady[None, :])
    assert ((tail[:, None] + tail[None, :])[~np.eye(10, dtype=bool)] > printed.max()).any()
    assert actual_distortion(geometry(K), model.embedding_) <= model.analytic_bound_
