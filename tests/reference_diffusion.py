"""Slow and literal oracles for the diffusion part (section 3 of the paper).

The first half is what the library should compute. The second half, every name of which starts
with ``printed_``, is the paper as printed: wrong on purpose, for the errata tests.

Legend: ``K`` (n, n) kernel, ``d`` degrees, ``P`` = D^-1 K, ``G`` the paper's n x n matrix whose
*column* i is point i; ``Z = G.T`` has points as rows. ``k_x`` (j, n) holds kernels of new points.
"""

from dataclasses import dataclass

import numpy as np
from scipy.spatial.distance import cdist

from reference import distances, greedy

__all__ = [
    "FORMULAS",
    "algorithm_4",
    "algorithm_5",
    "density_normalised",
    "diffusion_distances",
    "geometry",
    "new_rows",
    "printed_algorithm_5_probabilities",
    "printed_gt",
    "printed_in_sample_probabilities",
    "printed_mu_strict",
    "printed_psi_line_1",
    "transitions",
]

FORMULAS = {
    "rbf": lambda A, B, e: np.exp(-cdist(A, B, "sqeuclidean") / e),
    "exponential": lambda A, B, e: np.exp(-cdist(A, B) / np.sqrt(e)),
    "laplacian": lambda A, B, e: np.exp(-cdist(A, B, "cityblock") / np.sqrt(e)),
    "matern32": lambda A, B, e: (
        (1 + np.sqrt(3 / e) * cdist(A, B)) * np.exp(-np.sqrt(3 / e) * cdist(A, B))
    ),
}


def transitions(K, t=1):
    """P^t, by multiplying t times."""
    P = K / K.sum(axis=1)[:, None]
    power = P
    for _ in range(t - 1):
        power = power @ P
    return power


def diffusion_distances(K, t=1):
    """Eq. DM: distances of the rows of P^t, weighted by the inverse of the steady state."""
    steady = K.sum(axis=1) / K.sum()
    return distances(transitions(K, t) / np.sqrt(steady)).astype(float)


def geometry(K, t=1):
    """Z = G.T with Eq. G: G = ||d||_1^1/2 D^-1/2 (P^T)^t."""
    d = K.sum(axis=1)
    return (np.sqrt(d.sum()) * np.diag(d**-0.5) @ transitions(K, t).T).T


def new_rows(k_x, K, t=1):
    """The rows z(x) of new points: p <- K (p / d), t - 1 times (errata 17)."""
    d = K.sum(axis=1)
    p = (k_x / k_x.sum(axis=1)[:, None]).T
    for _ in range(t - 1):
        p = K @ (p / d[:, None])
    return (np.sqrt(d.sum()) * p / np.sqrt(d)[:, None]).T


def density_normalised(K, alpha, k_x=None):
    """Kernels over the degrees of both points to the power alpha; of new points if given."""
    q = K.sum(axis=1)
    if k_x is None:
        return K / q[:, None] ** alpha / q[None, :] ** alpha
    return k_x / k_x.sum(axis=1)[:, None] ** alpha / q[None, :] ** alpha


@dataclass(frozen=True)
class Embedded:
    """What Algorithm 4 returns, and the basis Q (n x s) that its h_s are coordinates in."""

    pivots: np.ndarray
    h: np.ndarray
    residuals: np.ndarray
    Q: np.ndarray


def algorithm_4(K, t, mu):
    """Algorithm 4 on the explicit G, with the corrected Algorithm 2."""
    Z = geometry(K, t)
    found = greedy(Z, mu=mu)
    return Embedded(found.pivots, Z @ found.Q, found.residuals, found.Q)


def algorithm_5(embedded, k_x, K, t):
    """Algorithm 5: h(x) and mu(x), the latter as the norm of an explicit residual (errata 15)."""
    Z = new_rows(k_x, K, t)
    h = Z @ embedded.Q
    return h, np.linalg.norm(Z - h @ embedded.Q.T, axis=1)


# The paper as printed. Do not repair: the errata tests show what goes wrong here.


def printed_gt(K, t):
    """PRINTED, WRONG. Eq. Gt: G without the factor ||d||_1^1/2 (errata 12)."""
    d = K.sum(axis=1)
    M = K / np.sqrt(d[:, None] * d[None, :])
    return np.linalg.matrix_power(M, t) @ np.diag(d**-0.5)


def printed_psi_line_1(K, t):
    """PRINTED, WRONG. Eq. svd_psi, line 1, with the right G: the factor twice (errata 12)."""
    d = K.sum(axis=1)
    U = np.linalg.eigh(K / np.sqrt(d[:, None] * d[None, :]))[1]
    return np.sqrt(d.sum()) * U.T @ geometry(K, t).T


def printed_mu_strict(Z, h):
    """PRINTED, WRONG. Eq. dm_mu_strict: R^n minus R^s, read as zero-padded (errata 14)."""
    padded = np.zeros_like(Z)
    padded[:, : h.shape[1]] = h
    return np.linalg.norm(Z - padded, axis=1).max()


def printed_algorithm_5_probabilities(k_x):
    """PRINTED, WRONG for far points. Eq. probs_vect: 0 / 0 (errata 16)."""
    with np.errstate(invalid="ignore"):
        return k_x / k_x.sum(axis=1)[:, None]


def printed_in_sample_probabilities(K, i):
    """PRINTED, WRONG for t > 1. The vector said to be consistent with point i (errata 17)."""
    return transitions(K).T[:, i]
