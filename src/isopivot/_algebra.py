"""Small linear algebra of the factorizations: triangles, orthonormal rows, products and sums.

Each function uses the compiled ones of `_native` where these apply, and the array's own
namespace elsewhere.
"""

from __future__ import annotations

import math

import numpy as np

from isopivot import _native
from isopivot._arrays import Array, Rows, Vector, like, namespace, put_columns, to_numpy
from isopivot.certificate import Route

# Epsilons that the basis may have, in norm, of a unit vector that counts as orthogonal to it. If
# all have as much, distances change by 3 sqrt(s) of them at most: less than the floor.
ORTHOGONAL = 4.0


def relative_floor(route: Route, s: int, roundings: int, eps: float) -> float:
    """Return the rounding error of residuals and coordinates, relative to the norms.

    With a basis, of order eps: a few roundings in every residual vector, one in each of the
    s coordinates, and those of sums over the features, which do not cancel where the terms
    are equal (rows of few distinct values; measured: up to 4 sqrt(m)). From inner products
    alone, of order sqrt(eps), because a squared residual is a difference of numbers that
    carry `roundings` + s of them.
    """
    if route == "orthonormal":
        return (max(10.0, 5.0 * math.sqrt(roundings)) + math.sqrt(s)) * eps
    return math.sqrt((roundings + s) * float(np.finfo(np.float64).eps))


def with_triangular_pivots(F: Array, pivots: Rows) -> Array:
    """Return F (s, n), in its place where that is allowed, with 0 where pivots have only rounding.

    A pivot lies in the span of itself and its predecessors.
    """
    if _native.available(F):
        _native.triangular(F, pivots)
        return F
    if isinstance(F, np.ndarray):
        for j in range(1, len(pivots)):
            F[j, pivots[:j]] = 0.0
        return F
    xp = namespace(F)
    return put_columns(F, pivots, xp.triu(xp.take(F, like(pivots, F), axis=1)))


def leading_cholesky(G: Vector, stop2: float) -> Vector:
    """Return the Cholesky factor of the leading block whose pivots all exceed `stop2`."""
    L = np.zeros_like(G)
    for j in range(len(G)):
        left2 = G[j, j] - L[j, :j] @ L[j, :j]
        if left2 <= stop2:
            return L[:j, :j]
        L[j:, j] = (G[j:, j] - L[j:, :j] @ L[j, :j]) / np.sqrt(left2)
    return L


def orthonormalised(E: Array, Q: Array, stop2: float) -> tuple[Array, Vector]:
    """Return orthonormal rows for the leading rows of E, orthogonal to Q, and their R_jj.

    They may be written over E. Rows whose residual does not exceed stop2 end it. E was
    orthogonalised against Q once; here again, block by block, until what a pass removes is
    negligible: Cholesky QR, whose weakness, nearly dependent rows, pivoting has ruled out.
    """
    if _together(E, Q):
        return _native.orthonormalise(E, Q, stop2, ORTHOGONAL * float(np.finfo(E.dtype).eps))
    inverse, entered = leading_inverse(gram_of(E), stop2)
    new = solved(inverse, E)
    for _ in range(4):
        new = _corrected(new, inner(Q, new), Q)
        G = gram_of(new)
        far = np.abs(G - np.eye(len(G))).max(initial=0.0)
        if far <= 8.0 * np.finfo(new.dtype if isinstance(new, np.ndarray) else float).eps:
            break  # the Gram matrix itself is no more accurate
        inverse, scales = leading_inverse(G, 0.0)
        new, entered = solved(inverse, new), entered[: len(scales)] * scales
        if len(scales) == len(G) and far < 1e-3:
            break
    return new, entered


def _together(E: Array, Q: Array) -> bool:
    """Return whether the compiled functions take both, and may write over E."""
    return (
        _native.available(E) and _native.available(Q) and E.dtype == Q.dtype and E.flags.writeable
    )


def _corrected(new: Array, C: Array, Q: Array) -> Array:
    """Return unit rows less `C.T @ Q`, what the basis has of them, unless that is nothing."""
    if isinstance(C, np.ndarray) and _largest_column(C) <= ORTHOGONAL * np.finfo(C.dtype).eps:
        return new
    return less_combined(new, C, Q)


def _largest_column(C: Vector) -> float:
    return float(np.sqrt(np.einsum("ij,ij->j", C, C).max(initial=0.0)))


def leading_inverse(G: Vector, stop2: float) -> tuple[Vector, Vector]:
    """Return L^-1, and the diagonal of L, of the leading block of G = L L' above stop2."""
    if _native.ready():
        return _native.leading_inverse(np.array(G, order="C"), stop2)
    L = leading_cholesky(G, stop2)
    return np.asarray(np.linalg.inv(L)), np.diagonal(L)


def gram_of(E: Array) -> Vector:
    """Return the inner products of rows, in float64."""
    if _native.available(E):
        return _native.gram(E, wide=False)
    return to_numpy(E @ E.T).astype(np.float64, copy=False)


def inner(A: Array, B: Array) -> Array:
    """Return `A @ B.T`: the inner products of two sets of rows."""
    if _native.available(A) and _native.available(B):
        return _native.inner(A, B)
    return A @ B.T


def less_combined(E: Array, C: Array, Q: Array) -> Array:
    """Return `E - C.T @ Q`, in the place of E where that is allowed."""
    if _native.available(Q) and _native.available(E) and E.flags.writeable:
        _native.combine(C, Q, E, -1)
        return E
    return E - C.T @ Q


def add_product(E: Vector, C: Vector, U: Vector) -> None:
    """Add `C.T @ U` to E, in its place."""
    if _native.available(U) and _native.available(E):
        _native.combine(C, U, E)
    else:
        E += C.T @ U


def solved(inverse: Vector, E: Array) -> Array:
    """Return L^-1 times the first rows of E, in their place where that is allowed."""
    first = E[: len(inverse), :]
    if _native.available(first) and first.flags.writeable:
        _native.replace(inverse, first)
        return first
    return like(inverse, E, dtype=E.dtype) @ first
