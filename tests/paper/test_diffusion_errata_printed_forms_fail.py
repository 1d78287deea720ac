"""The print of section 3 fails on small examples, and isopivot is right on the same ones.

Numbers in test names are rows of docs/errata.md: 12, 14, 16, 17. Row 13 is with its lemma.
"""

import numpy as np
import pytest
from sklearn.datasets import make_swiss_roll

from isopivot import DiffusionICPQR
from isopivot.baselines import DiffusionMaps
from reference import distances
from reference_diffusion import (
    FORMULAS,
    algorithm_4,
    diffusion_distances,
    geometry,
    printed_algorithm_5_probabilities,
    printed_gt,
    printed_in_sample_probabilities,
    printed_mu_strict,
    printed_psi_line_1,
    transitions,
)
from tolerances import length_slack

X = make_swiss_roll(80, random_state=0)[0]
EPSILON = 30.0
K = FORMULAS["rbf"](X, X, EPSILON)
VOL = K.sum()


# Row 12: the factor ||d||_1^1/2 once, neither never nor twice.


@pytest.mark.parametrize("t", [1, 3])
def test_12_printed_matrix_and_map_are_off_by_the_root_of_the_volume(t):
    true = diffusion_distances(K, t)
    pair = np.unravel_index(true.argmax(), true.shape)
    assert distances(printed_gt(K, t).T)[pair] == pytest.approx(true[pair] / np.sqrt(VOL))
    assert distances(printed_psi_line_1(K, t).T)[pair] == pytest.approx(true[pair] * np.sqrt(VOL))
    slack = 4 * t * length_slack(geometry(K, t))
    spectral = DiffusionMaps(len(X) - 1, epsilon=EPSILON, t=t).fit(X)
    assert np.abs(distances(spectral.embedding_) - true).max() <= slack
    model = DiffusionICPQR(0.0, epsilon=EPSILON, t=t).fit(X)
    assert np.abs(distances(model.embedding_) - true).max() <= slack


# Row 14: a vector of R^s subtracted from one of R^n.


def test_14_printed_mu_strict_has_nothing_to_do_with_mu():
    model = DiffusionICPQR(0.5, epsilon=EPSILON).fit(X)
    Z, literal = geometry(K), algorithm_4(K, 1, 0.5)
    assert printed_mu_strict(Z, literal.h) > 5 * 0.5
    right = np.linalg.norm(Z - literal.h @ literal.Q.T, axis=1).max()
    assert model.mu_strict_ == pytest.approx(right, abs=length_slack(Z))
    assert model.mu_strict_ <= 0.5


# Row 16: far points are 0 / 0, and a softmax alone makes them normal.


def test_16_printed_probabilities_of_far_points_are_not_numbers():
    far = X[:1] + 1e3
    assert np.isnan(printed_algorithm_5_probabilities(FORMULAS["rbf"](far, X, 3.0))).all()
    model = DiffusionICPQR("10%", epsilon=3.0).fit(X)
    assert np.isfinite(model.transform(far)).all()
    assert np.isfinite(model.distortion_rate(far)).all()
    assert model.predict(far)[0] == -1


def test_16_printed_probabilities_lose_their_digits_before_they_vanish():
    line = np.array([[0.0, 0.0], [0.0, 0.5]])
    x = np.array([[47.1, 0.3]])
    printed = printed_algorithm_5_probabilities(FORMULAS["rbf"](x, line, 3.0))[0]
    gap = ((x - line) ** 2).sum(axis=1) / -3.0
    right = np.exp(gap - np.logaddexp(*gap))
    assert np.abs(printed - right).max() > 1e-4
    model = DiffusionICPQR(0.0, epsilon=3.0).fit(line)
    z = model._walk.geometry.place(*model._walk.log_kernel(x))[0][0]
    d = model.degrees_
    # Exponents of about 740 carry 740 roundings.
    np.testing.assert_allclose(z * np.sqrt(d / d.sum()), right, rtol=4 * 740 * 2.3e-16)


def test_16_softmax_alone_makes_points_beside_an_isolated_pivot_normal():
    points = np.vstack([X, [[300.0, 300.0, 300.0]]])
    model = DiffusionICPQR("10%", epsilon=EPSILON).fit(points)
    x = points[-1:] + 160.0
    z = model._walk.geometry.place(*model._walk.log_kernel(x))[0]
    assert model._extension.projection.rates(z)[0] <= model.threshold_
    assert model.predict(x)[0] == -1


# Row 17: consistency holds for ((P*)^t)_i, not for (P*)_i.


@pytest.mark.parametrize("t", [2, 4, 8])
def test_17_printed_consistency_is_off_for_more_than_one_step(t):
    true = transitions(K, t).T
    off = max(np.abs(printed_in_sample_probabilities(K, i) - true[:, i]).sum() for i in range(80))
    assert off > 0.1
    p = transitions(K).T
    for _ in range(t - 1):
        p = K @ (p / K.sum(axis=1)[:, None])
    assert np.abs(p - true).max() <= 4 * t * len(K) * np.finfo(float).eps
    model = DiffusionICPQR("10%", epsilon=EPSILON, t=t).fit(X)
    slack = 10 * t * length_slack(geometry(K, t))
    assert np.abs(model.transform(X) - model.embedding_).max() <= slack
