"""DiffusionMaps: the spectral diffusion maps of the paper's section 3.1.

Legend: K, d, M, vol and Z as in `isopivot.diffusion`; U, S = eigenvectors and eigenvalues of M
without the trivial pair (1, sqrt(d / vol)).
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral
from typing import Any

import numpy as np
import scipy.linalg
from scipy.sparse.linalg import LinearOperator, eigsh
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from isopivot._arrays import Rows, Vector, row_blocks
from isopivot._compat import validate_data
from isopivot._validation import check_kind, with_remedies
from isopivot.diffusion import DenseGeometry, dense_geometry
from isopivot.estimators.diffusion import LogKernel, check_walk, positive_matrix
from isopivot.estimators.kernel import KernelICPQR

DENSE_UP_TO = 500  # points; beyond, ARPACK is faster unless most coordinates are wanted


class WalkBaseline(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """What the baselines share: validation, the matrix of the walk, and new points."""

    kernel: str | Callable[..., Any]
    epsilon: float | str
    epsilon_scale: float
    kernel_params: dict[str, Any] | None
    alpha: float = 0.0
    embedding_: Any

    def _validated(self, X: Any, *, reset: bool = False) -> Any:
        check_kind(X)
        with with_remedies():
            return validate_data(
                self,
                X,
                reset=reset,
                accept_sparse="csr" if self.__sklearn_tags__().input_tags.sparse else False,
                ensure_min_samples=2 if reset else 1,
                dtype=[np.float64, np.float32],
            )

    def _walk_matrix(self, X: Any) -> tuple[DenseGeometry, Vector]:
        """Return the geometry for t = 1 and M = D^-1/2 K D^-1/2; keep what new points need."""
        # KernelICPQR knows how these parameters, checked, become a kernel.
        choice = KernelICPQR(
            kernel=self.kernel,
            epsilon=self.epsilon,
            epsilon_scale=self.epsilon_scale,
            kernel_params=self.kernel_params,
        )
        K = positive_matrix(choice._source(X))
        self.epsilon_, self.mean_ = choice.epsilon_, choice.mean_
        self._log_kernel = (
            LogKernel(None, None, None, None)
            if self.kernel == "precomputed"
            else LogKernel(choice._kernel, choice._frame, choice._frame.of(X), None)
        )
        geometry, Z = dense_geometry(K, 1, float(self.alpha))
        Z *= np.sqrt(geometry.degrees / geometry.degrees.sum())[:, None]  # back to M
        self._geometry, self.degrees_ = geometry, geometry.degrees
        return geometry, Z

    def transform(self, X: Any) -> Any:
        """Return the coordinates of points, seen or new.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Points; with a precomputed kernel, k(x, training points).

        Returns
        -------
        ndarray of shape (n_samples, number of coordinates)
            Points far from all training points get those of the nearest one.
        """
        check_is_fitted(self)
        X = self._validated(X)
        parts = []
        for rows in row_blocks(X.shape[0], 8 * len(self.degrees_)):
            g, _ = self._geometry.place(*self._log_kernel(X[rows]))
            parts.append(self._coordinates(g))
        return np.concatenate(parts).astype(X.dtype, copy=False)

    def _coordinates(self, g: Vector) -> Vector:
        """Return the coordinates of points given by their walks g(x) = vol^1/2 D^-1/2 p(x)."""
        raise NotImplementedError  # pragma: no cover

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Fit and return `embedding_`.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : None
            Ignored; present by convention.

        Returns
        -------
        ndarray of shape (n_samples, number of coordinates)
        """
        return self.fit(X).embedding_

    @property
    def _n_features_out(self) -> int:
        return int(self.embedding_.shape[1])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        tags.input_tags.sparse = self.kernel != "precomputed" and not callable(self.kernel)
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class DiffusionMaps(WalkBaseline):
    """Spectral diffusion maps: the leading eigenvectors of the random walk on the data.

    Parameters
    ----------
    n_components : int, default=2
        Coordinates to keep, from 1 to n_samples - 1; the constant one is not among them.
    kernel : str or callable, default="rbf"
        As in `KernelICPQR`; its values must not be negative.
    epsilon, epsilon_scale, kernel_params
        As in `KernelICPQR`.
    t : int, default=1
        Number of steps of the walk.
    alpha : float, default=0.0
        Density normalisation of Coifman and Lafon; 0 is the paper's kernel.
    eigen_solver : {"auto", "dense", "arpack"}, default="auto"
        `dense` finds all eigenvalues, `arpack` only those wanted. `auto` is arpack beyond
        500 points when at most a tenth of the coordinates are wanted.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        Row i is (vol / d_i)^1/2 [s_1^t U_i1, ..., s_k^t U_ik].
    eigenvalues_ : ndarray of shape (n_components,)
        s_1 ... s_k by decreasing modulus, without the trivial eigenvalue 1.
    degrees_ : ndarray of shape (n_samples,)
        Degrees of the training points in the kernel's graph.
    analytic_bound_ : float
        sqrt(2) c |s_(k+1)|^t with c = (vol / min d)^1/2: no diffusion distance differs from
        its embedded one by more.
    epsilon_ : float or None
        The squared length scale in use; None for kernels without one.
    mean_ : ndarray of shape (n_features_in_,) or None
        What translation-invariant kernels subtract first, for accuracy.
    n_features_in_ : int
        Number of features seen in `fit`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, when X had string names.

    See Also
    --------
    isopivot.DiffusionICPQR : The same geometry from a dictionary, with its certificate.

    Notes
    -----
    Eq. svd_psi, lines 2-4 (the first is off by a factor, errata 12), and Lemma svd_distort
    (errata 13: its constant holds). The trivial coordinate, the same for all points, changes
    no distance and is left out by deflation, also where the graph is disconnected and 1 is
    a repeated eigenvalue; k coordinates here are the paper's first k + 1. New points are
    placed by Nystrom's formula, S^(t-1) U^T g(x), which needs no division by eigenvalues.
    Memory 8 n^2 bytes; O(n^3) operations (dense) or O(n^2 k) for some multiple (arpack).

    Examples
    --------
    >>> from sklearn.datasets import make_swiss_roll
    >>> from isopivot.baselines import DiffusionMaps
    >>> X = make_swiss_roll(400, random_state=0)[0]
    >>> model = DiffusionMaps(3, epsilon=9.0, t=8).fit(X)
    >>> model.embedding_.shape
    (400, 3)
    >>> bool(1 > model.eigenvalues_[0] >= model.eigenvalues_[1])
    True
    """

    def __init__(
        self,
        n_components: int = 2,
        *,
        kernel: str | Callable[..., Any] = "rbf",
        epsilon: float | str = "median",
        epsilon_scale: float = 1.0,
        kernel_params: dict[str, Any] | None = None,
        t: int = 1,
        alpha: float = 0.0,
        eigen_solver: str = "auto",
    ) -> None:
        self.n_components = n_components
        self.kernel = kernel
        self.epsilon = epsilon
        self.epsilon_scale = epsilon_scale
        self.kernel_params = kernel_params
        self.t = t
        self.alpha = alpha
        self.eigen_solver = eigen_solver

    def fit(self, X: Any, y: Any = None) -> DiffusionMaps:
        """Find the leading eigenvectors of the walk on `X`.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Points as rows; with a precomputed kernel, k(X, X).
        y : None
            Ignored; present by convention.

        Returns
        -------
        self
        """
        X = self._validated(X, reset=True)
        check_walk(self.t, self.alpha, "dense", 0.0)
        check_spectrum(self.n_components, X.shape[0], self.eigen_solver)
        geometry, M = self._walk_matrix(X)
        k, t = int(self.n_components), int(self.t)
        s, U = leading_eigenpairs(M, geometry.degrees, k + 1, self.eigen_solver)
        rate = np.sqrt(geometry.degrees.sum() / geometry.degrees)
        self.eigenvalues_ = s[:k]
        self._stretched = U[:, :k] * s[:k] ** (t - 1)
        embedding = rate[:, None] * U[:, :k] * s[:k] ** t
        self.embedding_ = embedding.astype(X.dtype, copy=False)
        self.analytic_bound_ = float(np.sqrt(2.0) * rate.max() * abs(s[k]) ** t)
        return self

    def _coordinates(self, g: Vector) -> Vector:
        return g @ self._stretched


