"""Calibrated false alarms on real normal rows stay within the law that split conformal gives."""

import math
import os
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import betabinom
from sklearn.preprocessing import StandardScaler

from isopivot import KernelICPQR

SETS = ("2_annthyroid", "30_satellite", "44_Wilt", "47_yeast")
RATES = (Fraction(1, 100), Fraction(1, 20), Fraction(1, 10))
THIRD_ROWS = 1_500

pytestmark = [
    pytest.mark.data,
    pytest.mark.skipif(
        "ISOPIVOT_DATA" not in os.environ, reason="ISOPIVOT_DATA is not set: no ADBench sets"
    ),
]


def thirds(name: str) -> list[np.ndarray]:
    """Normal rows to fit, to calibrate and to test on, standardised by the first."""
    path = Path(os.environ["ISOPIVOT_DATA"]) / "adbench" / f"{name}.npz"
    with np.load(path, allow_pickle=False) as file:
        normal = file["X"][file["y"].ravel() == 0].astype(np.float64)
    normal = np.random.default_rng(0).permutation(normal)
    size = min(len(normal) // 3, THIRD_ROWS)
    parts = [normal[i * size : (i + 1) * size] for i in range(3)]
    scaler = StandardScaler().fit(parts[0])
    return [scaler.transform(part) for part in parts]


@pytest.mark.parametrize("name", SETS)
def test_false_alarms_stay_within_the_beta_binomial_law(name: str) -> None:
    fit, calibration, fresh = thirds(name)
    model = KernelICPQR().fit(fit)
    n = len(calibration)
    for rate in RATES:
        k = math.ceil((n + 1) * (1 - rate))
        assert k <= n, "the set is too small for this rate"
        model.calibrate(calibration, false_alarm_rate=float(rate))
        alarms = np.count_nonzero(model.predict(fresh) == -1)
        # The chance to exceed the k-th of n exchangeable rates is Beta(n + 1 - k, k).
        law = betabinom(len(fresh), n + 1 - k, k)
        assert alarms <= law.ppf(0.999), f"{name}, {rate}: {alarms} alarms"
        # Rates of these sets are continuous enough for the threshold not to be slack either.
        assert alarms >= law.ppf(0.001), f"{name}, {rate}: only {alarms} alarms"
