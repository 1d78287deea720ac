"""Table of the Swiss roll: dictionary sizes for n = 3000, epsilon = 3, t = 1, noise 0.05."""

import numpy as np
import pytest
from sklearn.datasets import make_swiss_roll

from isopivot import DiffusionICPQR

MEANS = {0.1: 1246, 1.0: 755, 5.0: 383, 10.0: 186}  # the paper: 1246, 752, 382, 190
WITHIN = 25  # three standard deviations of the widest


@pytest.mark.slow
def test_mean_dictionary_sizes_over_eight_seeds():
    sizes = []
    for seed in range(100, 108):
        X = make_swiss_roll(3000, noise=0.05, random_state=seed)[0]
        model = DiffusionICPQR(0.1, epsilon=3.0, method="dense").fit(X)
        assert model.certificate_.certified
        assert model.certificate_.distortion_bound <= 0.2
        shorter = [model.truncate(mu=mu).n_components_ for mu in MEANS if mu != 0.1]
        sizes.append([model.n_components_, *shorter])
    off = np.mean(sizes, axis=0) - list(MEANS.values())
    assert (np.abs(off) <= WITHIN).all(), np.mean(sizes, axis=0)