def leading_eigenpairs(M: Vector, degrees: Vector, k: int, solver: str) -> tuple[Vector, Vector]:
    """Return k eigenvalues of M, largest modulus first, and eigenvectors, less the trivial pair.

    Parameters
    ----------
    M : ndarray of shape (n, n)
        Symmetric; overwritten.
    degrees : ndarray of shape (n,)
        Their roots are the trivial eigenvector.
    k : int
        At most n; the n-th is the deflated zero.
    solver : {"auto", "dense", "arpack"}
        As in `DiffusionMaps`.

    Returns
    -------
    s, U : ndarrays of shape (k,) and (n, k)
        The largest entry of every eigenvector is positive.
    """
    n = len(M)
    u = np.sqrt(degrees / degrees.sum())
    few = k < n and (solver == "arpack" or (n > DENSE_UP_TO and 10 * k <= n))
    if solver != "dense" and few:
        deflated = LinearOperator((n, n), matvec=lambda v: M @ v - u * (u @ v), dtype=M.dtype)
        start = np.random.default_rng(0).standard_normal(n)
        s, U = eigsh(deflated, k, which="LM", v0=start)
    else:
        for rows in row_blocks(n, 8 * n):
            M[rows] -= u[rows, None] * u[None, :]
        s, U = scipy.linalg.eigh(M, overwrite_a=True)
    order = np.argsort(-np.abs(s), kind="stable")[:k]
    s, U = s[order], U[:, order]
    lead: Rows = np.argmax(np.abs(U), axis=0)
    return s, U * np.where(U[lead, np.arange(k)] < 0.0, -1.0, 1.0)


def check_spectrum(n_components: Any, n: int, eigen_solver: Any) -> None:
    """Raise unless there are that many coordinates and the solver has a known name."""
    if isinstance(n_components, bool | np.bool_) or not isinstance(n_components, Integral):
        raise TypeError(
            f"got n_components={n_components!r} of type {type(n_components).__name__}; allowed "
            f"is an integer from 1 to {n - 1}; pass the number of coordinates to keep"
        )
    if not 1 <= int(n_components) < n:
        raise ValueError(
            f"got n_components={n_components} for n_samples={n}; allowed is 1 to {n - 1}, the "
            "number of points less the constant coordinate; lower it"
        )
    if eigen_solver not in ("auto", "dense", "arpack"):
        raise ValueError(
            f"got eigen_solver={eigen_solver!r}; allowed are 'auto', 'dense' and 'arpack'; pass "
            "one of these"
        )
