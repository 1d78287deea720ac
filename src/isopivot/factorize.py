"""From data to a certified factorization: choose a source, run the loop, sign the result."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import array_api_compat
import numpy as np
from scipy import sparse
from sklearn.utils import check_array

from isopivot import _compiled
from isopivot._arrays import (
    Array,
    Vector,
    dtype_name,
    eps_of,
    ldexp,
    like,
    namespace,
    times_power_of_two,
)
from isopivot._cholesky import Cholesky, GramSource
from isopivot._compiled import Compiled
from isopivot._factors import Factorization, Orthonormal
from isopivot._gram import LinearGram
from isopivot._greedy import greedy
from isopivot._points import Points, as_points
from isopivot._validation import (
    check_dimension,
    check_kind,
    check_relaxation,
    check_sparse,
    finite_later,
    resolve_mu,
    with_remedies,
)
from isopivot.certificate import AccuracyError, Certificate, Progress, Route, StoppedBy

__all__ = ["factorize", "factorize_gram", "icpqr", "sign"]


def icpqr(
    X: Any,
    mu: float | str | None = None,
    n_components: int | None = None,
    *,
    center: bool = False,
    relaxation: float = 1.0,
) -> Factorization:
    """Return a dictionary of rows of `X` whose span keeps every pairwise distance.

    Parameters
    ----------
    X : array or sparse matrix of shape (n, m)
        Points as rows; float64 or float32 (integers become float64), of any array-API
        namespace. A GPU tensor stays on its GPU.
    mu : float, str or None
        Largest residual allowed, in the units of X, or `"p%"` of the largest (centred)
        row norm. Distances then change by at most 2 mu. 0 goes down to what the
        floating-point format can certify; None drops this stop.
    n_components : int or None
        Largest dictionary allowed, at most min(n, m).
    center : bool
        Whether to measure points from their mean.
    relaxation : float in (0, 1]
        1.0 takes exactly the greedy pivots. Below 1, pivots down to this part of the
        largest residual are taken too: fewer passes, a larger dictionary, the same
        promise.

    Returns
    -------
    Factorization
        Pivots, coordinates, residuals, basis, mean and certificate.

    Raises
    ------
    AccuracyError
        When 0 < mu is below what the format of X can certify on this data.

    Notes
    -----
    Algorithms 1 and 2 of the paper with its errata 1-7 mended, in panels: the pivots are
    those of plain greedy (ties, squared residuals within 64 eps, go to the lowest index),
    the work is matrix products: n m s multiplications for the coordinates, and no copy of
    X. Sparse rows with more features than rows use inner products only (Algorithm 2).

    Examples
    --------
    >>> import numpy as np
    >>> from isopivot import icpqr
    >>> A = np.triu(np.ones((7, 7)))
    >>> A[6, 6] = 20.0                      # the paper's example; its points are columns
    >>> result = icpqr(A.T, mu=1.5)
    >>> result.pivots + 1                   # the paper counts from 1
    array([7, 6])
    >>> round(result.certificate.mu_strict, 4)
    1.2247
    """
    if not isinstance(center, bool | np.bool_):
        raise TypeError(
            f"got center={center!r} of type {type(center).__name__}; allowed are True and False; "
            "pass one of these"
        )
    points = as_points(_checked(X), center=bool(center))
    return factorize(points, mu=mu, n_components=n_components, relaxation=relaxation)


def factorize(
    points: Points,
    *,
    mu: float | str | None,
    n_components: int | None,
    relaxation: float = 1.0,
    progress: Progress | None = None,
) -> Factorization:
    """Return the certified factorization of a source of vectors."""
    _check_range(points)
    check_dimension(n_components, min(points.n, points.m), mu, "rows or of features")
    mean = points.mean
    return _run(
        _arithmetic(points, n_components or 0),
        Units(points.X, points.exponent),
        mu=mu,
        n_components=n_components,
        limit=min(points.n, points.m),
        relaxation=relaxation,
        progress=progress,
        mean=None if mean is None else times_power_of_two(mean, points.exponent),
    )


def factorize_gram(
    source: GramSource,
    X: Any,
    *,
    exponent: int = 0,
    mu: float | str | None,
    n_components: int | None,
    relaxation: float = 1.0,
    progress: Progress | None = None,
) -> Factorization:
    """Return the certified factorization of a source of inner products of points `X`.

    Lengths are in units of 2**exponent.
    """
    check_dimension(n_components, source.n, mu, "rows")
    return _run(
        Cholesky(source, n_components or 0),
        Units(X, exponent),
        mu=mu,
        n_components=n_components,
        limit=source.n,
        relaxation=relaxation,
        progress=progress,
        mean=None,
    )


@dataclass(frozen=True, eq=False)
class Units:
    """What results are given back in: the namespace and dtype of X, times 2**exponent."""

    X: Any
    exponent: int

    @property
    def eps(self) -> float:
        return eps_of(self.X)

    def floor(self, factor: Orthonormal | Cholesky | Compiled) -> float:
        """Return the accuracy floor in the units of the data."""
        floor = factor.floor
        if factor.route == "cholesky" and self.eps > 1e-10:
            # Coordinates and the mean are stored as float32; rows that equal it count as 0.
            floor += 16.0 * self.eps * factor.largest
        # Results below the normal range are rounded once more, to multiples of the tiniest.
        tiniest = 2.0**-149 if self.eps > 1e-10 else 2.0**-1074
        return ldexp(floor, self.exponent) + (2 + factor.s) * tiniest


def _run(
    factor: Orthonormal | Cholesky | Compiled,
    units: Units,
    *,
    mu: float | str | None,
    n_components: int | None,
    limit: int,
    relaxation: float,
    progress: Progress | None,
    mean: Array | None,
) -> Factorization:
    """Resolve mu, run the loop, sign the result."""
    check_relaxation(relaxation)
    wanted = resolve_mu(mu, ldexp(math.sqrt(factor.residual2.max()), units.exponent))
    _check_floor(wanted, units.floor(factor), units)
    # Products of small blocks can raise the invalid flag for padding that is never used.
    with np.errstate(invalid="ignore"):
        how: dict[str, Any] = {
            "mu": None if wanted is None else ldexp(wanted, -units.exponent),
            "n_components": n_components,
            "limit": limit,
            "relaxation": float(relaxation),
            "progress": progress,
        }
        if isinstance(factor, Compiled):
            stopped_by = _compiled.greedy(factor, **how)
        else:
            stopped_by = greedy(factor, eps=units.eps, **how)
    if not np.isfinite(factor.residual2).all():  # pragma: no cover
        raise ArithmeticError("a residual is not finite: please report this as a bug")
    _check_floor(wanted, units.floor(factor), units)
    return _result(factor, units, wanted, stopped_by, mean)


def sign(
    residuals: Vector,
    *,
    mu: float | None,
    floor: float,
    n_components: int,
    dtype: str,
    route: Route,
    passes: int,
    stopped_by: StoppedBy,
    kernel_evaluations: int | None = None,
    route_error: float = 0.0,
) -> Certificate:
    """Return the certificate that these residuals justify."""
    largest = int(np.argmax(residuals))
    others = (residuals[:largest], residuals[largest + 1 :])  # not copied
    second = max(float(part.max(initial=0.0)) for part in others)
    mu_strict = float(residuals[largest])
    return Certificate(
        mu=max(mu or 0.0, mu_strict),
        mu_strict=mu_strict,
        distortion_bound=mu_strict + second + 2.0 * floor,
        accuracy_floor=floor,
        route_error=route_error,
        n_samples=len(residuals),
        n_components=n_components,
        dtype=dtype,
        route=route,
        passes=passes,
        kernel_evaluations=kernel_evaluations,
        stopped_by=stopped_by,
        certified=not mu or mu_strict <= mu,
    )


def _arithmetic(points: Points, capacity: int) -> Orthonormal | Cholesky | Compiled:
    """Return the factor for a source: a basis, unless it would outweigh the embedding."""
    if sparse.issparse(points.X) and points.m > points.n:
        return Cholesky(LinearGram(points), capacity)
    return (Compiled if points.in_place else Orthonormal)(points, capacity)


def _check_floor(mu: float | None, floor: float, units: Units) -> None:
    if not mu or mu >= floor:
        return
    name = dtype_name(units.eps)
    wider = "float64 input or " if name == "float32" else ""
    raise AccuracyError(
        f"mu={mu:.3g} is below what {name} can certify here ({floor:.3g}); use {wider}"
        f"mu >= {floor:.3g}, or mu=0 to go as far down as is possible"
    )


def _result(
    factor: Orthonormal | Cholesky | Compiled,
    units: Units,
    mu: float | None,
    stopped_by: StoppedBy,
    mean: Array | None,
) -> Factorization:
    """Return the results in the units of the data."""
    e, X = units.exponent, units.X
    residuals = times_power_of_two(np.sqrt(factor.residual2, out=factor.residual2), e)
    certificate = sign(
        residuals,
        mu=mu,
        floor=units.floor(factor),
        n_components=factor.s,
        dtype=dtype_name(units.eps),
        route=factor.route,
        passes=1 + math.ceil(factor.rows_read / factor.n),
        stopped_by=stopped_by,
        kernel_evaluations=factor.kernel_evaluations,
    )
    basis, coordinates, triangle = factor.release()
    if isinstance(coordinates, np.ndarray):
        coordinates = coordinates.astype(X.dtype, copy=False)
    return Factorization(
        pivots=like(factor.pivots, X),
        coordinates=times_power_of_two(coordinates, e).T,
        residuals=like(residuals, X),
        pivot_residuals=like(times_power_of_two(factor.pivot_residuals, e), X),
        basis=basis,
        mean=mean,
        certificate=certificate,
        triangle=None if triangle is None else times_power_of_two(triangle, e),
    )


def _check_range(points: Points) -> None:
    largest = ldexp(points.largest, points.exponent)
    most = float(points.xp.finfo(points.X.dtype).max)
    if not largest <= most / 4.0:  # twice as long are distances, and twice again their bounds
        raise ValueError(
            f"got points whose norms exceed the largest {dtype_name(points.eps)}; allowed are "
            f"norms up to {most / 4.0:.2g}; divide the data by a constant"
        )


def _checked(X: Any) -> Any:
    """Return `X` as a finite real matrix, without a copy where its type allows."""
    check_kind(X)
    if _is_numpy_like(X):
        with with_remedies():
            X = check_array(
                X,
                accept_sparse="csr",
                dtype=[np.float64, np.float32],
                ensure_all_finite=not finite_later(X),
                input_name="X",
            )
        check_sparse(X)
        return X
    xp = namespace(X)
    if X.ndim != 2 or 0 in X.shape:
        raise ValueError(
            f"got an array of shape {tuple(X.shape)}; allowed is a matrix with at least one row "
            "and one column; reshape it to (points, features)"
        )
    if xp.isdtype(X.dtype, "complex floating"):
        raise ValueError("got complex numbers; allowed are real; stack real and imaginary parts")
    if X.dtype not in (xp.float32, xp.float64):
        X = xp.astype(X, xp.float64)
    if not bool(xp.all(xp.isfinite(X))):
        raise ValueError("got NaN or infinity in X; allowed are finite values; impute or drop rows")
    return X


def _is_numpy_like(X: Any) -> bool:
    return not array_api_compat.is_array_api_obj(X) or isinstance(X, np.ndarray)
