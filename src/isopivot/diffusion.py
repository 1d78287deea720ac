"""Diffusion geometry: the paper's section 3, exactly and by a low-rank kernel.

Legend (points are rows; the paper's G^(t) is `Z.T`):

    K (n, n)     pointwise positive kernel;   d = K 1 degrees;   vol = ||d||_1
    P = D^-1 K   transition probabilities;    M = D^-1/2 K D^-1/2, symmetric, ||M|| = 1
    Z (n, .)     row i is the paper's column G^(t)_i: Euclidean distances of rows of Z are
                 diffusion distances (Eq. DM_G). Z = vol^1/2 D^-1/2 M^t (errata 12).

A geometry gives Z for the training points, z(x) for new ones, and a bound `error` on how far
each row is from that of the exact kernel: 0 for the dense route. For the low-rank route, with
K = L L^T + E, E_ii measured and |E_ij| <= sqrt(E_ii E_jj), hats for quantities of L L^T:

    e_i = sqrt(E_ii) sum_j sqrt(E_jj)          bounds |d_i - d^_i|; needed: e_i < d^_i
    rho = max_i e_i / (d^_i - e_i)             relative error of the degrees
    a_i = ((1+rho)^2 - 1) ||z_i|| + (1+rho)^2 vol^1/2 sqrt(E_ii) sqrt(sum_j E_jj/d^_j) / d^_i
    eta = rho ||M^|| + (1+rho) min(sum_j E_jj/d^_j, max_i e_i/d^_i)   bounds ||M - M^||
    a_i^(t) = a_i^(t-1) + eta ||z_i^(t-1)||
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.linalg
from scipy.special import logsumexp

from isopivot._arrays import Rows, Vector, row_blocks
from isopivot._cholesky import Cholesky

__all__ = [
    "DenseGeometry",
    "Gate",
    "Geometry",
    "LowRankGeometry",
    "choose_rank",
    "dense_geometry",
    "low_rank_geometry",
    "make_gate",
]

_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class DenseGeometry:
    """The exact diffusion geometry; holds what new points need: M^(t-1) for t > 1."""

    degrees: Vector
    weights: Vector  # of training points in p(x): d^-alpha of the raw degrees
    propagator: Vector | None  # M^(t-1), or None for t = 1

    slack: float = 0.0  # relative error of the degrees

    @property
    def error(self) -> Vector:
        """Distance of each row from the exact geometry: none."""
        return np.zeros(len(self.degrees))

    def place(self, log_k: Vector, k_xx: Vector) -> tuple[Vector, Vector]:
        """Return z(x) and its error from log k(x, training points): Algorithm 5, step 1."""
        log_p = log_k + np.log(self.weights)
        p = np.exp(log_p - logsumexp(log_p, axis=1, keepdims=True))  # errata 16
        g: Vector = np.sqrt(self.degrees.sum()) * p / np.sqrt(self.degrees)
        Z = g if self.propagator is None else g @ self.propagator  # errata 17
        return Z, np.zeros(len(Z))


def dense_geometry(K: Vector, t: int, alpha: float) -> tuple[DenseGeometry, Vector]:
    """Return the geometry and Z of a kernel matrix, which is overwritten (Algorithm 4)."""
    weights = np.ones(len(K))
    if alpha:
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            weights = K.sum(axis=1) ** -alpha
            K *= weights[:, None]
            K *= weights[None, :]
    degrees = K.sum(axis=1)
    if not (np.isfinite(degrees) & (degrees > 0.0)).all():
        raise ValueError(
            f"got alpha={alpha}, with which degrees leave the range of floats; allowed is a "
            "smaller one, usually between 0 and 1; lower it"
        )
    root = np.sqrt(degrees)
    K /= root[:, None]
    K /= root[None, :]
    propagator = None if t == 1 else np.linalg.matrix_power(K, t - 1)
    Z = K if propagator is None else propagator @ K
    Z *= (np.sqrt(degrees.sum()) / root)[:, None]
    return DenseGeometry(degrees, weights, propagator), Z


@dataclass(frozen=True, eq=False)
class LowRankGeometry:
    """The diffusion geometry of K^ = L L^T, with a bound on its distance from that of K."""

    degrees: Vector  # d^
    norms: Vector  # ||z_i||
    error: Vector  # a_i
    turn: Vector  # (r, r): eigenvectors V of S = L^T D^^-1 L
    spectrum: Vector  # (r,): its eigenvalues
    mass: Vector  # (r,): L^T 1
    t: int
    rho: float
    eta: float
    roots: float  # sum_j sqrt(E_jj)
    leak: float  # sum_j E_jj / d^_j
    rounding: float  # added to every E_ii
    weights: Vector  # of training points: d^-alpha of the raw degrees
    pivots: Rows
    T: Vector  # (r, r), lower triangular: coordinates of the pivots

    @property
    def slack(self) -> float:
        """Relative error of the degrees."""
        return min(self.rho, 1.0 - 1e-9)

    def place(self, log_k: Vector, k_xx: Vector) -> tuple[Vector, Vector]:
        """Return z(x) and its error a(x), by Nystrom coordinates l(x) = T^-1 k(x, pivots).

        Where the kernel's error at x is as large as its degree, nothing is known: the
        error is infinite.
        """
        K = np.exp(log_k[:, self.pivots])
        coordinates = scipy.linalg.solve_triangular(self.T, K.T, lower=True).T
        q = coordinates @ self.mass
        E_xx = np.maximum(k_xx - np.vecdot(coordinates, coordinates), 0.0) + self.rounding
        e = np.sqrt(E_xx) * self.roots
        known = q > e
        safe_q = np.where(known, q, 1.0)
        root_vol = np.sqrt(self.degrees.sum())
        turned = root_vol / safe_q[:, None] * (coordinates @ self.turn)
        rho_x = np.where(known, e / np.where(known, q - e, 1.0), 0.0)
        factor = (1.0 + self.rho) * (1.0 + rho_x)
        norms = diffusion_norms(turned, self.spectrum, self.t)
        error = (factor - 1.0) * norms[0]
        error += factor * root_vol * np.sqrt(E_xx) * np.sqrt(self.leak) / safe_q
        error += self.eta * norms[:-1].sum(axis=0)
        Z = turned * self.spectrum ** (self.t - 0.5)
        return np.where(known[:, None], Z, 0.0), np.where(known, error, np.inf)

    def embed(self, L: Vector) -> Vector:
        """Return Z (n, r) from the factor L (r, n) that this geometry came from."""
        scale = np.sqrt(self.degrees.sum()) / self.degrees
        stretched = self.turn * self.spectrum ** (self.t - 0.5)
        Z = np.empty((L.shape[1], len(L)))
        for rows in row_blocks(len(Z), 8 * max(1, len(L))):
            np.matmul(L[:, rows].T, stretched, out=Z[rows])
            Z[rows] *= (scale[rows] * self.weights[rows])[:, None]
        return Z


def diffusion_norms(turned: Vector, spectrum: Vector, t: int) -> Vector:
    """Return ||z_i^(tau)|| for tau = 1 ... t, as rows."""
    return np.array(
        [np.linalg.norm(turned * spectrum ** (tau - 0.5), axis=1) for tau in range(1, t + 1)]
    )


def low_rank_geometry(factor: Cholesky, t: int, alpha: float) -> LowRankGeometry | None:
    """Return the geometry of the factored kernel; None while its error swamps a degree.

    With alpha != 0 the factor is that of the density-normalised kernel, for the degrees of
    L L^T; the error of these is not in the bound.
    """
    L = np.asarray(factor.coordinates)  # (r, n)
    r, n = L.shape
    rounding = (10 + r) * _EPS * factor.largest**2
    E = factor.residual2 + rounding
    weights = np.ones(n)
    if alpha:
        raw = L.sum(axis=1) @ L
        if raw.min() <= 0.0:
            return None
        weights = raw**-alpha
        E = E * weights**2
    mass = L @ weights
    degrees = (mass @ L) * weights
    roots = float(np.sqrt(E).sum())
    e = np.sqrt(E) * roots
    if not (degrees > e).all():
        return None
    rho = float((e / (degrees - e)).max())
    leak = float((E / degrees).sum())
    spectrum, turn = _spectrum(L, weights / np.sqrt(degrees))
    eta = rho * float(spectrum.max(initial=0.0)) + (1.0 + rho) * min(
        leak, float((e / degrees).max())
    )
    root_vol = np.sqrt(degrees.sum())
    norms, error = np.empty(n), np.empty(n)
    for rows in row_blocks(n, 8 * max(1, r)):
        turned = (L[:, rows] * (root_vol * weights[rows] / degrees[rows])).T @ turn
        by_time = diffusion_norms(turned, spectrum, t)
        norms[rows] = by_time[-1]
        error[rows] = ((1.0 + rho) ** 2 - 1.0) * by_time[0] + eta * by_time[:-1].sum(axis=0)
    error += (1.0 + rho) ** 2 * root_vol * np.sqrt(E) * np.sqrt(leak) / degrees
    return LowRankGeometry(
        degrees=degrees,
        norms=norms,
        error=error,
        turn=turn,
        spectrum=spectrum,
        mass=mass,
        t=t,
        rho=rho,
        eta=eta,
        roots=roots,
        leak=leak,
        rounding=rounding,
        weights=weights,
        pivots=factor.pivots,
        T=np.ascontiguousarray(factor.T),
    )


def _spectrum(L: Vector, scale: Vector) -> tuple[Vector, Vector]:
    """Return eigenvalues and eigenvectors of S = (L scale)(L scale)^T, without copying L."""
    S = np.zeros((len(L), len(L)))
    for rows in row_blocks(L.shape[1], 8 * max(1, len(L))):
        part = L[:, rows] * scale[rows]
        S += part @ part.T
    spectrum, turn = np.linalg.eigh(S)
    return np.maximum(spectrum, 0.0), turn


def choose_rank(
    factor: Cholesky,
    refine: Callable[[float], object],
    t: int,
    alpha: float,
    mu: Callable[[LowRankGeometry], float],
    most: int,
) -> LowRankGeometry | None:
    """Refine the kernel factorization until its error is at most a fifth of mu.

    Parameters
    ----------
    factor : Cholesky
        Of the kernel; `refine(tau)` extends it until its largest residual is tau.
    t, alpha : int, float
        Diffusion time and density normalisation.
    mu : callable
        The distortion wanted, which may be a part of a typical ||z_i||.
    most : int
        Rank at which to give up.

    Returns
    -------
    LowRankGeometry or None
        None when `most` columns or the digits of the kernel do not suffice.
    """
    tau = 0.3 * factor.largest
    while True:
        refine(tau)
        geometry = low_rank_geometry(factor, t, alpha)
        shrink = 0.25
        if geometry is not None:
            part = 0.2 * mu(geometry) / float(geometry.error.max())
            if part >= 1.0:
                return geometry
            shrink = min(0.5, 0.9 * np.sqrt(part))  # the error falls with the square of tau
        if factor.s >= most or tau <= factor.floor:
            return None
        tau = max(shrink * tau, factor.floor)


@dataclass(frozen=True, eq=False)
class Gate:
    """Which new points are too far from all training points to have a diffusion geometry.

    The sum of kernels q(x) is compared with a quantile of the leave-one-out degrees of the
    training points (errata 16), and with the degree of the nearest of them, so that a
    training point, its own nearest, is never far.
    """

    log_quantile: float
    log_degrees: Vector
    diagonal: Vector | None  # k(y, y) of the training points, where it varies
    ceiling: float  # no ordinary rate is larger: ||z|| <= sqrt(vol / min d)

    def rates(self, log_k: Vector, rates: Vector) -> Vector:
        """Return `rates`, those of far points replaced by larger ones that grow with distance."""
        log_q = logsumexp(log_k, axis=1)
        # ||x - y||^2 = k(x, x) - 2 k(x, y) + k(y, y) in feature space.
        closeness = log_k if self.diagonal is None else 2.0 * np.exp(log_k) - self.diagonal
        nearest = np.argmax(closeness, axis=1)
        far = (log_q < self.log_quantile) & (log_q < self.log_degrees[nearest])
        remote = self.ceiling + self.log_quantile - np.maximum(log_q, -1e300)
        return np.where(far, remote, np.minimum(rates, self.ceiling))


def make_gate(
    raw: Vector, diagonal: Vector, geometry: Geometry, quantile: float, rounding: float
) -> Gate:
    """Return the gate for lower bounds `raw` of the degrees of the kernel.

    `rounding` is the relative error of a kernel entry.
    """
    alone = raw - diagonal
    alone = alone[alone > 8.0 * rounding * diagonal]
    # Where every point is alone in its graph, whatever is new is far.
    level = np.quantile(alone, quantile) if len(alone) else raw.min()
    log_quantile = float(np.log(level))
    # A training point that comes as a new one has its kernel evaluated anew.
    log_degrees = np.log(raw) - 1e-9 - 8.0 * rounding
    varies = np.ptp(diagonal) > 1e-12 * diagonal.max()
    lowest = geometry.degrees * (1.0 - geometry.slack)
    ceiling = float(np.sqrt(geometry.degrees.sum() * (1.0 + geometry.slack) / lowest.min()))
    return Gate(log_quantile, log_degrees, diagonal if varies else None, ceiling)


Geometry = DenseGeometry | LowRankGeometry
