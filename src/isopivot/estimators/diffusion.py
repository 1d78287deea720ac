"""DiffusionICPQR: certified diffusion maps (the paper's section 3)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, ClassVar, NoReturn

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.utils.validation import check_is_fitted

from isopivot._algebra import relative_floor
from isopivot._arrays import Array, Vector, row_blocks
from isopivot._cholesky import Cholesky
from isopivot._extension import Projection
from isopivot._factors import Factorization
from isopivot._gram import KernelGram, PrecomputedGram
from isopivot._greedy import greedy
from isopivot._points import as_points
from isopivot._validation import check_dimension, resolve_mu
from isopivot.certificate import AccuracyError, Progress
from isopivot.diffusion import (
    Gate,
    Geometry,
    LowRankGeometry,
    choose_rank,
    dense_geometry,
    make_gate,
)
from isopivot.estimators._base import DictionaryEstimator
from isopivot.estimators._parts import finite
from isopivot.estimators.kernel import KernelChoice, constant_or_none
from isopivot.factorize import factorize, sign
from isopivot.kernels import RadialKernel

DENSE_FIRST = 2_000  # up to this many points the exact route is tried first
DENSE_MOST = 10_000  # and up to this many it is possible at all (800 MB a matrix)


class DiffusionICPQR(KernelChoice):
    """Diffusion maps whose every diffusion distance is certified.

    A random walk on the data, with steps as likely as the kernel says, makes two points
    close when their walks after t steps go to the same places. The embedding keeps these
    diffusion distances up to 2 mu, places new points, and tells which of them are odd.

    Parameters
    ----------
    mu : float, str or None, default="5%"
        Largest residual allowed, or `"p%"` of the median norm of a point in the diffusion
        geometry.
    n_components : int or None, default=None
        Largest dictionary allowed. At least one of `mu` and `n_components` must be set.
    kernel : str or callable, default="rbf"
        As in `KernelICPQR`; its values must not be negative.
    epsilon, epsilon_scale, kernel_params
        As in `KernelICPQR`.
    t : int, default=1
        Number of steps of the walk.
    alpha : float, default=0.0
        Density normalisation of Coifman and Lafon; 0 is the paper's kernel.
    method : {"auto", "dense", "low_rank"}, default="auto"
        `dense` holds n x n matrices and is exact. `low_rank` factors the kernel first and
        never does; its error is bounded and part of the certificate (for alpha = 0; with
        another alpha `certified` is False). `auto` is dense up to 2,000 points; beyond,
        low_rank, or dense up to 10,000 points where the kernel has no low rank.
    far_quantile : float in [0, 1), default=0.01
        New points whose sum of kernels falls below this quantile of the (leave-one-out)
        degrees of the training points are abnormal whatever their residual.
    rotate, threshold, relaxation
        As in `ICPQR`; the default threshold is `"strict"`.

    Attributes
    ----------
    degrees_ : ndarray of shape (n_samples,)
        Degrees of the training points in the kernel's graph.
    dictionary_indices_, dictionary_, embedding_, residuals_, pivot_residuals_, mu_, \
