"""The 7 x 7 example of section 2.2 (errata 20): which dictionary greedy takes, and what it costs.

The paper's columns are rows here, counted from zero: its 7 and 6 are 6 and 5.
"""

import numpy as np
import pytest

from isopivot import ICPQR, actual_distortion, icpqr
from reference import distances, max_distortion, project
from tolerances import length_slack

X = np.tril(np.ones((7, 7)))
X[6, 6] = 20.0


def test_greedy_takes_rows_seven_and_six():
    result = icpqr(X, mu=1.5)
    assert result.pivots.tolist() == [6, 5]
    assert result.certificate.stopped_by == "mu"


def test_largest_residual_is_root_three_halves():
    result = icpqr(X, mu=1.5)
    assert abs(result.residuals.max() - np.sqrt(1.5)) <= length_slack(X)
    assert abs(result.certificate.mu_strict - np.sqrt(1.5)) <= length_slack(X)


def test_actual_distortion_is_a_fifth_of_the_promise():
    distortion = actual_distortion(X, icpqr(X, mu=1.5).coordinates)
    Q, _, _ = project(X, [6, 5])
    expected = np.abs(distances(X) - distances(X @ Q)).max()
    assert abs(distortion - expected) <= length_slack(X)
    assert distortion == pytest.approx(0.598, abs=5e-4)


def test_full_order_of_the_dictionary():
    assert icpqr(X, mu=0.0).pivots.tolist() == [6, 5, 2, 0, 3, 1, 4]


def test_estimator_without_centring_agrees():
    model = ICPQR(mu=1.5, center=False).fit(X)
    assert model.dictionary_indices_.tolist() == [6, 5]
    assert model.n_components_ == 2


def test_the_printed_dictionary_is_valid_but_larger_than_needed():
    residuals = project(X, [0, 3, 6])[2]
    assert residuals.max() == pytest.approx(1.41069, abs=5e-6)
    assert abs(residuals.max() - project(X, [3, 6])[2].max()) <= length_slack(X)
    assert max_distortion(X, project(X, [0, 3, 6])[1]) == pytest.approx(1.314, abs=5e-4)


def test_order_as_given_needs_all_seven():
    coordinates = project(X, range(6))[1]
    assert max_distortion(X, coordinates) > 2 * 1.5
