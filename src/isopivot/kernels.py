"""Kernels: similarity as an inner product in a feature space nobody has to visit.

A kernel answers three questions: the matrix k(x, y) for two sets of points, the diagonal
k(x, x), and how k(x, p) changes with x (for `explain`). Everything is float64.

    rbf          exp(-||x-y||^2 / epsilon)
    exponential  exp(-u),                          u = ||x-y|| / sqrt(epsilon)
    laplacian    exp(-u),                          u = ||x-y||_1 / sqrt(epsilon)
    matern32     (1 + sqrt(3) u) exp(-sqrt(3) u),  u = ||x-y|| / sqrt(epsilon)
    cosine       <x, y> / (||x|| ||y||),           0 where a point is 0
    polynomial   (gamma <x, y> + coef0)^degree
    linear       <x, y>
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal, Protocol, get_args

import numpy as np
from scipy import sparse
from scipy.spatial.distance import cdist, pdist

from isopivot import _native
from isopivot._arrays import Vector

Radial = Literal["rbf", "exponential", "laplacian", "matern32"]
KernelName = Literal[
    "rbf", "exponential", "laplacian", "matern32", "cosine", "polynomial", "linear", "precomputed"
]
RADIAL: tuple[str, ...] = get_args(Radial)
NAMES: tuple[str, ...] = get_args(KernelName)
_CLOSE = 1e4  # pairs are close when their squared distance is this much below their norms
_SAMPLE = 2000  # rows that the median distance is taken over


class Kernel(Protocol):
    """What the Gram source and the out-of-sample extension need of a kernel."""

    def matrix(self, X: Any, Y: Any) -> Vector:
        """Return k(x, y) for all pairs of rows, shape (len(X), len(Y))."""
        ...

    def diagonal(self, X: Any) -> Vector:
        """Return k(x, x) for every row."""
        ...

    def roundings(self, n_features: int, largest2: float) -> float:
        """Return the rounding error of one entry, in units of eps times the largest.

        `largest2` is the largest squared norm of a point.
        """
        ...


@dataclass(frozen=True)
class RadialKernel:
    """A function of the distance; 1 on the diagonal."""

    name: Radial
    epsilon: float

    def matrix(self, X: Any, Y: Any) -> Vector:
        u = self._exponent(X, Y)
        if self.name == "matern32":
            return (1.0 - u) * np.exp(u)
        return np.exp(u, out=u)

    def log_matrix(self, X: Any, Y: Any) -> Vector:
        """Return log k(x, y), finite also where k(x, y) is too small for a float."""
        u = self._exponent(X, Y)
        return u + np.log1p(-u) if self.name == "matern32" else u

    def _exponent(self, X: Any, Y: Any) -> Vector:
        """Return what stands in the exponential function; at most 0."""
        if self.name == "laplacian":
            return np.asarray(_manhattan(X, Y) / -np.sqrt(self.epsilon))
        sizes2 = norms2_of(X), norms2_of(Y)
        d2 = squared_distances(X, Y, *sizes2)
        largest2 = sizes2[0].max(initial=0.0) + sizes2[1].max(initial=0.0)
        if self.name == "exponential" or largest2 > _CLOSE * self.epsilon:
            _mend_close_pairs(d2, X, Y)
        if self.name == "rbf":
            d2 /= -self.epsilon
            return d2
        u = np.sqrt(d2, out=d2)
        u /= -np.sqrt(self.epsilon / (3.0 if self.name == "matern32" else 1.0))
        return u

    def diagonal(self, X: Any) -> Vector:
        return np.ones(X.shape[0])

    def roundings(self, n_features: int, largest2: float) -> float:
        if self.name == "laplacian":
            return 30.0 + n_features
        # Distances by inner products are off by eps times squared norms, which the kernel
        # divides by epsilon; where that is much, close pairs are measured by differences.
        with np.errstate(over="ignore"):
            spread2 = np.float64(largest2) / self.epsilon
        if not spread2 < 1.0 / np.finfo(np.float64).eps:
            return math.inf
        return float(30.0 + n_features + 4.0 * min(spread2, _CLOSE))

    def diagonal_gradient(self, X: Vector) -> Vector:
        """Return the gradient of k(x, x): zero."""
        return np.zeros_like(X)

    def weighted_gradient(self, a: Vector, X: Vector, P: Vector) -> Vector:
        """Return the gradient of sum_p a_p k(x, p) for every row x."""
        root = np.sqrt(self.epsilon)
        W = a * self._slope(X, P)
        if self.name == "laplacian":
            signs = np.sign(X[:, None, :] - P[None, :, :]) if W.size else np.zeros((*W.shape, 1))
            return np.einsum("ip,ipj->ij", W / root, signs) if W.size else np.zeros_like(X)
        return np.asarray(W.sum(axis=1)[:, None] * X - W @ P)

    def _slope(self, X: Vector, P: Vector) -> Vector:
        """Return w with d k(x, p) / dx = w (x - p); times the signs for the laplacian."""
        if self.name == "laplacian":
            return -self.matrix(X, P)
        if self.name == "rbf":
            return -2.0 / self.epsilon * self.matrix(X, P)
        root = np.sqrt(self.epsilon)
        d = np.sqrt(squared_distances(X, P))
        if self.name == "matern32":
            return np.asarray(-3.0 / self.epsilon * np.exp(-np.sqrt(3.0) / root * d))
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(d > 0, -self.matrix(X, P) / (root * d), 0.0)


@dataclass(frozen=True)
class InnerKernel:
    """A function of the inner product: `linear`, `polynomial`, or `cosine`."""

    name: Literal["linear", "polynomial", "cosine"]
    degree: float = 3.0
    gamma: float = 1.0
    coef0: float = 1.0

    def matrix(self, X: Any, Y: Any) -> Vector:
        U = _products(X, Y)
        if self.name == "linear":
            return U
        if self.name == "polynomial":
            with np.errstate(over="ignore", invalid="ignore"):
                return np.asarray((self.gamma * U + self.coef0) ** self.degree)
        U /= _lengths(X)[:, None]
        U /= _lengths(Y)[None, :]
        return U

    def diagonal(self, X: Any) -> Vector:
        norms2 = norms2_of(X)
        if self.name == "linear":
            return norms2
        if self.name == "polynomial":
            with np.errstate(over="ignore", invalid="ignore"):
                return np.asarray((self.gamma * norms2 + self.coef0) ** self.degree)
        return (norms2 > 0).astype(np.float64)

    def diagonal_gradient(self, X: Vector) -> Vector:
        """Return the gradient of k(x, x)."""
        if self.name == "linear":
            return 2.0 * X
        if self.name == "cosine":
            return np.zeros_like(X)
        inner = self.gamma * norms2_of(X) + self.coef0
        return np.asarray(
            (2.0 * self.degree * self.gamma * inner ** (self.degree - 1.0))[:, None] * X
        )

    def weighted_gradient(self, a: Vector, X: Vector, P: Vector) -> Vector:
        """Return the gradient of sum_p a_p k(x, p) for every row x."""
        if self.name == "linear":
            return a @ P
        if self.name == "cosine":
            K, lengths = self.matrix(X, P), _lengths(X)[:, None]
            toward = (a / _lengths(P)[None, :]) @ P / lengths
            return np.asarray(toward - (a * K).sum(axis=1)[:, None] * X / lengths**2)
        inner = self.gamma * _products(X, P) + self.coef0
        return np.asarray((a * self.degree * self.gamma * inner ** (self.degree - 1.0)) @ P)

    def roundings(self, n_features: int, largest2: float) -> float:
        per_product = 30.0 + n_features
        return per_product * max(1.0, self.degree) if self.name == "polynomial" else per_product


@dataclass(frozen=True)
class CallableKernel:
    """A user's function `(X, Y, **params) -> matrix`."""

    function: Callable[..., Any]
    params: tuple[tuple[str, Any], ...] = ()

    def matrix(self, X: Any, Y: Any) -> Vector:
        K = self.function(X, Y, **dict(self.params))
        # A copy: what a callable returns is its own, and will be overwritten here.
        K = np.array(K.toarray() if sparse.issparse(K) else K, dtype=np.float64)
        if K.shape != (X.shape[0], Y.shape[0]):
            raise ValueError(
                f"got a kernel matrix of shape {K.shape} from the callable; allowed is "
                f"({X.shape[0]}, {Y.shape[0]}), one row per point of its first argument; return "
                "that matrix"
            )
        return K

    def diagonal(self, X: Any) -> Vector:
        # Row by row: a callable only promises matrices, and n x n must never exist.
        return np.array([self.matrix(X[i : i + 1], X[i : i + 1])[0, 0] for i in range(X.shape[0])])

    def roundings(self, n_features: int, largest2: float) -> float:
        return 10.0 + n_features


