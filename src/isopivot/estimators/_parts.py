"""Pure functions behind the methods of the estimators."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from isopivot._arrays import (
    Array,
    Vector,
    all_finite,
    binary_exponent,
    eps_of,
    like,
    namespace,
    row_blocks,
    times_power_of_two,
    to_numpy,
)
from isopivot._factors import Factorization


def resolve_threshold(threshold: Any, result: Factorization) -> float:
    """Return the number: rounding is added, so that every training point is normal."""
    if not isinstance(threshold, str):
        return float(threshold)
    certificate = result.certificate
    mu = certificate.mu if threshold == "mu" else certificate.mu_strict
    # Errors are those of squares, unless results are stored as float32.
    if certificate.route == "cholesky" and certificate.dtype == "float64":
        return math.hypot(mu, certificate.accuracy_floor)
    return mu + certificate.accuracy_floor


def residual_path(result: Factorization, relaxation: float, route_errors: Any = 0.0) -> Vector:
    """Return (largest residual, s) for s = 0, 1, ... of the nested path."""
    if relaxation == 1.0 and np.ndim(route_errors) == 0:
        entered = to_numpy(result.pivot_residuals).astype(np.float64)
        largest = np.append(entered, result.certificate.mu_strict)
        largest = np.minimum.accumulate(largest)
    else:
        n = result.certificate.n_samples
        largest = _largest_residuals(result, np.broadcast_to(route_errors, n))
    return np.column_stack([largest, np.arange(len(largest), dtype=np.float64)])


def _largest_residuals(result: Factorization, errors: Vector) -> Vector:
    F, r = to_numpy(result.coordinates), to_numpy(result.residuals) - errors
    largest = np.zeros(F.shape[1] + 1)
    for rows in row_blocks(len(F), 8 * (F.shape[1] + 1)):
        missed = missed_norms(F[rows], r[rows]) + errors[rows, None]
        largest = np.maximum(largest, missed.max(axis=0))
    return largest


def missed_norms(F: npt.NDArray[Any], r: npt.NDArray[Any]) -> Vector:
    """Return, for every k, the residuals that the first k coordinates leave: Pythagoras."""
    tail = np.column_stack([F, r]).astype(np.float64)[:, ::-1]
    exponent = binary_exponent(float(np.abs(tail).max(initial=0.0)), 0.0)
    missed2 = np.cumsum(times_power_of_two(tail, -exponent) ** 2, axis=1)[:, ::-1]
    return np.asarray(times_power_of_two(np.sqrt(missed2), exponent))


def principal_rotation(F: Array) -> Array:
    """Return the orthogonal V that turns coordinates to principal axes (remark 3, centred)."""
    xp = namespace(F)
    largest = float(xp.max(xp.abs(F))) if 0 not in F.shape else 0.0
    Y = times_power_of_two(F, -binary_exponent(largest, eps_of(F)))
    Y = Y - xp.mean(Y, axis=0)
    V = xp.flip(xp.linalg.eigh(Y.T @ Y)[1], axis=1)
    # The largest entry of each axis is positive, so that signs do not depend on LAPACK.
    lead = np.argmax(np.abs(to_numpy(V)), axis=0) if 0 not in V.shape else np.empty(0, dtype=int)
    signs = np.sign(to_numpy(V)[lead, np.arange(V.shape[1])])
    return V * like(signs, V, dtype=V.dtype)


def rotated(F: Array, rotation: Array | None) -> Array:
    """Return the coordinates in the rotated axes."""
    return F if rotation is None else F @ rotation


def unrotated(F: Array, rotation: Array | None) -> Array:
    """Return the coordinates in the axes of the pivots."""
    return F if rotation is None else F @ rotation.T


def finite(values: Array) -> Array:
    """Return `values`; raise where a result left the range of floating-point numbers."""
    if not all_finite(values):
        raise ValueError(
            "got points whose coordinates or residuals exceed the largest floating-point number; "
            "allowed are norms below 1.8e308 (float64) or 3.4e38 (float32); divide the data by a "
            "constant before fitting"
        )
    return values
