"""MuIDM: a reconstruction of mu-isometric diffusion maps, the paper's predecessor.

Legend: M, d, vol and z_x (row x of Z, t = 1) as in `isopivot.diffusion`; S = dictionary,
L L^T = M_SS, W = L^-1 M_S: (s x n). The method approximates z_x by

    z^_x = (vol / d_x)^1/2 M_:S M_SS^-1 M_Sx = (vol / d_x)^1/2 W^T W e_x,
    err_x = ||z_x - z^_x|| = (vol / d_x)^1/2 ||(M - W^T W) e_x||.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg

from isopivot._arrays import Rows, Vector, row_blocks
from isopivot._validation import check_mu, resolve_mu
from isopivot.baselines.spectral import WalkBaseline

_BATCH = 64  # rows whose errors are computed by one matrix product
_EPS = float(np.finfo(np.float64).eps)


class MuIDM(WalkBaseline):
    """Dictionary-based diffusion maps by a single scan: a reconstruction of mu-IDM.

    Points are visited in the order given; one enters the dictionary when the Nystrom
    approximation of its diffusion coordinates from the dictionary so far misses it by more
    than mu. Rebuilt from its description in the paper, not from its authors' code.

    Parameters
    ----------
    mu : float or str, default="5%"
        Error above which a point enters the dictionary, or `"p%"` of the median norm of a
        point in the diffusion geometry.
    kernel : str or callable, default="rbf"
        As in `KernelICPQR`; its values must not be negative.
    epsilon, epsilon_scale, kernel_params
        As in `KernelICPQR`.

    Attributes
    ----------
    dictionary_indices_ : ndarray of shape (s,)
        Rows that entered the dictionary, in the order of the scan.
    embedding_ : ndarray of shape (n_samples, s)
        The approximations, in an orthonormal basis of the dictionary's span.
    residuals_ : ndarray of shape (n_samples,)
        Errors of the approximations from the final dictionary. Those of a scan are not
        nested: an error may exceed the mu that it once passed.
    mu_, mu_strict_ : float
        The error allowed in the scan, and the largest of `residuals_`.
    distortion_bound_ : float
        The two largest residuals added: no diffusion distance differs from its embedded one
        by more, by the triangle inequality (up to rounding).
    degrees_ : ndarray of shape (n_samples,)
        Degrees of the training points in the kernel's graph.
    epsilon_, mean_, n_features_in_, feature_names_in_
        As in `DiffusionMaps`.

    See Also
    --------
    isopivot.DiffusionICPQR : Chooses the worst point first, and projects orthogonally.

    Notes
    -----
    For t = 1. One scan costs n^2 s multiplications, nearly all in matrix products, and 8 n^2
    bytes. Points whose part of M outside the dictionary is rounding never enter.

    Examples
    --------
    >>> from sklearn.datasets import make_swiss_roll
    >>> from isopivot.baselines import MuIDM
    >>> X = make_swiss_roll(300, random_state=0)[0]
    >>> model = MuIDM(2.0, epsilon=9.0).fit(X)
    >>> model.embedding_.shape[1] == len(model.dictionary_indices_)
    True
    >>> bool(model.distortion_bound_ <= 2 * model.mu_strict_)
    True
    """

    def __init__(
        self,
        mu: float | str = "5%",
        *,
        kernel: str | Callable[..., Any] = "rbf",
        epsilon: float | str = "median",
        epsilon_scale: float = 1.0,
        kernel_params: dict[str, Any] | None = None,
    ) -> None:
        self.mu = mu
        self.kernel = kernel
        self.epsilon = epsilon
        self.epsilon_scale = epsilon_scale
        self.kernel_params = kernel_params

    def fit(self, X: Any, y: Any = None) -> MuIDM:
        """Scan the rows of `X` once, in order.

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
        if check_mu(self.mu) is None:
            raise ValueError(
                'got mu=None; allowed are a number >= 0 or a percentage such as "5%"; pass the '
                "error that you can bear"
            )
        X = self._validated(X, reset=True)
        geometry, M = self._walk_matrix(X)
        rate = np.sqrt(geometry.degrees.sum() / geometry.degrees)
        norms = rate * np.linalg.norm(M, axis=1)
        self.mu_ = float(resolve_mu(self.mu, float(np.median(norms))) or 0.0)
        self.dictionary_indices_, W = scan(M, rate, self.mu_)
        self.residuals_ = approximation_errors(M, W, rate)
        self.mu_strict_ = float(self.residuals_.max())
        self.distortion_bound_ = float(np.sort(self.residuals_)[-2:].sum())
        self._turn = np.linalg.qr(W.T, mode="r")
        self._L = np.ascontiguousarray(W[:, self.dictionary_indices_].T)
        self.embedding_ = ((self._turn @ W) * rate).T.astype(X.dtype, copy=False)
        return self

    def _coordinates(self, g: Vector) -> Vector:
        # g(x)_S = (vol / d_x)^1/2 M_Sx, so that M_:S M_SS^-1 g(x)_S is Nystrom's extension.
        u = scipy.linalg.solve_triangular(self._L, g[:, self.dictionary_indices_].T, lower=True)
        return np.asarray((self._turn @ u).T)


def scan(M: Vector, rate: Vector, mu: float) -> tuple[Rows, Vector]:
    """Return the dictionary of one scan in order, and W = L^-1 M_S: for it.

    Parameters
    ----------
    M : ndarray of shape (n, n)
        Symmetric and positive semi-definite.
    rate : ndarray of shape (n,)
        (vol / d_x)^1/2.
    mu : float
        Error above which a point enters.

    Returns
    -------
    pivots, W : ndarrays of shape (s,) and (s, n)
    """
    n = len(M)
    floor = (10.0 + n) * _EPS * float(M.diagonal().max())
    pivots: list[int] = []
    W = np.zeros((0, n))
    for start in range(0, n, _BATCH):
        E = M[start : start + _BATCH] - W[:, start : start + _BATCH].T @ W
        new: list[Vector] = []
        for i, row in enumerate(E):  # later rows see the members that earlier ones became
            x = start + i
            if row[x] < -floor:
                raise ValueError(
                    "the kernel is not positive semi-definite: a squared residual of "
                    f"{row[x]:.3g} was found; use a positive semi-definite kernel"
                )
            if rate[x] * np.linalg.norm(row) > mu and row[x] > floor:
                w = row / np.sqrt(row[x])
                E -= w[start : start + len(E), None] * w[None, :]
                new.append(w)
                pivots.append(x)
        W = np.vstack([W, *new])
    # What lies left of the diagonal of L is zero but for rounding.
    order = np.array(pivots, dtype=np.intp)
    W[:, order] = np.triu(W[:, order])
    return order, W


def approximation_errors(M: Vector, W: Vector, rate: Vector) -> Vector:
    """Return ||z_x - z^_x|| for every training point."""
    errors = np.empty(len(M))
    for rows in row_blocks(len(M), 8 * len(M)):
        errors[rows] = np.linalg.norm(M[rows] - W[:, rows].T @ W, axis=1)
    return rate * errors