def make_kernel(
    kernel: str | Callable[..., Any], epsilon: float, params: dict[str, Any] | None, n_features: int
) -> Kernel:
    """Return the kernel of that name; its parameters were validated before."""
    params = params or {}
    if callable(kernel):
        return CallableKernel(kernel, tuple(params.items()))
    if kernel in RADIAL:
        return RadialKernel(kernel, epsilon)  # type: ignore[arg-type]
    gamma = params.get("gamma")
    return InnerKernel(
        kernel,  # type: ignore[arg-type]
        degree=float(params.get("degree", 3)),
        gamma=1.0 / n_features if gamma is None else float(gamma),
        coef0=float(params.get("coef0", 1)),
    )


def check_kernel(kernel: Any, params: Any) -> None:
    """Raise unless `kernel` is a name or a callable and `params` fit it."""
    if not callable(kernel) and not (isinstance(kernel, str) and kernel in NAMES):
        raise ValueError(
            f"got kernel={kernel!r}; allowed are {', '.join(NAMES)} or a callable "
            "(X, Y) -> matrix; pass one of these"
        )
    if params is not None and not isinstance(params, dict):
        raise TypeError(
            f"got kernel_params={params!r} of type {type(params).__name__}; allowed is a dict or "
            "None; pass for example {'degree': 2} with kernel='polynomial'"
        )
    known = {"degree", "gamma", "coef0"} if kernel == "polynomial" else set()
    unknown = set(params or {}) - known
    if unknown and not callable(kernel):
        raise ValueError(
            f"got kernel_params {sorted(unknown)} for kernel={kernel!r}; allowed are "
            f"{sorted(known) or 'none'}; drop them or choose another kernel"
        )
    if kernel == "polynomial":
        _check_polynomial(params or {})


