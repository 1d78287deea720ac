"""KernelICPQR: the dictionary in a kernel's feature space."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from isopivot._algebra import relative_floor
from isopivot._arrays import Array, Vector, binary_exponent, times_power_of_two
from isopivot._extension import KernelSubstitution
from isopivot._factors import Factorization
from isopivot._gram import Frame, KernelGram, PrecomputedGram
from isopivot.certificate import Progress
from isopivot.estimators._base import DictionaryEstimator
from isopivot.estimators._parts import finite
from isopivot.factorize import factorize_gram
from isopivot.kernels import (
    RADIAL,
    InnerKernel,
    Kernel,
    RadialKernel,
    check_kernel,
    make_kernel,
    median_epsilon,
)


class KernelChoice(DictionaryEstimator):
    """An estimator with a kernel: its parameters made into a source of inner products."""

    kernel: str | Callable[..., Any]
    epsilon: float | str
    epsilon_scale: float
    kernel_params: dict[str, Any] | None

    @property
    def _precomputed(self) -> bool:
        return isinstance(self.kernel, str) and self.kernel == "precomputed"

    def _source(self, X: Any) -> KernelGram | PrecomputedGram:
        """Check the parameters; set epsilon_, mean_ and what evaluates the kernel."""
        check_kernel(self.kernel, self.kernel_params)
        check_epsilon(self.epsilon, self.epsilon_scale)
        self.epsilon_: float | None = None
        self.mean_ = None
        if self._precomputed:
            return PrecomputedGram(X)
        frame = frame_of(X, str(self.kernel))
        self.mean_ = frame.mean
        epsilon = self._resolve_epsilon(X, frame) if str(self.kernel) in RADIAL else 1.0
        self._frame = frame
        self._kernel = make_kernel(self.kernel, epsilon, self.kernel_params, X.shape[1])
        return KernelGram(X, self._kernel, frame)

    def _resolve_epsilon(self, X: Any, frame: Frame) -> float:
        """Return epsilon in the units of the frame; `epsilon_` is in those of the data."""
        if isinstance(self.epsilon, str):
            sample = median_epsilon(X, str(self.kernel), frame.of)
            epsilon = float(self.epsilon_scale) * sample
        else:
            epsilon = float(times_power_of_two(np.float64(self.epsilon), -2 * frame.exponent))
        if not 0.0 < epsilon < math.inf:
            raise ValueError(
                f"got epsilon={self.epsilon!r} for data whose largest entry is about "
                f"2**{frame.exponent}; allowed is a squared length comparable with squared "
                'distances; pass epsilon="median" or rescale the data'
            )
        self.epsilon_ = float(times_power_of_two(np.float64(epsilon), 2 * frame.exponent))
        check_epsilon_range(self.epsilon_, frame)
        return epsilon

    def _assign(self, X: Any, result: Factorization) -> None:
        if not self._precomputed:
            super()._assign(X, result)
            return
        self.__dict__.pop("dictionary_", None)  # of an earlier fit with another kernel
        self.dictionary_indices_ = result.pivots
        self._assign_factorization(result)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self._precomputed
        tags.input_tags.sparse = not self._precomputed and not callable(self.kernel)
        tags.array_api_support = False
        return tags


class KernelICPQR(KernelChoice):
    """Reduce, extend and detect in a kernel's feature space, with every distance certified.

    Chooses a few rows of X whose images span the images of all others up to mu. Only the
    diagonal, panels and the columns of the dictionary are ever evaluated: no n x n matrix.

    Parameters
    ----------
    mu : float, str or None, default=0.1
        Largest residual allowed in feature space, or `"p%"` of the largest sqrt(k(x, x)).
    n_components : int or None, default=None
        Largest dictionary allowed. At least one of `mu` and `n_components` must be set.
    kernel : str or callable, default="rbf"
        `rbf`, `exponential`, `laplacian`, `matern32`, `cosine`, `polynomial`, `linear`,
        `precomputed`, or a callable `(X, Y, **kernel_params) -> matrix` that is positive
        semi-definite.
    epsilon : float or "median", default="median"
        Squared length scale of the first four kernels; the others ignore it. `"median"` is
        the median squared distance (in the kernel's metric) of a seeded sample.
    epsilon_scale : float, default=0.5
        Factor of the median.
    kernel_params : dict or None, default=None
        `degree`, `gamma`, `coef0` of the polynomial kernel, or arguments of a callable.
    rotate : bool, default=False
        Whether to turn the axes to principal directions, the largest variance first.
    threshold : {"mu", "strict"} or float, default="mu"
        Distortion rate above which `predict` calls a point an anomaly.
    relaxation : float in (0, 1], default=1.0
        Below 1, more pivots are taken per pass: fewer passes, a larger dictionary.

    Attributes
    ----------
    dictionary_indices_, dictionary_, embedding_, residuals_, pivot_residuals_, mu_, \
mu_strict_, threshold_, offset_, certificate_, path_, calibration_, n_components_, \
n_features_in_, feature_names_in_
        As in `ICPQR`; lengths are in feature space, at most sqrt(k(x, x)). There is no
        `dictionary_` with a precomputed kernel.
    epsilon_ : float or None
        The squared length scale in use; None for kernels without one.
    mean_ : ndarray of shape (n_features_in_,) or None
        What translation-invariant kernels subtract first, for accuracy.

    See Also
    --------
    ICPQR : The linear estimator: faster, and in the units of the data.

    Notes
    -----
    Algorithm 2 of the paper on the kernel matrix (with errata 1-7), Algorithm 3 for new
    points. Memory O(n s); kernel evaluations are counted in the certificate. As a novelty
    detector, standardise the features first: see docs/detection.md, from which the
    defaults come.

    Examples
    --------
    >>> import numpy as np
    >>> from isopivot import KernelICPQR
    >>> rng = np.random.default_rng(0)
    >>> ring = rng.standard_normal((300, 2))
    >>> ring /= np.linalg.norm(ring, axis=1, keepdims=True)
    >>> model = KernelICPQR(mu=0.1).fit(ring)
    >>> model.predict([[1.0, 0.0], [0.0, 0.0], [2.0, 2.0]])
    array([ 1, -1, -1])
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **DictionaryEstimator._parameter_constraints,
        "kernel": "no_validation",
        "epsilon": "no_validation",
        "epsilon_scale": "no_validation",
        "kernel_params": "no_validation",
    }

    def __init__(
        self,
        mu: float | str | None = 0.1,
        n_components: int | None = None,
        *,
        kernel: str | Callable[..., Any] = "rbf",
        epsilon: float | str = "median",
        epsilon_scale: float = 0.5,
        kernel_params: dict[str, Any] | None = None,
        rotate: bool = False,
        threshold: float | str = "mu",
        relaxation: float = 1.0,
    ) -> None:
        self.mu = mu
        self.n_components = n_components
        self.kernel = kernel
        self.epsilon = epsilon
        self.epsilon_scale = epsilon_scale
        self.kernel_params = kernel_params
        self.rotate = rotate
        self.threshold = threshold
        self.relaxation = relaxation

    _kept_by_truncation: ClassVar[tuple[str, ...]] = (
        *DictionaryEstimator._kept_by_truncation,
        "epsilon_",
        "_roundings",
        "_diagonal",
        "_frame",
        "_kernel",
    )

    # -- fitting --------------------------------------------------------------------------

    def _factorize(self, X: Any, progress: Progress) -> Factorization:
        source = self._source(X)
        self._roundings = source.roundings
        self._diagonal = constant_or_none(source.norms2)
        return factorize_gram(
            source,
            X,
            exponent=self._unit(),
            mu=self.mu,
            n_components=self.n_components,
            relaxation=self.relaxation,
            progress=progress,
        )

    def _extension_of(self, dictionary: Any, factorization: Factorization) -> Any:
        k = factorization.certificate.n_components
        T = factorization.triangle
        assert T is not None
        values: FunctionValues | PrecomputedValues
        if self._precomputed:
            values = PrecomputedValues(factorization.pivots, self._diagonal)
        else:
            values = FunctionValues(self._kernel, self._frame, self._frame.of(dictionary))
        e = self._unit()
        return KernelSubstitution(
            values, times_power_of_two(T, -e), self._relative_floor(k) ** 2, e
        )

    def _unit(self) -> int:
        """Exponent of two that lengths in feature space are measured in: linear only."""
        return self._frame.exponent if str(self.kernel) == "linear" else 0

    # -- scores: a precomputed kernel needs k(x, x) too -----------------------------------

    def distortion_rate(self, X: Any, diagonal: Any = None) -> Array:
        """Return mu(x): how far each point's image lies from the span of the dictionary.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Points; with a precomputed kernel, k(x, training points).
        diagonal : array-like of shape (n_samples,), optional
            k(x, x), with a precomputed kernel only; may be left out when the diagonal of
            the training matrix is constant.

        Returns
        -------
        ndarray of shape (n_samples,)
            In feature-space units, at most sqrt(k(x, x)).
        """
        check_is_fitted(self)
        X = self._validated(X)
        rates = self._extension.rates(X, self._checked_diagonal(X, diagonal))
        return finite(rates.astype(X.dtype, copy=False))

    def score_samples(self, X: Any, diagonal: Any = None) -> Array:
        """Return minus the distortion rate; see `distortion_rate` for the arguments."""
        return -self.distortion_rate(X, diagonal)

    def decision_function(self, X: Any, diagonal: Any = None) -> Array:
        """Return threshold minus distortion rate; see `distortion_rate` for the arguments."""
        scores = self.score_samples(X, diagonal)
        return self.threshold_ + scores

    def fit_predict(self, X: Any, y: Any = None) -> Array:
        """Learn the dictionary of `X` and return +1 (normal) or -1 for its rows."""
        self.fit(X)
        if not self._precomputed:
            return self.predict(X)
        return self.predict(X, np.asarray(X).diagonal())

    def calibrate(self, X_normal: Any, false_alarm_rate: float = 0.01, diagonal: Any = None) -> Any:
        """Set the threshold from held-out normal points; see `ICPQR.calibrate`.

        Parameters
        ----------
        X_normal : array-like or sparse matrix of shape (n_samples, n_features)
            Normal points that were not fitted on.
        false_alarm_rate : float in (0, 1)
            Largest share of future normal points that may be called anomalies.
        diagonal : array-like of shape (n_samples,), optional
            k(x, x), with a precomputed kernel only; see `distortion_rate`.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        return self._calibrate_on(self.distortion_rate(X_normal, diagonal), false_alarm_rate)

    def predict(self, X: Any, diagonal: Any = None) -> Array:
        """Return +1 (normal) or -1 (anomaly); see `distortion_rate` for the arguments."""
        return np.where(self.decision_function(X, diagonal) >= 0, 1, -1)

    def _checked_diagonal(self, X: Any, diagonal: Any) -> Vector | None:
        if not self._precomputed:
            if diagonal is not None:
                raise ValueError(
                    f"got a diagonal with kernel={self.kernel!r}; allowed is one with "
                    "kernel='precomputed' only; leave it out"
                )
            return None
        if diagonal is None:
            if self._diagonal is None:
                raise ValueError(
                    "got no diagonal; allowed is None only when the training kernel has a "
                    "constant diagonal; pass diagonal=k(x, x) for the rows of X"
                )
            return np.full(X.shape[0], self._diagonal)
        values = np.asarray(diagonal, dtype=np.float64)
        if values.shape != (X.shape[0],) or not np.isfinite(values).all() or (values < 0).any():
            raise ValueError(
                f"got a diagonal of shape {values.shape}; allowed are {X.shape[0]} finite values "
                ">= 0, one per row of X; pass k(x, x)"
            )
        return values

    def _coordinates(self, X: Any) -> Array:
        F = super()._coordinates(X)
        return F.astype(self.certificate_.dtype, copy=False)

    def _relative_floor(self, n_components: int) -> float:
        eps = self._eps
        floor = relative_floor("cholesky", n_components, self._roundings, eps)
        return floor + (16.0 * eps if eps > 1e-10 else 0.0)

    # -- explanation ----------------------------------------------------------------------

    def _contributions(self, X: Any) -> Vector | None:
        """Return the gradient of the rate per feature; None for callables and matrices."""
        kernel = self._kernel_or_none()
        if not isinstance(kernel, RadialKernel | InnerKernel):
            return None
        Y = self._frame.of(X)
        Y = Y.toarray() if sparse.issparse(Y) else Y
        P = self._extension.values.dictionary
        P = P.toarray() if sparse.issparse(P) else P
        return rate_gradient(kernel, self._extension, X, Y, P, self._frame.exponent)

    def _kernel_or_none(self) -> Kernel | None:
        return None if self._precomputed else self._kernel

    def _nearest_members(self, X: Any, k: int) -> tuple[Any, Vector]:
        """Return the dictionary members nearest in feature space."""
        k = min(k, self.n_components_)
        K, k_xx = self._extension.values(X, self._checked_diagonal(X, None))
        k_pp = np.vecdot(self._extension.T, self._extension.T)
        d2 = np.maximum(k_xx[:, None] - 2.0 * K + k_pp[None, :], 0.0)
        nearest = np.argsort(d2, axis=1, kind="stable")[:, :k]
        return self.dictionary_indices_[nearest], np.sqrt(np.take_along_axis(d2, nearest, axis=1))


@dataclass(frozen=True, eq=False)
class FunctionValues:
    """Kernel values at the dictionary, evaluated."""

    kernel: Kernel
    frame: Frame
    dictionary: Any  # in the frame

    def __call__(self, X: Any, diagonal: Vector | None) -> tuple[Vector, Vector]:
        Y = self.frame.of(X)
        return self.kernel.matrix(Y, self.dictionary), self.kernel.diagonal(Y)


@dataclass(frozen=True, eq=False)
class PrecomputedValues:
    """Kernel values at the dictionary, picked from k(x, training points)."""

    pivots: Any
    constant: float | None

    def __call__(self, X: Any, diagonal: Vector | None) -> tuple[Vector, Vector]:
        k_xx = np.full(X.shape[0], self.constant or 0.0) if diagonal is None else diagonal
        return np.asarray(X[:, self.pivots], dtype=np.float64), k_xx


def frame_of(X: Any, kernel: str) -> Frame:
    """Return the frame a kernel measures `X` in: scaled if it allows, centred likewise."""
    if kernel not in (*RADIAL, "cosine", "linear"):
        return Frame(None, 0)
    data = X.data if sparse.issparse(X) else X
    largest = max(float(data.max()), -float(data.min())) if data.size else 0.0
    exponent = binary_exponent(largest, 0.0)
    if sparse.issparse(X) or kernel not in RADIAL:
        return Frame(None, exponent)
    mean = (
        times_power_of_two(X, -exponent).mean(axis=0, dtype=np.float64)
        if exponent
        else X.mean(axis=0, dtype=np.float64)
    )
    return Frame(times_power_of_two(mean, exponent), exponent)


def pooled_epsilon(X: Any, kernel: str) -> float:
    """Return the median squared distance of the rows in the kernel's metric and data units."""
    frame = frame_of(X, kernel)
    sample = median_epsilon(X, kernel, frame.of)
    with np.errstate(over="ignore", under="ignore"):
        epsilon = float(times_power_of_two(np.float64(sample), 2 * frame.exponent))
    check_epsilon_range(epsilon, frame)
    return epsilon


