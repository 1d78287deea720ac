"""Checks of what a user passes: every error says got, allowed, remedy."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy import sparse

from isopivot import _native

# What to do about what scikit-learn's validation refuses, by words of its message.
_REMEDIES = {
    "contains NaN": "Remedy: impute (sklearn.impute.SimpleImputer) or drop those rows.",
    "infinity": "Allowed are finite numbers. Remedy: clip or drop those rows.",
    "0 sample(s)": "Allowed is one row or more. Remedy: pass at least one point.",
    "0 feature(s)": "Allowed is one column or more. Remedy: keep at least one feature.",
    "Found array with dim": "Remedy: reshape to (points, features).",
    "Complex data": "Allowed are real numbers. Remedy: stack real and imaginary parts.",
    "could not convert string": "Allowed are numbers. Remedy: encode text columns "
    "(sklearn.preprocessing.OneHotEncoder) or drop them (frame.select_dtypes('number')).",
    "DType": "Allowed are numbers. Remedy: drop columns of dates "
    "(frame.select_dtypes('number')) or turn them into numbers.",
    "datetime64": "Allowed are numbers. Remedy: drop columns of dates "
    "(frame.select_dtypes('number')) or turn them into numbers.",
    "inhomogeneous": "Allowed is a matrix. Remedy: give every row the same length.",
    "features, but": "Remedy: pass the columns the estimator was fitted on, in that order.",
    "feature names should match": "Remedy: pass the columns the estimator was fitted on.",
    "must be a string or a real number": "Allowed are numbers. Remedy: convert the objects.",
}


@contextmanager
def with_remedies() -> Iterator[None]:
    """Add to errors of scikit-learn's validation what the user can do about them."""
    try:
        # Its test for finite numbers adds them all up, which may overflow.
        with np.errstate(over="ignore", invalid="ignore"):
            yield
    except (ValueError, TypeError) as error:
        remedies = [text for words, text in _REMEDIES.items() if words in str(error)]
        raise type(error)("\n".join([str(error), *remedies])) from error


def finite_later(X: Any) -> bool:
    """Return whether NaN and infinity are found sooner by `assert_finite`, or by `Points`."""
    return isinstance(X, np.ndarray) and X.size > 1 << 16 and _native.available(X)


def assert_finite(X: Any, estimator_name: str | None = None) -> None:
    """Raise scikit-learn's error for NaN and infinity."""
    from sklearn.utils import assert_all_finite

    if not _native.available(X) or not _native.all_finite(X):
        with with_remedies():
            assert_all_finite(X, estimator_name=estimator_name, input_name="X")


def check_kind(X: Any) -> None:
    """Raise for None and dates, which NumPy would turn into numbers, and masks it would forget."""
    if X is None:
        raise ValueError("got X=None of type NoneType; allowed is a matrix; pass the data points")
    if np.ma.is_masked(X):
        raise ValueError("got masked entries; allowed are numbers everywhere; fill or drop them")
    if isinstance(X, np.ndarray) and X.dtype.kind in "mM":
        raise ValueError(
            f"got an array of {X.dtype}; allowed are numbers; subtract a date and divide by a unit"
        )


def check_sparse(X: Any) -> None:
    """Raise for CSR rows that point outside the matrix: reading those would crash."""
    if not sparse.issparse(X):
        return
    inside = X.nnz == 0 or (X.indices.min() >= 0 and X.indices.max() < X.shape[1])
    if not inside or (np.diff(X.indptr) < 0).any() or X.indptr[-1] > len(X.indices):
        raise ValueError(
            "got a sparse matrix whose indices or row pointers lead outside of it; allowed is "
            "what its check_format() accepts; build it again"
        )


