"""Placing new points: Algorithm 3, and the distortion rate mu(x) of Eq. dist_func.

An extension knows the dictionary's span and nothing of the training set. `Projection` has
an orthonormal basis; `Substitution` and `KernelSubstitution` have only the dictionary and
the triangular matrix T of its coordinates.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import scipy.linalg
from scipy import sparse

from isopivot import _native
from isopivot._arrays import (
    Array,
    Vector,
    all_finite,
    binary_exponent,
    eps_of,
    namespace,
    row_blocks,
    safe_norm,
    times_power_of_two,
)

MANY = 1 << 20  # multiplications from which on they are worth a call of their own
# A residual is explicit where its square is below this part of the squared norm.
EXPLICIT_BELOW = 0.25
SAFE2 = 2.0**240  # squares of squared norms below it can neither overflow nor vanish


@dataclass(frozen=True, eq=False)
class Projection:
    """Coordinates by one matrix product; residuals as explicit vectors (errata 15)."""

    basis: Array  # (s, m), orthonormal rows
    mean: Array | None
    noise: float = 0.0  # part of a point's norm below which a residual is rounding alone

    def coordinates(self, X: Any) -> Array:
        """Return the coordinates (n, s) of the rows of `X`."""
        with np.errstate(over="ignore", invalid="ignore"):
            if self.in_place(X):
                F = np.empty((len(X), len(self.basis)), dtype=X.dtype)
                if np.isfinite(self._captured2(X, F)).all():
                    return F
            else:
                F = _product(X, self.basis)
                if self.mean is not None:
                    F -= self.basis @ self.mean
        if not isinstance(F, np.ndarray) or all_finite(F):
            return F
        # Sums of numbers near the largest float overflow though the result may not.
        e = binary_exponent(_largest_entry(X), eps_of(X))
        if e == 0:
            return F  # a mean or a basis out of range, as only a file can hold it
        shrunk = Projection(self.basis, _times(self.mean, -e))
        return times_power_of_two(shrunk.coordinates(_times(X, -e)), e)

    def in_place(self, X: Any) -> bool:
        """Return whether many rows of `X` can be multiplied where they lie."""
        work = X.shape[0] * X.shape[1] * self.basis.shape[0]
        if work <= MANY or X.dtype != self.basis.dtype:
            return False
        return _native.available(X) and _native.available(self.basis)

    def _captured2(self, X: Array, F: Array | None = None) -> Vector:
        """Return squared norms of coordinates, which are written to F."""
        shift = None if self.mean is None else self.basis @ self.mean
        where = None if F is None else _native.columns_of(F)
        return _native.multiply(
            X, None, _native.pack(self.basis), where, len(self.basis), shift=shift
        )

    def residual_vectors(self, X: Any) -> Array:
        """Return what the dictionary misses of each (dense) row: the part per feature."""
        Y = X if self.mean is None else X - self.mean
        return Y - (Y @ self.basis.T) @ self.basis

    def rates(self, X: Any) -> Array:
        """Return mu(x), the norm of what the dictionary misses, for the rows of `X`."""
        if not self.in_place(X):
            return self._explicit_rates(X)
        norms2 = _native.norms2(X, self.mean)
        with np.errstate(over="ignore", invalid="ignore"):
            rates2 = norms2 - self._captured2(X)
            reach = np.sqrt(norms2) + (0.0 if self.mean is None else 2.0 * safe_norm(self.mean))
            # Where the difference of squares has cancelled too much, or left the range.
            plain = (
                (rates2 >= EXPLICIT_BELOW * reach**2) & (norms2 < SAFE2) & (norms2 > 1.0 / SAFE2)
            )
            rates = np.sqrt(np.where(plain, rates2, 0.0)).astype(X.dtype, copy=False)
        others = np.flatnonzero(~plain)
        if len(others):
            rates[others] = self._explicit_rates(X if len(others) == len(X) else X[others])
        return rates

    def _explicit_rates(self, X: Any) -> Array:
        xp = namespace(X)
        parts = []
        for rows in row_blocks(X.shape[0], 8 * X.shape[1]):
            block = X[rows].toarray() if sparse.issparse(X) else X[rows, :]
            e = binary_exponent(max(_largest_entry(block), _largest_entry(self.mean)), eps_of(X))
            scaled = Projection(self.basis, _times(self.mean, -e), self.noise)
            parts.append(times_power_of_two(scaled._rates(_times(block, -e)), e))
        return parts[0] if len(parts) == 1 else xp.concat(parts)

    def _rates(self, X: Array) -> Array:
        """Return the rates of rows whose squares neither overflow nor vanish."""
        xp = namespace(X)
        E = self.residual_vectors(X)
        rates = xp.sqrt(xp.vecdot(E, E))
        if not self.noise:
            return rates
        size = xp.sqrt(xp.vecdot(X, X)) + (0.0 if self.mean is None else safe_norm(self.mean))
        return xp.where(rates <= self.noise * size, xp.zeros_like(rates), rates)


@dataclass(frozen=True, eq=False)
class Substitution:
    """Coordinates by forward substitution from inner products with the dictionary.

    `exponent` is the power of two that the dictionary was divided by.
    """

    dictionary: Any  # (s, m), sparse, divided by 2**exponent
    T: Vector  # (s, s), lower triangular, divided by 2**exponent
    mean: Vector | None
    exponent: int
    noise: float = 0.0  # as in Projection

    @classmethod
    def of(
        cls, dictionary: Any, T: Vector, mean: Vector | None, noise: float = 0.0
    ) -> Substitution:
        """Return the extension of a dictionary given in the units of the data."""
        e = binary_exponent(_largest_entry(dictionary), 0.0)
        wide = None if mean is None else mean.astype(np.float64)
        return cls(_times(dictionary, -e), _times(T, -e), wide, e, noise)

    @property
    def basis(self) -> Vector:
        """The orthonormal rows that would span the dictionary; dense, made on demand."""
        B = self.dictionary.toarray().astype(np.float64)
        if self.mean is not None:
            B = B - _times(self.mean, -self.exponent)
        return _solve(self.T, B)

    def coordinates(self, X: Any) -> Array:
        """Return the coordinates (n, s) of the rows of `X`."""
        e, Y = self._scaled(X)
        F = times_power_of_two(self._coordinates(Y, _times(self.mean, -e)), e)
        return F.astype(X.dtype, copy=False)

    def residual_vectors(self, X: Any) -> Array:
        """Return what the dictionary misses of each (dense) row: the part per feature."""
        basis = self.basis
        return Projection(basis, self.mean).residual_vectors(X)

    def rates(self, X: Any) -> Array:
        """Return mu(x), the norm of what the dictionary misses, for the rows of `X`."""
        e, Y = self._scaled(X)
        mean = _times(self.mean, -e)
        F = self._coordinates(Y, mean)
        norms2 = raw2 = _norms2(Y)
        if mean is not None:
            norms2 = norms2 - 2.0 * (Y @ mean) + mean @ mean
        missed2 = np.maximum(norms2 - np.vecdot(F, F), 0.0)
        missed2[missed2 <= (self.noise * self.spread(F, e)) ** 2 * raw2] = 0.0
        return times_power_of_two(np.sqrt(missed2), e).astype(X.dtype, copy=False)

    def spread(self, F: Vector, exponent: int = 0) -> Vector:
        """Return how often the rounding of the mean counts for each row; see `Cholesky`.

        Coordinates are in units of 2**exponent, and not rotated.
        """
        if self.mean is None or len(self.T) == 0:
            return np.ones(len(F))
        weights = _times(F @ _solve(self.T, np.ones((len(self.T), 1))), exponent - self.exponent)
        return np.asarray(np.maximum(np.abs(1.0 - weights[:, 0]), 1.0))

    def _scaled(self, X: Any) -> tuple[int, Any]:
        e = binary_exponent(max(_largest_entry(X), _largest_entry(self.mean)), 0.0)
        return e, _times(X.astype(np.float64), -e)

    def _coordinates(self, Y: Any, mean: Vector | None) -> Vector:
        B = self.dictionary.astype(np.float64)
        U = Y @ B.T
        U = U.toarray() if sparse.issparse(U) else np.asarray(U)
        if mean is not None:
            center = _times(self.mean, -self.exponent)
            U = U - (Y @ center)[:, None] - (B @ mean)[None, :] + mean @ center
        return _solve(self.T, U.T).T


def _solve(T: Vector, U: Vector) -> Vector:
    """Return the solution of T f = u for every column: Algorithm 3 (errata 6)."""
    if len(T) == 0:
        return np.zeros((0, U.shape[1]))
    if not T.flags.c_contiguous:
        return np.asarray(scipy.linalg.solve_triangular(T, U, lower=True, check_finite=False))
    # What solve_triangular calls, without the 50 microseconds around it.
    solution, info = scipy.linalg.lapack.dtrtrs(T.T, U, lower=0, trans=1)
    if info:
        raise np.linalg.LinAlgError(f"the dictionary is singular at member {info - 1}")
    return np.asarray(solution)


def _product(X: Any, basis: Array) -> Array:
    if sparse.issparse(X):
        return np.asarray(X @ np.ascontiguousarray(basis.T))
    return X @ basis.T


def _norms2(Y: Any) -> Vector:
    return np.asarray(Y.power(2).sum(axis=1)).ravel() if sparse.issparse(Y) else np.vecdot(Y, Y)


def _largest_entry(X: Any) -> float:
    if X is None:
        return 0.0
    data = X.data if sparse.issparse(X) else X
    if 0 in data.shape:
        return 0.0
    xp = namespace(data)
    return max(float(xp.max(data)), -float(xp.min(data)))


def _times(values: Any, exponent: int) -> Any:
    return values if values is None or exponent == 0 else times_power_of_two(values, exponent)


@dataclass(frozen=True, eq=False)
class KernelSubstitution:
    """Coordinates by forward substitution from kernel values at the dictionary."""

    values: KernelValues
    T: Vector  # (s, s), lower triangular
    noise2: float  # part of k(x, x) below which a squared residual is rounding alone
    exponent: int = 0  # lengths are in units of 2**exponent

    def coordinates(self, X: Any) -> Vector:
        """Return the coordinates (n, s) of the rows of `X`."""
        F = np.concatenate([F for F, _ in self._blocks(X)])
        return np.asarray(times_power_of_two(F, self.exponent))

    def rates(self, X: Any, diagonal: Vector | None = None) -> Vector:
        """Return mu(x), the norm of what the dictionary misses, for the rows of `X`."""
        rates = []
        with np.errstate(over="ignore", invalid="ignore"):  # refused by what reads the rates
            for F, k_xx in self._blocks(X, diagonal):
                missed2 = k_xx - np.vecdot(F, F)
                missed2[missed2 <= self.noise2 * k_xx] = 0.0
                rates.append(np.sqrt(missed2))
        return np.asarray(times_power_of_two(np.concatenate(rates), self.exponent))

    def weights(self, X: Any) -> Vector:
        """Return a with projection(x) = sum_p a_p phi(p): coordinates of x in the dictionary."""
        F = np.concatenate([F for F, _ in self._blocks(X)])
        if len(self.T) == 0:
            return F
        solved = scipy.linalg.solve_triangular(self.T, F.T, lower=True, trans="T")
        return np.asarray(solved.T)

    def _blocks(self, X: Any, diagonal: Vector | None = None) -> Iterator[tuple[Vector, Vector]]:
        for rows in row_blocks(X.shape[0], 8 * max(X.shape[1], len(self.T))):
            K, k_xx = self.values(X[rows], None if diagonal is None else diagonal[rows])
            yield _solve(self.T, K.T).T, k_xx


class KernelValues(Protocol):
    """k(x, dictionary) and k(x, x) for new points x."""

    def __call__(self, X: Any, diagonal: Vector | None) -> tuple[Vector, Vector]: ...