def check_epsilon_range(epsilon: float, frame: Frame) -> None:
    """Raise where squared distances leave the range of floats."""
    if not 0.0 < epsilon < math.inf:
        raise ValueError(
            f"got data whose largest entry is about 2**{frame.exponent}; allowed is data "
            "whose squared distances are floats; divide the data by a constant"
        )


def check_epsilon(epsilon: Any, scale: Any) -> None:
    """Raise unless epsilon is "median" or a number > 0, and its scale a number > 0."""
    if not (isinstance(epsilon, str) and epsilon == "median"):
        _check_positive("epsilon", epsilon, 'allowed are "median" or a finite number > 0')
    _check_positive("epsilon_scale", scale, "allowed is a finite number > 0")


def _check_positive(name: str, value: Any, allowed: str) -> None:
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real | str):
        raise TypeError(
            f"got {name}={value!r} of type {type(value).__name__}; {allowed}; pass one of these"
        )
    if isinstance(value, str) or not (math.isfinite(value) and float(value) > 0):
        raise ValueError(f"got {name}={value!r}; {allowed}; pass one of these")


def constant_or_none(diagonal: Vector) -> float | None:
    """Return the value of a constant diagonal, or None."""
    value = float(diagonal[0])
    return value if np.abs(diagonal - value).max() <= 8 * np.finfo(float).eps * value else None


def rate_gradient(
    kernel: RadialKernel | InnerKernel,
    extension: KernelSubstitution,
    X: Any,
    Y: Vector,
    P: Vector,
    exponent: int,
) -> Vector:
    """Return d mu(x) / d x_j: which features, changed a little, change the rate most.

    With weights a of the projection, mu(x)^2 = k(x, x) - 2 sum a_p k(x, p) + const to first
    order, so the gradient of mu^2 is d k(x, x) - 2 sum a_p d k(x, p).
    """
    rates = replace(extension, exponent=0).rates(X)  # in the units of the frame, as the rest
    a = extension.weights(X)
    moved2 = kernel.diagonal_gradient(Y) - 2.0 * kernel.weighted_gradient(a, Y, P)
    slope = moved2 / np.where(rates > 0, 2.0 * rates, 1.0)[:, None]
    slope[rates == 0] = 0.0
    return np.asarray(times_power_of_two(slope, extension.exponent - exponent))
