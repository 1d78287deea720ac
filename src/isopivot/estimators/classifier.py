"""ICPQRClassifier: one dictionary per class, the class that misses least wins."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.model_selection import GroupShuffleSplit
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from isopivot._arrays import Array, Rows, Vector, row_blocks
from isopivot._compat import validate_data
from isopivot._validation import (
    check_kind,
    check_mu,
    check_sparse,
    check_threshold,
    resolve_mu,
    with_remedies,
)
from isopivot.certificate import AccuracyError
from isopivot.estimators._base import DictionaryEstimator
from isopivot.estimators._parts import missed_norms
from isopivot.estimators._savable import Savable
from isopivot.estimators.kernel import KernelICPQR, check_epsilon, pooled_epsilon
from isopivot.estimators.linear import ICPQR
from isopivot.kernels import RADIAL, check_kernel

# Candidates of mu that validation compares, per scale, and members per class it looks at.
CANDIDATES, DEEPEST = 200, 1000


class ICPQRClassifier(Savable, ClassifierMixin, BaseEstimator):
    """Classify by dictionaries: the class whose dictionary misses least of a point wins.

    Parameters
    ----------
    mu : float, str or "auto", default="auto"
        Largest residual of a training point in the dictionary of its class, or `"p%"` of
        the largest norm over all classes. `"auto"` takes the mu that classifies a held-out
        part of the training rows best (the largest of equals), then fits all rows with it.
    kernel : str, callable or None, default=None
        None measures in the space of the data; otherwise as in `KernelICPQR`, but for
        `"precomputed"`.
    epsilon : float or "median", default="median"
        Squared length scale of the kernel, the same for all classes: `"median"` is taken
        over the rows of all of them.
    epsilon_scale : float or list of float, default=0.5
        Factor of the median; the best of a list is chosen on the held-out rows.
    kernel_params : dict or None, default=None
        As in `KernelICPQR`.
    center : bool, default=True
        Whether to measure the points of a class from its mean; without a kernel only.
    threshold : {"mu", "strict"} or float, default="mu"
        Distortion rate above which a class finds a point abnormal; see `reject`.
    validation_fraction : float in (0, 1), default=0.2
        Part of the rows of each class (with groups: of the groups) that is held out.
    reject : bool, default=False
        Whether to answer `reject_label` for points that every class finds abnormal.
    reject_label : int, float or str, default=-1
        "None of these": of the kind of `y`, and not one of its labels.
    n_jobs : int or None, default=None
        Threads that fit classes.
    random_state : int, RandomState or None, default=None
        Chooses the held-out rows.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels, sorted.
    estimators_ : list of ICPQR or KernelICPQR
        One fitted estimator per class, with its certificate.
    dictionaries_ : list of arrays
        The dictionary of each class: a few of its rows.
    mu_ : float
        The mu in use.
    epsilon_, epsilon_scale_ : float or None
        Squared length scale of the kernel in use, and its factor; None without.
    validation_ : ndarray of shape (n_candidates, 3) or None
        (epsilon_scale or 0, mu, accuracy on the held-out rows) of every candidate; None when
        there was nothing to choose.
    n_features_in_ : int
        Number of features seen in `fit`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, when X had string names.

    See Also
    --------
    ICPQR, KernelICPQR : What is fitted to each class.

    Notes
    -----
    The multi-class classification of the paper's section 4.3. The greedy path is nested,
    so one fit per class (and scale) serves all candidates of mu: none of them, the largest,
    leaves only the class means. At most 200 candidates, spread over all values at which a
    dictionary grows, and 1,000 members per class are compared. Classes too small to split
    stay in training; when nothing can be held out, the training rows are validated.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.model_selection import train_test_split
    >>> from isopivot import ICPQRClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> train, test, y_train, y_test = train_test_split(X, y, random_state=0)
    >>> model = ICPQRClassifier(random_state=0).fit(train, y_train)
    >>> bool(model.score(test, y_test) > 0.97)
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "mu": "no_validation",
        "kernel": "no_validation",
        "epsilon": "no_validation",
        "epsilon_scale": "no_validation",
        "kernel_params": "no_validation",
        "center": ["boolean"],
        "threshold": "no_validation",
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "reject": ["boolean"],
        "reject_label": "no_validation",
        "n_jobs": [None, Integral],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        mu: float | str = "auto",
        *,
        kernel: str | Callable[..., Any] | None = None,
        epsilon: float | str = "median",
        epsilon_scale: float | list[float] = 0.5,
        kernel_params: dict[str, Any] | None = None,
        center: bool = True,
        threshold: float | str = "mu",
        validation_fraction: float = 0.2,
        reject: bool = False,
        reject_label: Any = -1,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.mu = mu
        self.kernel = kernel
        self.epsilon = epsilon
        self.epsilon_scale = epsilon_scale
        self.kernel_params = kernel_params
        self.center = center
        self.threshold = threshold
        self.validation_fraction = validation_fraction
        self.reject = reject
        self.reject_label = reject_label
        self.n_jobs = n_jobs
        self.random_state = random_state

    # -- fitting --------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, groups: Any = None) -> ICPQRClassifier:
        """Learn one dictionary per class.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Points as rows.
        y : array-like of shape (n_samples,)
            Labels: numbers or strings.
        groups : array-like of shape (n_samples,), optional
            Rows of one group (a speaker, a patient) are held out together or not at all.

        Returns
        -------
        self
        """
        self._validate_params()
        self._check_choices()
        X, y = self._validated_pair(X, y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if self.reject:
            check_reject_label(self.reject_label, self.classes_)
        if groups is not None:
            groups = checked_groups(groups, codes)
        unit = self._unit_epsilon(X)
        scales = as_list(self.epsilon_scale) if unit is not None else [None]
        self.validation_: Vector | None = None
        mu, scale = self.mu, scales[0]
        if len(scales) > 1 or self._automatic:
            split = self._held_out(codes, groups)
            self.validation_ = self._validate_choices(X, codes, split, unit, scales)
            best, scale = best_choice(self.validation_)
            mu = best if self._automatic else self.mu
        self._assign(self._refitted(X, codes, mu, self._epsilon(unit, scale)), scale)
        return self

    def _refitted(self, X: Any, codes: Rows, mu: Any, epsilon: float | str) -> list[Any]:
        try:
            return self._fit_classes(X, codes, mu, epsilon)
        except AccuracyError:
            if not self._automatic:
                raise
            # A held-out outlier raised the floor above the mu chosen: go down to the floor.
            return self._fit_classes(X, codes, 0.0, epsilon)

    @property
    def _automatic(self) -> bool:
        return isinstance(self.mu, str) and self.mu == "auto"

    def _check_choices(self) -> None:
        """Raise for parameters that scikit-learn's constraints cannot tell."""
        if self.mu is None:
            raise ValueError(
                'got mu=None; allowed are "auto", a finite number >= 0 or a percentage such as '
                '"5%"; pass one of these'
            )
        if not self._automatic:
            check_mu(self.mu)
        check_threshold(self.threshold)
        scales = as_list(self.epsilon_scale)
        if not scales:
            raise ValueError(
                "got epsilon_scale=[]; allowed are a number > 0 or a list of them; pass [0.5, 1.0]"
            )
        for scale in scales:
            check_epsilon(self.epsilon, scale)
        if self.kernel is None:
            return
        check_kernel(self.kernel, self.kernel_params)
        if isinstance(self.kernel, str) and self.kernel == "precomputed":
            raise ValueError(
                "got kernel='precomputed'; allowed are named kernels and callables, because "
                "every class evaluates its own; pass the callable that made the matrix"
            )

    def _validated_pair(self, X: Any, y: Any) -> tuple[Any, npt.NDArray[Any]]:
        check_kind(X)
        with with_remedies():
            X, y = validate_data(
                self, X, y, accept_sparse=self._sparse, dtype=[np.float64, np.float32]
            )
        check_sparse(X)
        try:
            check_classification_targets(y)
        except TypeError as error:  # they cannot be sorted
            kinds = ", ".join(sorted({type(label).__name__ for label in y}))
            raise TypeError(
                f"got labels of the types {kinds}; allowed is one type; turn them into texts, and "
                "drop rows without a label"
            ) from error
        return X, y

    @property
    def _sparse(self) -> str | bool:
        return False if callable(self.kernel) else "csr"

    def _unit_epsilon(self, X: Any) -> float | None:
        """Return what epsilon_scale multiplies; None where it has no meaning."""
        median = isinstance(self.epsilon, str)
        radial = isinstance(self.kernel, str) and self.kernel in RADIAL
        return pooled_epsilon(X, str(self.kernel)) if radial and median else None

    def _epsilon(self, unit: float | None, scale: float | None) -> float | str:
        return self.epsilon if unit is None or scale is None else unit * float(scale)

    def _class_estimator(
        self, mu: Any, epsilon: float | str, n_components: int | None = None
    ) -> DictionaryEstimator:
        if self.kernel is None:
            return ICPQR(mu, n_components, center=self.center, threshold=self.threshold)
        return KernelICPQR(
            mu,
            n_components,
            kernel=self.kernel,
            epsilon=epsilon,
            kernel_params=self.kernel_params,
            threshold=self.threshold,
        )

    def _fit_classes(
        self, X: Any, codes: Rows, mu: Any, epsilon: float | str, deepest: int | None = None
    ) -> list[Any]:
        """Return one estimator per class; `deepest` limits its dictionary."""
        parts = [np.flatnonzero(codes == k) for k in range(len(self.classes_))]
        mu = resolve_mu(mu, self._largest_norm(X, codes, epsilon)) if isinstance(mu, str) else mu
        model = self._class_estimator(mu, epsilon)

        def fitted(rows: Rows) -> Any:
            own = clone(model)
            limit = len(rows) if self.kernel is not None else min(len(rows), X.shape[1])
            if deepest is not None and limit > deepest:
                own.set_params(n_components=deepest)
            return own.fit(X[rows])

        threads = Parallel(n_jobs=self.n_jobs, prefer="threads")
        return list(threads(delayed(fitted)(rows) for rows in parts))

    def _largest_norm(self, X: Any, codes: Rows, epsilon: float | str) -> float:
        """Return the largest norm of a point, measured as its class does."""
        model = self._class_estimator(None, epsilon, 1)
        parts = (X[codes == k] for k in range(len(self.classes_)))
        return max(float(clone(model).fit(part).path_[0, 0]) for part in parts)

    def _assign(self, models: list[Any], scale: float | None) -> None:
        self.estimators_ = models
        self.dictionaries_ = [model.dictionary_ for model in models]
        self.mu_ = max(float(model.mu_) for model in models)
        self.epsilon_: float | None = getattr(models[0], "epsilon_", None)
        self.epsilon_scale_ = None if scale is None else float(scale)

    # -- choosing mu and the scale on held-out rows ---------------------------------------

    def _held_out(self, codes: Rows, groups: Any) -> tuple[Rows, Rows]:
        random = check_random_state(self.random_state)
        if groups is None:
            held = stratified_part(codes, self.validation_fraction, random)
        else:
            held = grouped_part(codes, groups, self.validation_fraction, random)
        training = np.setdiff1d(np.arange(len(codes)), held)
        return training, held if len(held) else training

    def _validate_choices(
        self, X: Any, codes: Rows, split: tuple[Rows, Rows], unit: float | None, scales: list[Any]
    ) -> Vector:
        """Return (scale, mu, accuracy) of all candidates: one nested fit per class and scale."""
        training, held = split
        mu = 0.0 if self._automatic else self.mu
        rows = []
        for scale in scales:
            epsilon = self._epsilon(unit, scale)
            models = self._fit_classes(X[training], codes[training], mu, epsilon, DEEPEST)
            if self._automatic:
                mus = candidates(models, self._largest_norm(X, codes, epsilon))
            else:
                mus = [max(float(model.mu_) for model in models)]
            hits = hits_along_path(models, np.asarray(mus), X[held], codes[held])
            label = 0.0 if scale is None else float(scale)
            rows += [(label, mu, hit / len(held)) for mu, hit in zip(mus, hits, strict=True)]
        return np.array(rows)

    # -- answers --------------------------------------------------------------------------

    def distortion_rates(self, X: Any) -> Vector:
        """Return how much the dictionary of each class misses of each point.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        check_is_fitted(self)
        X = self._validated(X)
        rates = [model.distortion_rate(X) for model in self.estimators_]
        return np.column_stack(rates)

    def _validated(self, X: Any) -> Any:
        check_kind(X)
        with with_remedies():
            return validate_data(
                self, X, reset=False, accept_sparse=self._sparse, dtype=[np.float64, np.float32]
            )

    def decision_function(self, X: Any) -> Vector:
        """Return minus the distortion rates: the largest is the answer.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes), or (n_samples,) for two classes
            For two classes the rate of the first minus that of the second: above 0 the
            second wins.
        """
        rates = self.distortion_rates(X)
        return rates[:, 0] - rates[:, 1] if rates.shape[1] == 2 else -rates

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the class of smallest distortion rate (or `reject_label`, if asked to).

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        rates = self.distortion_rates(X)
        answers = np.asarray(self.classes_[rates.argmin(axis=1)])
        if not self.reject:
            return answers
        limits = np.array([model.threshold_ for model in self.estimators_])
        known = (rates <= limits).any(axis=1)
        return np.where(known, answers, np.asarray(self.reject_label))

    def predict_proba(self, X: Any) -> Vector:
        """Return the softmax of minus the distortion rates.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Positive, rows sum to 1, largest for the answer. Not calibrated: rates have the
            units of the data, so multiplying X by 10 sharpens them. Use
            `sklearn.calibration.CalibratedClassifierCV` where probabilities matter.
        """
        return np.asarray(softmax(-self.distortion_rates(X).astype(np.float64), axis=1))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = not callable(self.kernel)
        return tags


def as_list(value: Any) -> list[Any]:
    """Return a list of candidates as one, and a single candidate as a list."""
    return list(value) if isinstance(value, list | tuple | np.ndarray) else [value]


def check_reject_label(label: Any, classes: npt.NDArray[Any]) -> None:
    """Raise unless `label` is of the kind of the classes and none of them."""
    if classes.dtype.kind == "b":
        raise ValueError(
            f"got reject_label={label!r} for labels True and False, which leave room for no third; "
            "allowed are numbers or strings; convert y"
        )
    numeric = isinstance(label, Real) and not isinstance(label, bool)
    text = isinstance(label, str)
    wanted_text = isinstance(classes[0], str)
    if (wanted_text and not text) or (not wanted_text and not numeric):
        kind, example = ("a string", "'none'") if wanted_text else ("a number", "-1")
        raise ValueError(
            f"got reject_label={label!r} of type {type(label).__name__} for labels such as "
            f"{classes.tolist()[0]!r}; allowed is {kind} like them; pass reject_label={example}"
        )
    if label in classes.tolist():
        raise ValueError(
            f"got reject_label={label!r}, which is also a class; allowed is a label that is not "
            "in y; pass another one"
        )


def checked_groups(groups: Any, codes: Rows) -> Rows:
    """Return the groups as numbers; raise unless there is one per row."""
    check_consistent_length(codes, groups)
    values = np.asarray(groups)
    if values.ndim != 1:
        raise ValueError(
            f"got groups of shape {values.shape}; allowed is one value per row; pass a vector"
        )
    try:
        return np.asarray(np.unique(values, return_inverse=True)[1])
    except TypeError as error:
        raise ValueError(
            "got groups of several kinds; allowed are numbers or strings, not both; convert them"
        ) from error


def stratified_part(codes: Rows, fraction: float, random: Any) -> Rows:
    """Return rows to hold out: that part of every class, and never a whole one."""
    held = []
    for k in range(int(codes.max()) + 1):
        rows = np.flatnonzero(codes == k)
        count = min(round(fraction * len(rows)), len(rows) - 1)
        held.append(random.permutation(rows)[:count])
    return np.sort(np.concatenate(held))


def grouped_part(codes: Rows, groups: npt.NDArray[Any], fraction: float, random: Any) -> Rows:
    """Return the rows of that part of the groups; classes found nowhere else stay."""
    if len(np.unique(groups)) < 2:
        raise ValueError(
            "got groups with one value; allowed are two groups or more, one to hold out and one "
            "to fit; leave groups out"
        )
    splitter = GroupShuffleSplit(n_splits=1, test_size=fraction, random_state=random)
    training, held = next(splitter.split(codes, groups=groups))
    return np.asarray(held[np.isin(codes[held], codes[training])])


def candidates(models: list[Any], largest: float) -> list[float]:
    """Return values of mu, largest first, one for every state of the dictionaries.

    Between two values at which some dictionary grows all mu classify the same: the largest
    stands for them. `largest` leaves all dictionaries empty, 0 goes down to the floor.
    """
    values = np.unique(np.concatenate([model.path_[:, 0] for model in models]))[::-1]
    floor = max(float(model.certificate_.accuracy_floor) for model in models)
    # What all rows can certify may be less than what the fitted part can.
    above = values[values > 4.0 * floor]
    # Norms of the same rows may round differently when they are fitted again.
    eps = float(np.finfo(models[0].certificate_.dtype).eps)
    empty = max(largest, values[0]) * (1.0 + 64.0 * eps)
    mus = np.concatenate([[empty], np.nextafter(above, 0.0)])
    if len(above) < len(values):  # the last state is that at the floor
        mus = np.append(mus[: max(1, len(above))], 0.0)
    chosen = np.unique(np.linspace(0, len(mus) - 1, CANDIDATES).round().astype(int))
    return [float(value) for value in mus[chosen]]


def hits_along_path(models: list[Any], mus: Vector, X: Any, codes: Rows) -> Rows:
    """Return how many rows each mu classifies right, from one fit per class at the smallest."""
    hits = np.zeros(len(mus), dtype=np.int64)
    # A row of the largest dictionary and a row of all candidates for every class.
    widest = max(int(model.n_components_) for model in models) + len(models) * len(mus)
    for rows in row_blocks(X.shape[0], 8 * widest):
        rates = np.stack([rates_along_path(model, mus, X[rows]) for model in models])
        hits += (rates.argmin(axis=0) == codes[rows, None]).sum(axis=0)
    return hits


def rates_along_path(model: Any, mus: Vector, X: Any) -> Array:
    """Return the distortion rates that the dictionary would give at every mu."""
    F, rates = model.transform(X), model.distortion_rate(X)
    return np.asarray(missed_norms(F, rates)[:, list(_sizes(model, mus))])


def _sizes(model: Any, mus: Vector) -> Iterator[int]:
    """Yield the size of the dictionary at each mu: the first that is small enough."""
    for mu in mus:
        enough = model.path_[:, 0] <= mu
        yield int(np.argmax(enough)) if enough.any() else int(model.n_components_)


def best_choice(validation: Vector) -> tuple[float, float | None]:
    """Return (mu, scale) of the best accuracy; of equals the largest mu, then the first scale."""
    best = validation[validation[:, 2] == validation[:, 2].max()]
    scale, mu, _ = best[np.argmax(best[:, 1])]
    return float(mu), float(scale) or None
