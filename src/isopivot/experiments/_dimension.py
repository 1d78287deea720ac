"""How many coordinates an embedding needs for a given distortion, over all pairs.

Legend: d (n, n) true distances; F (n, s) coordinates of which the first k are kept; e2 (n, n)
squared distances of those. Adding a coordinate lengthens no e beyond d, so that the distortion
max(d - e) falls with k, and one walk through the columns serves every k. Only the upper blocks
of d and e2 are read and written.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from isopivot._arrays import Rows, Vector

_BLOCK = 256


@dataclass(frozen=True, eq=False)
class DimensionCurve:
    """Distortion of the first ``sizes[i]`` coordinates, and the fewest for each target."""

    sizes: Rows
    distortions: Vector
    fewest: tuple[int | None, ...]  # None where all coordinates do not suffice


def upper_distances(F: Vector) -> Vector:
    """Return distances of all pairs of rows; the lower blocks are left zero."""
    e2 = np.zeros((len(F), len(F)))
    _grow(e2, F)
    return np.sqrt(np.maximum(e2, 0.0, out=e2), out=e2)


def dimension_curve(
    d: Vector, F: Vector, targets: Sequence[float], n_sizes: int = 48
) -> DimensionCurve:
    """Walk through the coordinates, measuring the distortion.

    Parameters
    ----------
    d : ndarray of shape (n, n)
        Upper blocks of the true distances.
    F : ndarray of shape (n, s)
        Coordinates whose leading columns are the smaller embeddings.
    targets : sequence of float
        Distortions for which the fewest coordinates are wanted.
    n_sizes : int, default=48
        Number of sizes at which the distortion is recorded, besides 0.

    Returns
    -------
    DimensionCurve
    """
    sizes = np.unique(np.linspace(0, F.shape[1], n_sizes + 1).astype(int))
    e2 = np.zeros_like(d)
    found = [_worst(d, e2)]
    fewest = [0 if found[0] <= target else None for target in targets]
    for low, high in itertools.pairwise(sizes.tolist()):
        before = e2.copy()
        _grow(e2, F[:, low:high])
        found.append(_worst(d, e2))
        for i, target in enumerate(targets):
            if fewest[i] is None and found[-1] <= target:
                fewest[i] = _first_within(target, d, before, F, low, high)
    return DimensionCurve(sizes, np.array(found), tuple(fewest))


def _first_within(target: float, d: Vector, e2: Vector, F: Vector, low: int, high: int) -> int:
    """Bisect between ``low`` coordinates, too few, with distances ``e2``, and ``high``, enough."""
    while high - low > 1:
        middle = (low + high) // 2
        trial = e2.copy()
        _grow(trial, F[:, low:middle])
        if _worst(d, trial) <= target:
            high = middle
        else:
            low, e2 = middle, trial
    return high


def _grow(e2: Vector, F: Vector) -> None:
    """Add the squared distances in further coordinates, in place."""
    norms2 = np.vecdot(F, F)
    for start in range(0, len(F), _BLOCK):
        rows = slice(start, start + _BLOCK)
        part = F[rows] @ F[start:].T
        part *= -2.0
        part += norms2[rows, None]
        part += norms2[None, start:]
        e2[rows, start:] += part


def _worst(d: Vector, e2: Vector) -> float:
    worst = 0.0
    for start in range(0, len(d), _BLOCK):
        rows = slice(start, start + _BLOCK)
        e = np.sqrt(np.maximum(e2[rows, start:], 0.0))
        worst = max(worst, float((d[rows, start:] - e).max()))
    return worst