mu_strict_, threshold_, offset_, certificate_, path_, calibration_, n_components_, \
epsilon_, mean_, n_features_in_, feature_names_in_
        As in `KernelICPQR`; lengths are those of the diffusion geometry, and residuals
        include the error of the route.

    Notes
    -----
    Algorithms 4 and 5 of the paper with errata 12-17. Placing new points needs the kernel
    to all training points, so the estimator keeps the training rows, also when saved.

    Examples
    --------
    >>> from sklearn.datasets import make_swiss_roll
    >>> from isopivot import DiffusionICPQR
    >>> X = make_swiss_roll(400, random_state=0)[0]
    >>> model = DiffusionICPQR("20%", epsilon=9.0).fit(X)
    >>> model.certificate_.certified, model.certificate_.route
    (True, 'diffusion-dense')
    >>> model.predict([[0.0, 10.0, 100.0]])
    array([-1])
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **DictionaryEstimator._parameter_constraints,
        **dict.fromkeys(
            (
                "kernel",
                "epsilon",
                "epsilon_scale",
                "kernel_params",
                "t",
                "alpha",
                "method",
                "far_quantile",
            ),
            "no_validation",
        ),
    }
    _kept_by_truncation: ClassVar[tuple[str, ...]] = (
        *DictionaryEstimator._kept_by_truncation,
        "epsilon_",
        "degrees_",
        "_frame",
        "_kernel",
        "_walk",
        "_route_errors",
        "_certifiable",
        "_median_norm",
    )

    def __init__(
        self,
        mu: float | str | None = "5%",
        n_components: int | None = None,
        *,
        kernel: str | Callable[..., Any] = "rbf",
        epsilon: float | str = "median",
        epsilon_scale: float = 1.0,
        kernel_params: dict[str, Any] | None = None,
        t: int = 1,
        alpha: float = 0.0,
        method: str = "auto",
        far_quantile: float = 0.01,
        rotate: bool = False,
        threshold: float | str = "strict",
        relaxation: float = 1.0,
    ) -> None:
        self.mu = mu
        self.n_components = n_components
        self.kernel = kernel
        self.epsilon = epsilon
        self.epsilon_scale = epsilon_scale
        self.kernel_params = kernel_params
        self.t = t
        self.alpha = alpha
        self.method = method
        self.far_quantile = far_quantile
        self.rotate = rotate
        self.threshold = threshold
        self.relaxation = relaxation

    # -- fitting --------------------------------------------------------------------------

    def _factorize(self, X: Any, progress: Progress) -> Factorization:
        check_walk(self.t, self.alpha, self.method, self.far_quantile)
        check_dimension(self.n_components, X.shape[0], self.mu, "rows")
        source = self._source(X)
        geometry, Z, raw = self._geometry(source)
        norms = np.linalg.norm(Z, axis=1)
        self._median_norm = float(np.median(norms))
        wanted = resolve_mu(self.mu, self._median_norm)
        error = float(geometry.error.max())
        result = factorize(
            as_points(Z, center=False),
            mu=None if wanted is None else max(wanted - error, 0.0),
            n_components=limited(self.n_components, Z),
            relaxation=self.relaxation,
            progress=progress,
        )
        self._route_errors = geometry.error
        self.degrees_ = geometry.degrees
        rounding = source.roundings * float(np.finfo(np.float64).eps)
        gate = make_gate(raw, source.norms2, geometry, self.far_quantile, rounding)
        self._walk = Walk(geometry, self._log_kernel(X), gate)
        # Kernel entries, t factors of them, and degrees carry their own rounding.
        blur = 2.0 * (int(self.t) + 1) * rounding * float(norms.max())
        if X.dtype == np.float32:  # coordinates are stored in this format
            blur += float(np.finfo(np.float32).eps) * float(norms.max())
        return self._signed(X, source, result, wanted, blur)

    def _signed(
        self, X: Any, source: Any, result: Factorization, wanted: float | None, blur: float
    ) -> Factorization:
        """Return the factorization of Z as one of the exact diffusion geometry."""
        low_rank = isinstance(self._walk.geometry, LowRankGeometry)
        old = result.certificate
        residuals = np.asarray(result.residuals) + self._route_errors
        certificate = sign(
            residuals,
            mu=wanted,
            floor=old.accuracy_floor + blur,
            n_components=old.n_components,
            dtype=np.dtype(X.dtype).name,
            route="diffusion-low_rank" if low_rank else "diffusion-dense",
            passes=old.passes,
            stopped_by=old.stopped_by,
            kernel_evaluations=source.evaluations,
            route_error=float(np.max(self._route_errors)),
        )
        # The error of the density normalisation is not bounded.
        self._certifiable = not (low_rank and self.alpha)
        if not self._certifiable:
            certificate = replace(certificate, certified=False)
        coordinates = result.coordinates.astype(X.dtype, copy=False)
        return replace(
            result, coordinates=coordinates, residuals=residuals, certificate=certificate
        )

    def _geometry(self, source: KernelGram | PrecomputedGram) -> tuple[Geometry, Vector, Vector]:
        """Return geometry and Z by the route asked for, and lower bounds of the degrees."""
        t, alpha = int(self.t), float(self.alpha)
        if self.method == "low_rank" and self._precomputed:
            check_constant(source.norms2)
        large = source.n > DENSE_FIRST and not self._precomputed
        if self.method == "low_rank" or (self.method == "auto" and large):
            found = self._low_rank(source, t, alpha)
            if found is not None:
                return found
            if self.method == "low_rank" or source.n > DENSE_MOST:
                raise AccuracyError(
                    f"mu={self.mu!r} needs more columns of the kernel than pay off at "
                    f"{source.n} points, or more digits than it has; use a larger epsilon or mu, "
                    f"or method='dense' up to about {DENSE_MOST} points"
                )
        K = positive_matrix(source)
        raw = K.sum(axis=1)
        return *dense_geometry(K, t, alpha), raw

    def _low_rank(
        self, source: KernelGram | PrecomputedGram, t: int, alpha: float
    ) -> tuple[LowRankGeometry, Vector, Vector] | None:
        factor = Cholesky(source)
        # Beyond half of the columns dense is cheaper; asked for by name, it goes on.
        most = source.n if self.method == "low_rank" else max(1, source.n // 2)
        eps = float(np.finfo(np.float64).eps)

        def refine(tau: float) -> object:
            return greedy(factor, mu=tau, n_components=most, limit=most, relaxation=1.0, eps=eps)

        def wanted(geometry: LowRankGeometry) -> float:
            median = float(np.median(geometry.norms))
            mu = resolve_mu(self.mu, median)
            return 0.01 * median if mu is None else mu

        geometry = choose_rank(factor, refine, t, alpha, wanted, most)
        if source.smallest < 0.0:
            raise_negative(source.smallest)
        if geometry is None:
            return None
        L = np.asarray(factor.coordinates)
        E = factor.residual2 + geometry.rounding
        raw = L.sum(axis=1) @ L
        raw = np.maximum(raw - np.sqrt(E) * np.sqrt(E).sum(), source.norms2)
        return geometry, geometry.embed(L), raw

    def _log_kernel(self, X: Any) -> LogKernel:
        if self._precomputed:
            return LogKernel(None, None, None, constant_or_none(X.diagonal()))
        return LogKernel(self._kernel, self._frame, self._frame.of(X), None)

    def _assign_factorization(self, result: Factorization) -> None:
        super()._assign_factorization(result)
        self._members = np.asarray(result.coordinates)[result.pivots]  # before any rotation

    def _extension_of(self, dictionary: Any, factorization: Factorization) -> Any:
        return DiffusionExtension(self._walk, Projection(factorization.basis, None))

    def _basis_of(self, k: int) -> Array | None:
        return self._extension.projection.basis[:k, :]

    def _percent_base(self) -> float:
        return self._median_norm

    def _resolved_threshold(self, result: Factorization) -> float:
        # A training point that comes as a new one has its error bounded anew.
        base = super()._resolved_threshold(result)
        return base + (result.certificate.route_error if isinstance(self.threshold, str) else 0.0)

    def _relative_floor(self, n_components: int) -> float:
        return relative_floor("orthonormal", n_components, 0, self._eps)

    # -- placing points -------------------------------------------------------------------

    def _coordinates(self, X: Any) -> Array:
        return super()._coordinates(X).astype(self.certificate_.dtype, copy=False)

    def distortion_rate(self, X: Any) -> Array:
        """Return mu(x): how far each point's walk lies from the dictionary's (Algorithm 5).

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Points; with a precomputed kernel, k(x, training points).

        Returns
        -------
        ndarray of shape (n_samples,)
            In units of the diffusion geometry, the error of the route included. Points far
            from all training points have finite rates above all others, the larger the
            farther.
        """
        check_is_fitted(self)
        X = self._validated(X)
        rates = np.minimum(self._extension.rates(X), np.finfo(X.dtype).max)
        return finite(rates.astype(X.dtype, copy=False))

    def _measured(self, X: Any) -> tuple[Vector, Vector, Vector]:
        check_is_fitted(self)
        F, r, a = self._extension.measured(self._validated(X))
        size = np.hypot(np.linalg.norm(F, axis=1), r)
        # Kernel values carry the rounding that the certificate knows of.
        slack = self._relative_floor(self.n_components_) * size + self.certificate_.accuracy_floor
        return F, r, slack + a

    def _contributions(self, X: Any) -> Vector | None:
        """Return None: a walk goes through all training points, not along features."""
        return None

    def _nearest_members(self, X: Any, k: int) -> tuple[Any, Vector]:
        """Return the dictionary members nearest in the diffusion geometry."""
        F = np.asarray(self._extension.coordinates(X), dtype=np.float64)
        d = cdist(F, np.asarray(self._members, dtype=np.float64))
        nearest = np.argsort(d, axis=1, kind="stable")[:, : min(k, self.n_components_)]
        return self.dictionary_indices_[nearest], np.take_along_axis(d, nearest, axis=1)


@dataclass(frozen=True, eq=False)
class LogKernel:
    """log k(x, training points) and k(x, x); a precomputed kernel brings the former along."""

    kernel: Any
    frame: Any
    training: Any  # in the frame
    constant: float | None

    def __call__(self, X: Any) -> tuple[Vector, Vector]:
        if self.kernel is None:
            K = np.asarray(X, dtype=np.float64)
            return _log(K), np.full(len(K), self.constant or 0.0)
        Y = self.frame.of(X)
        if isinstance(self.kernel, RadialKernel):
            return self.kernel.log_matrix(Y, self.training), self.kernel.diagonal(Y)
        return _log(self.kernel.matrix(Y, self.training)), self.kernel.diagonal(Y)


@dataclass(frozen=True, eq=False)
class Walk:
    """Where new points are in the diffusion geometry, and whether they are too far for it."""

    geometry: Geometry
    log_kernel: LogKernel
    gate: Gate

    def blocks(self, X: Any) -> Iterator[tuple[Vector, Vector, Vector]]:
        """Yield z(x), a(x) and log k(x, training points) for blocks of rows."""
        for rows in row_blocks(X.shape[0], 8 * len(self.geometry.degrees)):
            log_k, k_xx = self.log_kernel(X[rows])
            Z, error = self.geometry.place(log_k, k_xx)
            yield Z, error, log_k


@dataclass(frozen=True, eq=False)
class DiffusionExtension:
    """Algorithm 5: a new point's walk, projected on the dictionary's."""

    walk: Walk
    projection: Projection

    @property
    def basis(self) -> Array:
        """Orthonormal basis of the dictionary in the diffusion geometry."""
        return self.projection.basis

    def coordinates(self, X: Any) -> Vector:
        """Return the coordinates (n, s) of the rows of `X`."""
        return np.concatenate([self.projection.coordinates(Z) for Z, _, _ in self.walk.blocks(X)])

    def measured(self, X: Any) -> tuple[Vector, Vector, Vector]:
        """Return coordinates, residuals and route errors, without regard to the gate."""
        parts = [
            (self.projection.coordinates(Z), self.projection.rates(Z), a)
            for Z, a, _ in self.walk.blocks(X)
        ]
        F, r, a = (np.concatenate(part) for part in zip(*parts, strict=True))
        return F, r, np.minimum(a, 2.0 * self.walk.gate.ceiling)

    def rates(self, X: Any) -> Vector:
        """Return mu(x), bounded from above by the error of the route."""
        parts = []
        for Z, error, log_k in self.walk.blocks(X):
            parts.append(self.walk.gate.rates(log_k, self.projection.rates(Z) + error))
        return np.concatenate(parts)


def positive_matrix(source: KernelGram | PrecomputedGram) -> Vector:
    """Return the whole kernel matrix; raise where it makes no random walk."""
    everyone = np.arange(source.n)
    K = source.block(everyone, slice(0, source.n))
    if K.min() < 0.0 or not (K.sum(axis=1) > 0.0).all():
        raise_negative(float(K.min()))
    return K


def raise_negative(smallest: float) -> NoReturn:
    """Refuse a kernel that makes no random walk."""
    raise ValueError(
        f"got kernel values down to {smallest:.3g}; allowed are values >= 0 and degrees > 0, "
        "which make a random walk; use a radial kernel such as rbf"
    )


def check_constant(diagonal: Vector) -> None:
    """Raise unless k(x, x) is the same for all points, so that it is known for new ones."""
    if constant_or_none(diagonal) is None:
        raise ValueError(
            "got method='low_rank' and a precomputed kernel whose diagonal varies; allowed is a "
            "constant diagonal, because new points come without theirs; use method='dense'"
        )


def limited(n_components: int | None, Z: Vector) -> int | None:
    """Return n_components, at most the rank that the low-rank route has."""
    return None if n_components is None else min(n_components, Z.shape[1])


def check_walk(t: Any, alpha: Any, method: Any, far_quantile: Any) -> None:
    """Raise unless the parameters of the walk are what they must be."""
    if isinstance(t, bool) or not isinstance(t, Integral) or int(t) < 1:
        raise ValueError(f"got t={t!r}; allowed is an integer >= 1; pass the number of steps")
    if isinstance(alpha, bool) or not isinstance(alpha, Real) or not math.isfinite(alpha):
        raise ValueError(f"got alpha={alpha!r}; allowed is a finite number; 0 is the plain kernel")
    if method not in ("auto", "dense", "low_rank"):
        raise ValueError(
            f"got method={method!r}; allowed are 'auto', 'dense' and 'low_rank'; pass one of these"
        )
    number = isinstance(far_quantile, Real) and not isinstance(far_quantile, bool)
    if not number or not 0.0 <= float(far_quantile) < 1.0:
        raise ValueError(
            f"got far_quantile={far_quantile!r}; allowed is a number in [0, 1); pass 0.01 for 1 %"
        )


def _log(K: Vector) -> Vector:
    if K.min(initial=0.0) < 0.0:
        raise_negative(float(K.min()))
    with np.errstate(divide="ignore"):
        return np.asarray(np.maximum(np.log(K), -1e300))