def check_mu(mu: Any) -> tuple[float, bool] | None:
    """Return mu as (number, is it a percentage), or None; raise what is neither."""
    allowed = (
        'allowed are a finite number >= 0, a percentage such as "5%", or None together with '
        "n_components; pass one of these"
    )
    if mu is None:
        return None
    if isinstance(mu, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d*)?|\.\d+)(?:[eE]([+-]?\d+))?\s*%\s*", mu)
        if match is None:
            raise ValueError(f"got mu={mu!r}; {allowed}")
        percent = float(mu.strip().rstrip("%"))
        if not math.isfinite(percent):
            raise ValueError(f"got mu={mu!r}; {allowed}")
        return percent, True
    if isinstance(mu, bool | np.bool_) or not isinstance(mu, Real):
        raise TypeError(f"got mu={mu!r} of type {type(mu).__name__}; {allowed}")
    if not is_finite(mu) or mu < 0:
        raise ValueError(f"got mu={mu!r}; {allowed}")
    return float(mu), False


def is_finite(value: Any) -> bool:
    """Return whether a real number is finite as a float."""
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer beyond the largest float
        return False


def check_dimension(n_components: Any, limit: int, mu: Any, what: str) -> None:
    """Raise unless `n_components` is None or an integer in [1, limit], of which `what` tells."""
    if n_components is None:
        if mu is None:
            raise ValueError(
                "got mu=None and n_components=None; allowed is one None at most; set mu to the "
                "distortion you can bear, or n_components to the dimension you want"
            )
        return
    if isinstance(n_components, bool | np.bool_) or not isinstance(n_components, Integral):
        raise TypeError(
            f"got n_components={n_components!r} of type {type(n_components).__name__}; allowed "
            f"is an integer from 1 to {limit}, or None; pass one of these"
        )
    if not 1 <= int(n_components) <= limit:
        raise ValueError(
            f"got n_components={n_components}; allowed is 1 to {limit}, the number of {what}; "
            "lower it, or pass None and set mu"
        )


def check_relaxation(relaxation: Any) -> None:
    """Raise unless `relaxation` is a number in (0, 1]."""
    if isinstance(relaxation, bool | np.bool_) or not isinstance(relaxation, Real):
        raise TypeError(
            f"got relaxation={relaxation!r} of type {type(relaxation).__name__}; allowed is a "
            "number in (0, 1]; 1.0 takes exactly the greedy pivots"
        )
    if not 0.0 < float(relaxation) <= 1.0:
        raise ValueError(
            f"got relaxation={relaxation!r}; allowed is a number in (0, 1]; 1.0 takes exactly "
            "the greedy pivots"
        )


def check_threshold(threshold: Any) -> None:
    """Raise unless `threshold` is "mu", "strict" or a finite number >= 0."""
    if isinstance(threshold, str) and threshold in ("mu", "strict"):
        return
    allowed = 'allowed are "mu", "strict" or a finite number >= 0; pass one of these'
    if isinstance(threshold, bool | np.bool_ | str) or not isinstance(threshold, Real):
        kind = ValueError if isinstance(threshold, str) else TypeError
        raise kind(f"got threshold={threshold!r}; {allowed}")
    if not is_finite(threshold) or threshold < 0:
        raise ValueError(f"got threshold={threshold!r}; {allowed}")


def resolve_mu(mu: Any, largest: float) -> float | None:
    """Return mu as a number in the units of the data, or None."""
    checked = check_mu(mu)
    if checked is None:
        return None
    value, is_percent = checked
    return value / 100.0 * float(largest) if is_percent else value


def check_false_alarm_rate(rate: Any) -> Fraction:
    """Return the rate as the decimal it was written as; raise outside (0, 1)."""
    allowed = "allowed is a number strictly between 0 and 1; pass 0.01 for one in a hundred"
    if isinstance(rate, bool | np.bool_) or not isinstance(rate, Real):
        raise TypeError(f"got false_alarm_rate={rate!r} of type {type(rate).__name__}; {allowed}")
    if not 0.0 < float(rate) < 1.0:
        raise ValueError(f"got false_alarm_rate={rate!r}; {allowed}")
    return Fraction(str(float(rate)))


def conformal_rank(n: int, rate: Fraction) -> int:
    """Return k = ceil((n+1)(1-rate)); raise where n rates cannot reach the rate."""
    rank = math.ceil((n + 1) * (1 - rate))
    if rank > n:
        needed = math.ceil((1 - rate) / rate)
        raise ValueError(
            f"got {n} calibration rows for a false-alarm rate of {float(rate):g}; allowed are "
            f"{needed} rows or more; hold out more normal rows or raise the rate"
        )
    return rank
