"""ICPQR: linear dimensionality reduction with a certificate."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted

from isopivot._algebra import relative_floor
from isopivot._arrays import Array, Vector, safe_norm
from isopivot._compat import get_namespace
from isopivot._extension import Projection, Substitution
from isopivot._factors import Factorization
from isopivot._points import as_points
from isopivot._validation import check_kind, with_remedies
from isopivot.certificate import Progress
from isopivot.estimators._base import DictionaryEstimator
from isopivot.estimators._parts import finite, unrotated
from isopivot.factorize import factorize


class ICPQR(DictionaryEstimator):
    """Reduce dimensions, place new points and find odd ones, with every distance certified.

    Chooses a few rows of X (the *dictionary*) by exact greedy pivoted QR and projects on
    their span. No pairwise distance of training points then changes by more than 2 mu.

    Parameters
    ----------
    mu : float, str or None, default="5%"
        Largest residual allowed, in the units of X, or `"p%"` of the largest (centred) row
        norm. 0 goes down to what the floating-point format can certify.
    n_components : int or None, default=None
        Largest dictionary allowed. At least one of `mu` and `n_components` must be set.
    center : bool, default=True
        Whether to measure points from their mean (implicitly: sparse data stays sparse).
    rotate : bool, default=False
        Whether to turn the axes to principal directions, the largest variance first.
    threshold : {"mu", "strict"} or float, default="mu"
        Distortion rate above which `predict` calls a point an anomaly: mu, the largest
        residual of a training point, or a number.
    relaxation : float in (0, 1], default=1.0
        Below 1, more pivots are taken per pass over the data: fewer passes, a larger
        dictionary, the same promise.

    Attributes
    ----------
    dictionary_indices_ : array of shape (n_components_,)
        Row numbers of the dictionary, in the order of their choice.
    dictionary_ : array or sparse matrix of shape (n_components_, n_features_in_)
        Those rows.
    components_ : array of shape (n_components_, n_features_in_)
        Orthonormal basis of their span.
    embedding_ : array of shape (n_samples, n_components_)
        Coordinates of the training points.
    residuals_ : array of shape (n_samples,)
        What the dictionary misses of each training point.
    pivot_residuals_ : array of shape (n_components_,)
        Residual at which each dictionary member entered.
    mu_, mu_strict_ : float
        Residual that is promised, and the largest that occurs.
    threshold_, offset_ : float
        Distortion rate above which points are anomalies, and minus that.
    certificate_ : Certificate
        What is promised, and how it came about.
    path_ : ndarray of shape (n_components_ + 1, 2)
        (largest residual, s) for every s: the whole mu -> dimension curve.
    mean_ : array of shape (n_features_in_,) or None
        What is subtracted from every point.
    calibration_ : Calibration or None
        How `calibrate` set the threshold.
    n_components_ : int
        Size of the dictionary.
    n_features_in_ : int
        Number of features seen in `fit`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, when X had string names.

    See Also
    --------
    isopivot.icpqr : The function behind this estimator.

    Notes
    -----
    Algorithms 1-3 of "Incomplete Pivoted QR-based Dimensionality Reduction" (Bermanis,
    Rotbart, Salhov, Averbuch) with the corrections of docs/errata.md. Cost: n m s
    multiplications and O(n s) memory beside X. The residual is blind to anomalies inside
    the span of the dictionary, and to all of them once s reaches the number of features.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from isopivot import ICPQR
    >>> X = load_digits().data
    >>> model = ICPQR(mu=20.0).fit(X)
    >>> model.embedding_.shape
    (1797, 29)
    >>> bool(model.certificate_.distortion_bound <= 40.0)
    True
    >>> int((model.predict(X) == 1).sum())
    1797
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **DictionaryEstimator._parameter_constraints,
        "center": ["boolean"],
    }
    _reads_all = True

    def __init__(
        self,
        mu: float | str | None = "5%",
        n_components: int | None = None,
        *,
        center: bool = True,
        rotate: bool = False,
        threshold: float | str = "mu",
        relaxation: float = 1.0,
    ) -> None:
        self.mu = mu
        self.n_components = n_components
        self.center = center
        self.rotate = rotate
        self.threshold = threshold
        self.relaxation = relaxation

    def _finds_nan(self, X: Any) -> bool:
        # Every number is multiplied; a product with NaN is NaN.
        return isinstance(self._extension, Projection) and self._extension.in_place(X)

    @property
    def components_(self) -> Array:
        """Orthonormal basis of the dictionary's span, as rows."""
        if "_extension" not in vars(self):
            raise AttributeError("components_ is there after fit; call fit first")
        basis = self._extension.basis
        return basis if self._rotation is None else self._rotation.T @ basis

    def inverse_transform(self, X: Any) -> Array:
        """Return the points of the original space with the given coordinates.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_components_)
            Coordinates, as `transform` gives them.

        Returns
        -------
        array of shape (n_samples, n_features_in_)
            The orthogonal projections: a training point comes back within its residual.
        """
        check_is_fitted(self)
        xp, _ = get_namespace(X)
        check_kind(X)
        with with_remedies():
            F = check_array(X, dtype=[xp.float64, xp.float32], ensure_min_features=0)
        if F.shape[1] != self.n_components_:
            raise ValueError(
                f"got {F.shape[1]} coordinates per point; allowed is {self.n_components_}, the "
                "size of the dictionary; pass what transform returned"
            )
        points = F @ self.components_
        return finite(points if self.mean_ is None else points + self.mean_)

    def _factorize(self, X: Any, progress: Progress) -> Factorization:
        points = as_points(X, center=self.center)
        return factorize(
            points,
            mu=self.mu,
            n_components=self.n_components,
            relaxation=self.relaxation,
            progress=progress,
        )

    def _extension_of(self, dictionary: Any, factorization: Factorization) -> Any:
        self.mean_ = factorization.mean
        noise = self._relative_floor(factorization.certificate.n_components)
        if factorization.basis is not None:
            return Projection(factorization.basis, factorization.mean, noise)
        assert factorization.triangle is not None
        return Substitution.of(dictionary, factorization.triangle, factorization.mean, noise)

    def _basis_of(self, k: int) -> Array | None:
        return self._extension.basis[:k, :] if isinstance(self._extension, Projection) else None

    def _warn_if_blind(self, rate: float) -> None:
        if self.n_components_ == self.n_features_in_:
            seen = f"the dictionary spans all {self.n_features_in_} features: every residual is "
            seen += "rounding, and no point will be called an anomaly"
        elif rate <= self.certificate_.accuracy_floor:  # constant or dependent features
            seen = f"the dictionary of {self.n_components_} members spans all that the normal rows "
            seen += "vary in: their rates are rounding, and no point like them will be called an "
            seen += "anomaly"
        else:
            return
        warnings.warn(f"{seen}; raise mu, or use KernelICPQR", UserWarning, stacklevel=4)

    def _measured(self, X: Any) -> tuple[Vector, Vector, Vector]:
        F, r, slack = super()._measured(X)
        if isinstance(self._extension, Substitution):
            slack *= self._extension.spread(unrotated(F, self._rotation))
        return F, r, slack

    def _offset_norm(self) -> float:
        return 0.0 if self.mean_ is None else safe_norm(self.mean_)

    def _relative_floor(self, n_components: int) -> float:
        eps, route = self._eps, self.certificate_.route
        floor = relative_floor(route, n_components, self.n_features_in_, eps)
        return floor + (16.0 * eps if route == "cholesky" and eps > 1e-10 else 0.0)
