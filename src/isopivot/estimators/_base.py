"""What every estimator with one dictionary shares: scores, thresholds, truncation.

A subclass says how data becomes a factorization (`_factorize`) and how new points are
placed (`_extension_of`); this base validates, calls, and assigns.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted

from isopivot._arrays import (
    Array,
    Rows,
    Vector,
    all_finite,
    like,
    namespace,
    take_rows,
    times_power_of_two,
    to_numpy,
)
from isopivot._compat import (
    CallbackSupportMixin,
    FitTask,
    get_namespace,
    validate_data,
    with_callbacks,
)
from isopivot._factors import Factorization
from isopivot._validation import (
    assert_finite,
    check_dimension,
    check_false_alarm_rate,
    check_kind,
    check_mu,
    check_sparse,
    check_threshold,
    conformal_rank,
    finite_later,
    resolve_mu,
    with_remedies,
)
from isopivot.certificate import AccuracyError, Progress, distance_bounds, distances
from isopivot.estimators._parts import (
    finite,
    missed_norms,
    principal_rotation,
    residual_path,
    resolve_threshold,
    rotated,
    unrotated,
)
from isopivot.estimators._results import Calibration, Explanation
from isopivot.estimators._savable import Droppable, Savable, check_embedding
from isopivot.factorize import sign


class DictionaryEstimator(
    Savable, CallbackSupportMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator
):
    """Common shell of the estimators that learn one dictionary."""

    # Values of the first four are checked by functions whose errors also name the remedy.
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "mu": "no_validation",
        "n_components": "no_validation",
        "relaxation": "no_validation",
        "threshold": "no_validation",
        "rotate": ["boolean"],
    }

    # Fitted attributes that do not depend on the number of components.
    _kept_by_truncation: ClassVar[tuple[str, ...]] = (
        "n_features_in_",
        "feature_names_in_",
        "mean_",
    )

    embedding_: Any = Droppable()
    residuals_: Any = Droppable()

    # How far each training point is from where an exact route would have put it.
    _route_errors: Any = 0.0
    _reads_all = False  # whether `fit` finds NaN and infinity in any case

    # -- fitting --------------------------------------------------------------------------

    @with_callbacks
    def fit(self, X: Any, y: Any = None) -> Any:
        """Learn the dictionary of `X`.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Points as rows.
        y : None
            Ignored; present by convention.

        Returns
        -------
        self
        """
        self._validate_params()
        check_mu(self.mu)
        check_threshold(self.threshold)
        X = self._validated(X, reset=True)
        task = FitTask(self, X)
        self._assign(X, self._factorize(X, task.step))
        task.end()
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Array:
        """Learn the dictionary of `X` and return its embedding.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Points as rows.
        y : None
            Ignored; present by convention.

        Returns
        -------
        array of shape (n_samples, n_components_)
        """
        return self.fit(X).embedding_

    def fit_predict(self, X: Any, y: Any = None) -> Array:
        """Learn the dictionary of `X` and return +1 (normal) or -1 for its rows.

        With the thresholds `"mu"` and `"strict"` every training row is normal, by the
        very promise of the dictionary; a number may be below the largest residual.
        """
        return self.fit(X).predict(X)

    def _factorize(self, X: Any, progress: Progress) -> Factorization:
        raise NotImplementedError  # pragma: no cover

    def _extension_of(self, dictionary: Any, factorization: Factorization) -> Any:
        raise NotImplementedError  # pragma: no cover

    def _assign(self, X: Any, result: Factorization) -> None:
        self.dictionary_indices_ = result.pivots
        self.dictionary_ = take_rows(X, to_numpy(result.pivots))
        self._assign_factorization(result)

    def _assign_factorization(self, result: Factorization) -> None:
        """Assign what depends on the number of components; rotate if asked to."""
        self.residuals_ = result.residuals
        self.pivot_residuals_ = result.pivot_residuals
        self.certificate_ = result.certificate
        self.n_components_ = result.certificate.n_components
        self.mu_ = result.certificate.mu
        self.mu_strict_ = result.certificate.mu_strict
        self.path_ = residual_path(result, self.relaxation, self._route_errors)
        self._rotation = principal_rotation(result.coordinates) if self.rotate else None
        self.embedding_ = rotated(result.coordinates, self._rotation)
        self._extension = self._extension_of(getattr(self, "dictionary_", None), result)
        self.calibration_: Calibration | None = None
        self._set_threshold(self._resolved_threshold(result))

    def _resolved_threshold(self, result: Factorization) -> float:
        return resolve_threshold(self.threshold, result)

    def _set_threshold(self, threshold: float) -> None:
        self.threshold_ = threshold
        self.offset_ = -threshold

    def _validated(self, X: Any, *, reset: bool = False, found_later: bool = False) -> Any:
        """Return `X` as an array; with `found_later`, NaN is left to `_placed` where it can be."""
        check_kind(X)
        with with_remedies():
            xp, _ = get_namespace(X)
            later = finite_later(X)
            tags = self.__sklearn_tags__()
            X = validate_data(
                self,
                X,
                reset=reset,
                accept_sparse="csr" if tags.input_tags.sparse else False,
                dtype=[xp.float64, xp.float32],
                ensure_all_finite=not later,
            )
        check_sparse(X)
        found_later = found_later and self._finds_nan(X)
        if later and not (found_later or (reset and self._reads_all)):
            assert_finite(X, type(self).__name__)
        if not tags.array_api_support and not sparse.issparse(X):
            return to_numpy(X)
        if not reset and namespace(X) is not namespace(self.dictionary_):
            raise TypeError(
                f"got {type(X).__name__} where the estimator was fitted on "
                f"{type(self.dictionary_).__name__}; allowed are arrays of one library; convert X"
            )
        return X

    # -- placing points -------------------------------------------------------------------

    def transform(self, X: Any) -> Array:
        """Return the coordinates of points, seen or new (Algorithm 3).

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        array of shape (n_samples, n_components_)
        """
        return self._coordinates(X)

    def _coordinates(self, X: Any) -> Array:
        check_is_fitted(self)
        return rotated(self._placed(X, self._extension.coordinates), self._rotation)

    def _placed(self, X: Any, function: Callable[[Any], Array]) -> Array:
        """Return a function of points; raise for NaN in them, or in the result."""
        X = self._validated(X, found_later=True)
        with np.errstate(invalid="ignore"):
            values = function(X)
        if all_finite(values):
            return values
        assert_finite(X, type(self).__name__)
        return finite(values)

    def _finds_nan(self, X: Any) -> bool:
        """Return whether any NaN or infinity in `X` makes a coordinate or a rate one of them."""
        return False

    def distortion_rate(self, X: Any) -> Array:
        """Return mu(x): how far each point lies from the span of the dictionary.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        array of shape (n_samples,)
            In the units of the data.
        """
        check_is_fitted(self)
        return self._placed(X, self._extension.rates)

    def distance_bounds(self, X: Any, Y: Any = None) -> tuple[Vector, Vector]:
        """Return intervals that contain the true distances between points.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, n_features)
        Y : array-like or sparse matrix of shape (k, n_features), optional
            `X` itself when not given.

        Returns
        -------
        lower, upper : ndarrays of shape (n, k)
            `lower <= d <= upper`, rounding included; for training and for new points.
        """
        F, r, slack_F = self._measured(X)
        G, q, slack_G = (F, r, slack_F) if Y is None else self._measured(Y)
        lower, upper = distance_bounds(F, r, G, q)
        slack = slack_F[:, None] + slack_G[None, :]
        lower, upper = np.maximum(lower - slack, 0.0), upper + slack
        if Y is None:
            np.fill_diagonal(upper, 0.0)
        return lower, upper

    def _measured(self, X: Any) -> tuple[Vector, Vector, Vector]:
        """Return coordinates, rates, and the rounding error of both, in float64."""
        F = to_numpy(self._coordinates(X)).astype(np.float64)
        r = to_numpy(self.distortion_rate(X)).astype(np.float64)
        size = np.hypot(np.hypot.reduce(F, axis=1), r) + self._offset_norm()
        floor = self._relative_floor(self.n_components_)
        # Substitution divides by the pivots: new points feel the smallest of them.
        T = getattr(self._extension, "T", None)
        if T is not None and len(T):
            floor *= math.sqrt(np.abs(T[0, 0]) / np.abs(np.diagonal(T)).min())
        # Below the normal range results are multiples of the tiniest number.
        tiniest = float(np.finfo(self.certificate_.dtype).smallest_subnormal)
        return F, r, floor * size + (2 + self.n_components_) * tiniest

    def _offset_norm(self) -> float:
        return 0.0

    @property
    def _eps(self) -> float:
        """Machine epsilon of the format of the data."""
        return float(np.finfo(self.certificate_.dtype).eps)

    def _relative_floor(self, n_components: int) -> float:
        """Rounding error of residuals and coordinates, relative to a point's norm."""
        raise NotImplementedError  # pragma: no cover

    # -- anomaly detection ----------------------------------------------------------------

    def score_samples(self, X: Any) -> Array:
        """Return minus the distortion rate: the larger, the more normal.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        array of shape (n_samples,)
        """
        return -self.distortion_rate(X)

    def decision_function(self, X: Any) -> Array:
        """Return threshold minus distortion rate: at least 0 for normal points.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        array of shape (n_samples,)
        """
        scores = self.score_samples(X)
        return self.threshold_ + scores

    def predict(self, X: Any) -> Array:
        """Return +1 for normal points and -1 for anomalies (Definition normality).

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        array of shape (n_samples,)
            `decision_function(X) >= 0` as +1 and -1.
        """
        normal = self.decision_function(X) >= 0
        xp = namespace(normal)
        return 2 * xp.astype(normal, xp.int64) - 1

    def calibrate(self, X_normal: Any, false_alarm_rate: float = 0.01) -> Any:
        """Set the threshold from held-out normal points, by split conformal prediction.

        Parameters
        ----------
        X_normal : array-like or sparse matrix of shape (n_samples, n_features)
            Normal points that were not fitted on.
        false_alarm_rate : float in (0, 1)
            Largest share of future normal points that may be called anomalies.

        Returns
        -------
        self
            With `threshold_`, `offset_` and `calibration_` set; a refit resets them.

        Notes
        -----
        The threshold is the k-th smallest of the n rates, k = ceil((n+1)(1-rate)). For any
        distribution, a future normal point exceeds it with probability at most the rate:
        on average over draws of the calibration points, and as long as these are
        exchangeable with the future ones.
        """
        check_is_fitted(self)
        return self._calibrate_on(self.distortion_rate(X_normal), false_alarm_rate)

    def _calibrate_on(self, normal_rates: Array, false_alarm_rate: float) -> Any:
        rate = check_false_alarm_rate(false_alarm_rate)
        rates = np.sort(to_numpy(normal_rates))
        rank = conformal_rank(len(rates), rate)
        self._warn_if_blind(float(rates[rank - 1]))
        # Below the floor rates are rounding: a larger threshold keeps the promise.
        threshold = max(float(rates[rank - 1]), self.certificate_.accuracy_floor)
        self._set_threshold(threshold)
        self.calibration_ = Calibration(float(rate), len(rates), rank, threshold)
        return self

    def _warn_if_blind(self, rate: float) -> None:
        """Warn where points like the normal ones can never be called anomalies."""

    def explain(self, X: Any, n_neighbors: int = 5) -> Explanation:
        """Return why points have their distortion rates.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        n_neighbors : int, default=5
            How many of the nearest dictionary members to name (fewer if there are fewer).

        Returns
        -------
        Explanation
            Rates, what each feature contributed, and the nearest dictionary members.
        """
        rates = to_numpy(self.distortion_rate(X))
        if not isinstance(n_neighbors, int | np.integer) or n_neighbors < 0:
            raise ValueError(
                f"got n_neighbors={n_neighbors!r}; allowed is an integer >= 0; pass 5 to name "
                "the five nearest dictionary members"
            )
        X = self._validated(X)
        neighbors, distances = self._nearest_members(X, int(n_neighbors))
        names = getattr(self, "feature_names_in_", None)
        if names is None:
            names = np.array([f"x{j}" for j in range(self.n_features_in_)], dtype=object)
        return Explanation(rates, self._contributions(X), neighbors, distances, names)

    def _contributions(self, X: Any) -> Vector | None:
        dense = X.toarray() if sparse.issparse(X) else X
        return to_numpy(finite(self._extension.residual_vectors(dense)))

    def _nearest_members(self, X: Any, k: int) -> tuple[Rows, Vector]:
        k = min(k, self.n_components_)
        X, D = (M.toarray() if sparse.issparse(M) else to_numpy(M) for M in (X, self.dictionary_))
        d = distances(X.astype(np.float64), D.astype(np.float64))
        nearest = np.argsort(d, axis=1, kind="stable")[:, :k]
        return to_numpy(self.dictionary_indices_)[nearest], np.take_along_axis(d, nearest, axis=1)

    # -- the nested path ------------------------------------------------------------------

    def truncate(self, *, mu: float | str | None = None, n_components: int | None = None) -> Any:
        """Return a new fitted estimator with a shorter dictionary, without refitting.

        The greedy path is nested: the first pivots of this fit are the dictionary of every
        larger mu.

        Parameters
        ----------
        mu : float, str or None
            As in the constructor; at least `mu_strict_`.
        n_components : int or None
            At most `n_components_`. Exactly one of the two must be given.

        Returns
        -------
        estimator
            With that parameter set; `clone(it).fit(X)` gives the same for relaxation=1.
            A calibration is dropped.
        """
        check_is_fitted(self)
        check_embedding(self, "truncate")
        if (mu is None) == (n_components is None):
            raise ValueError(
                f"got mu={mu!r} and n_components={n_components!r}; allowed is exactly one; pass "
                "the mu or the number of components to keep"
            )
        if mu is None:
            check_dimension(n_components, self.n_components_, mu, "dictionary members")
            new, keep = clone(self).set_params(n_components=n_components), int(n_components or 0)
        else:
            new, keep = clone(self).set_params(mu=mu), self._components_for(mu)
        for name in self._kept_by_truncation:
            if hasattr(self, name):
                setattr(new, name, getattr(self, name))
        new.dictionary_indices_ = self.dictionary_indices_[:keep]
        if hasattr(self, "dictionary_"):
            new.dictionary_ = self.dictionary_[:keep, :]
        new._assign_factorization(self._truncated(keep, new.mu))
        return new

    def _components_for(self, mu: float | str) -> int:
        wanted = resolve_mu(mu, self._percent_base())
        if wanted is None or wanted < self.mu_strict_:
            least = max(self.mu_strict_, self.certificate_.accuracy_floor)
            raise ValueError(
                f"got mu={mu!r}; allowed is mu >= {least:.6g}, what this fit reached; "
                "fit again with the smaller mu"
            )
        keep = int(np.argmax(self.path_[:, 0] <= wanted))
        if wanted < self._floor_at(keep):
            raise AccuracyError(
                f"got mu={mu!r}; allowed is mu >= {self._floor_at(keep):.3g}, the rounding error "
                f"in {self.certificate_.dtype}; pass n_components={keep} for these members alone"
            )
        return keep

    def _floor_at(self, k: int) -> float:
        """Return the rounding error that the first k members leave."""
        old = self.certificate_
        shrink = self._relative_floor(k) / self._relative_floor(old.n_components)
        return float(old.accuracy_floor * shrink)

    def _truncated(self, k: int, mu: Any) -> Factorization:
        F = unrotated(self.embedding_, self._rotation)
        # The path holds the largest residual, measured explicitly.
        exact = to_numpy(self.residuals_) - self._route_errors
        missed = missed_norms(to_numpy(F)[:, k:], exact)[:, 0]
        missed[to_numpy(self.dictionary_indices_[:k])] = 0.0
        residuals = np.minimum(missed + self._route_errors, self.path_[k, 0])
        wanted = resolve_mu(mu, self._percent_base())
        old = self.certificate_
        certificate = sign(
            residuals,
            mu=wanted,
            floor=self._floor_at(k),
            n_components=k,
            dtype=old.dtype,
            route=old.route,
            passes=old.passes,
            stopped_by="mu" if wanted and residuals.max() <= wanted else "n_components",
            route_error=old.route_error,
            kernel_evaluations=old.kernel_evaluations,
        )
        if not self._certifiable:
            certificate = replace(certificate, certified=False)
        return Factorization(
            pivots=self.dictionary_indices_[:k],
            coordinates=F[:, :k],
            residuals=like(residuals, F),
            pivot_residuals=self.pivot_residuals_[:k],
            basis=self._basis_of(k),
            mean=getattr(self, "mean_", None),
            certificate=certificate,
            triangle=self._triangle_of(k),
        )

    # Whether residuals are all there is to the error; an uncertified route says no.
    _certifiable: bool = True

    def _percent_base(self) -> float:
        """Return what a percent mu is a percentage of: the largest norm."""
        return float(self.path_[0, 0])

    def _basis_of(self, k: int) -> Array | None:
        return None

    def _triangle_of(self, k: int) -> Vector | None:
        T = getattr(self._extension, "T", None)
        if T is None:
            return None
        return np.asarray(times_power_of_two(T[:k, :k], self._extension.exponent))

    @property
    def _n_features_out(self) -> int:
        return int(self.n_components_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.array_api_support = True
        return tags
