"""What `calibrate` and `explain` give back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from isopivot._arrays import Rows, Vector


@dataclass(frozen=True)
class Calibration:
    """How `calibrate` chose the threshold.

    Attributes
    ----------
    false_alarm_rate : float
        Rate that was asked for.
    n_samples : int
        Number of held-out normal rows.
    rank : int
        The threshold is the rank-th smallest of their rates.
    threshold : float
        The resulting threshold.
    """

    false_alarm_rate: float
    n_samples: int
    rank: int
    threshold: float


@dataclass(frozen=True, eq=False)
class Explanation:
    """Why points have the distortion rate they have.

    Attributes
    ----------
    rates : ndarray of shape (n,)
        Distortion rates.
    contributions : ndarray of shape (n, m) or None
        `ICPQR`: what the dictionary misses of each point, per feature, with sign; the norm
        of a row is its rate. `KernelICPQR`: the gradient of the rate; None for a callable
        or a precomputed kernel.
    neighbors : ndarray of shape (n, k)
        Training row numbers of the nearest dictionary members, nearest first.
    neighbor_distances : ndarray of shape (n, k)
        Distances to them.
    feature_names : ndarray of shape (m,)
        Names of the features.
    """

    rates: Vector
    contributions: Vector | None
    neighbors: Rows
    neighbor_distances: Vector
    feature_names: npt.NDArray[np.object_]

    def to_frame(self) -> Any:
        """Return a pandas DataFrame: rate, one column per feature, nearest members."""
        import pandas as pd

        k = self.neighbors.shape[1]
        columns: dict[str, Any] = {"distortion_rate": self.rates}
        if self.contributions is not None:
            columns |= {
                f"residual_{name}": self.contributions[:, j]
                for j, name in enumerate(self.feature_names)
            }
        columns |= {f"neighbor{j}": self.neighbors[:, j] for j in range(k)}
        columns |= {f"neighbor_distance{j}": self.neighbor_distances[:, j] for j in range(k)}
        return pd.DataFrame(columns)