def median_epsilon(X: Any, name: str, measured: Callable[[Any], Any]) -> float:
    """Return the median squared distance in the kernel's metric, over a seeded sample.

    Of pairs i != j. Where more than half of the pairs are duplicates the median is 0, and
    the mean of the others is taken; 1.0 where all points are the same. `measured` brings
    rows into the frame of the kernel.
    """
    rows = np.arange(X.shape[0])
    if len(rows) > _SAMPLE:
        rows = np.sort(np.random.default_rng(0).choice(len(rows), _SAMPLE, replace=False))
    Y = measured(X[rows])
    Y = Y.toarray() if sparse.issparse(Y) else Y
    d2 = pdist(Y, "cityblock") ** 2 if name == "laplacian" else pdist(Y, "sqeuclidean")
    if len(d2) == 0 or d2.max() == 0.0:
        return 1.0
    median = float(np.median(d2))
    return median if median > 0.0 else float(d2[d2 > 0].mean())


def squared_distances(
    X: Any, Y: Any, x_norms2: Vector | None = None, y_norms2: Vector | None = None
) -> Vector:
    """Return squared Euclidean distances of all pairs, by one matrix product."""
    d2 = _products(-2.0 * X, Y)
    d2 += (norms2_of(X) if x_norms2 is None else x_norms2)[:, None]
    d2 += (norms2_of(Y) if y_norms2 is None else y_norms2)[None, :]
    return np.maximum(d2, 0.0, out=d2)


def _mend_close_pairs(d2: Vector, X: Any, Y: Any) -> None:
    """Measure pairs whose squared distance cancelled, from differences, in place."""
    size2 = norms2_of(X)[:, None] + norms2_of(Y)[None, :]
    i, j = np.nonzero(d2 < size2 / _CLOSE)
    step = max(1, (1 << 20) // max(1, X.shape[1]))
    for start in range(0, len(i), step):
        a, b = i[start : start + step], j[start : start + step]
        d2[a, b] = norms2_of(X[a] - Y[b])


def _manhattan(X: Any, Y: Any) -> Vector:
    if sparse.issparse(X) or sparse.issparse(Y):
        from sklearn.metrics.pairwise import manhattan_distances

        X, Y = (_short_indices(sparse.csr_matrix(M)) for M in (X, Y))
        return np.asarray(manhattan_distances(X, Y))
    return np.asarray(cdist(X, Y, "cityblock"))


def _short_indices(X: Any) -> Any:
    # scikit-learn's Manhattan distances want 32-bit indices, and sort entries in their place.
    data = X.data if X.has_canonical_format else X.data.copy()
    parts = (data, X.indices.astype(np.int32), X.indptr.astype(np.int32))
    return sparse.csr_matrix(parts, shape=X.shape)


_FEW = 1 << 12  # products below which copying one side costs more than it saves


def _products(X: Any, Y: Any) -> Vector:
    if sparse.issparse(X) and not sparse.issparse(Y):
        return np.asarray(X @ np.ascontiguousarray(Y.T))
    few = X.shape[0] * Y.shape[0] < _FEW
    if not few and _native.available(X) and _native.available(Y):
        return _native.inner(X, Y)
    U = X @ Y.T
    return np.asarray(U.toarray() if sparse.issparse(U) else U, dtype=np.float64)


def norms2_of(X: Any) -> Vector:
    """Return squared norms of dense or sparse rows."""
    if sparse.issparse(X):
        return np.asarray(X.power(2).sum(axis=1), dtype=np.float64).ravel()
    return np.asarray(np.vecdot(X, X))


def _lengths(X: Any) -> Vector:
    lengths = np.sqrt(norms2_of(X))
    return np.where(lengths > 0, lengths, 1.0)


def _check_polynomial(params: dict[str, Any]) -> None:
    gamma = params.get("gamma")
    degree, coef0 = params.get("degree", 3), params.get("coef0", 1)
    numbers = [degree, coef0, 1.0 if gamma is None else gamma]
    real = all(isinstance(v, Real) and np.isfinite(float(v)) for v in numbers)
    # Non-negative coefficients of powers of <x, y> make it positive semi-definite.
    if not real or degree != int(degree) or degree < 1 or coef0 < 0 or numbers[2] <= 0:
        raise ValueError(
            f"got kernel_params={params!r}; allowed are an integer degree >= 1, gamma > 0 and "
            "coef0 >= 0, which make the polynomial kernel positive semi-definite; change them"
        )
