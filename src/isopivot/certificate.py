"""What is promised about distances: certificates, intervals, and the exact truth.

Legend: d, e = true and embedded distance of a pair; r_i = residual norm of point i.
By Pythagoras d^2 = e^2 + ||p_i - p_j||^2 with ||p_i|| = r_i, so that

    e^2 + (r_i - r_j)^2  <=  d^2  <=  e^2 + (r_i + r_j)^2     (both ends attained).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.spatial.distance import cdist

from isopivot._arrays import (
    AccuracyError,
    Rows,
    Vector,
    binary_exponent,
    row_blocks,
    times_power_of_two,
    to_numpy,
)

__all__ = ["AccuracyError", "Certificate", "actual_distortion", "distance_bounds"]

Progress = Callable[[int, int], object]
Route = Literal["orthonormal", "cholesky", "diffusion-dense", "diffusion-low_rank"]
StoppedBy = Literal["mu", "n_components", "rank"]


@dataclass(frozen=True)
class Certificate:
    """What a fit promises about every pairwise distance of its training points.

    Attributes
    ----------
    mu : float
        Residual that no training point exceeds: the requested one, or what was reached.
    mu_strict : float
        Largest residual of a training point, as computed.
    distortion_bound : float
        No pairwise distance differs from its embedded one by more than this; the two
        largest residuals added, plus the rounding error of both.
    accuracy_floor : float
        Rounding error that a residual or an embedded point may carry.
    route_error : float
        Error of an approximating route; 0.0 when the route is exact.
    n_samples, n_components : int
        Training points and dictionary size.
    dtype : str
        Floating-point format of the data.
    route : str
        Which arithmetic was used.
    passes : int
        How often the data was read, rounded up.
    kernel_evaluations : int or None
        Kernel entries evaluated; None without a kernel.
    stopped_by : str
        `"mu"`, `"n_components"` or `"rank"`.
    certified : bool
        False only when a requested mu > 0 was not reached.

    Examples
    --------
    >>> import numpy as np
    >>> from isopivot import icpqr
    >>> certificate = icpqr(np.diag([3.0, 2.0, 0.5]), mu=1.0).certificate
    >>> certificate.n_components, certificate.stopped_by, certificate.certified
    (2, 'mu', True)
    """

    mu: float
    mu_strict: float
    distortion_bound: float
    accuracy_floor: float
    route_error: float
    n_samples: int
    n_components: int
    dtype: str
    route: Route
    passes: int
    kernel_evaluations: int | None
    stopped_by: StoppedBy
    certified: bool

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a dictionary of plain Python values."""
        return asdict(self)

    def to_json(self) -> str:
        """Return the fields as a JSON object."""
        return json.dumps(self.to_dict(), allow_nan=False)

    def __str__(self) -> str:
        space = "" if self.kernel_evaluations is None else "feature-space "
        space = "diffusion " if self.route.startswith("diffusion") else space
        verdict = (
            f"no pairwise {space}distance changed by more than {self.distortion_bound:.6g}"
            if self.certified
            else f"the requested mu was not reached; {space}distances changed by at most "
            f"{self.distortion_bound:.6g}"
        )
        mu = f", mu {self.mu:.6g}" if self.certified else ""  # else that is the residual, too
        if self.n_components == 0:
            verdict += ", because mu exceeds every norm and nothing was kept"
        return (
            f"{self.n_samples} points kept in {self.n_components} dimensions: {verdict} "
            f"(largest residual {self.mu_strict:.6g}{mu}, stopped by {self.stopped_by}; "
            f"{self.route}, {self.dtype}, rounding {self.accuracy_floor:.2g})"
        )


def distance_bounds(
    F: npt.ArrayLike,
    r: npt.ArrayLike,
    G: npt.ArrayLike | None = None,
    q: npt.ArrayLike | None = None,
) -> tuple[Vector, Vector]:
    """Return intervals that contain the true distances of embedded points.

    Parameters
    ----------
    F : array of shape (n, s)
        Embedded points.
    r : array of shape (n,)
        Their residual norms.
    G, q : arrays of shape (k, s) and (k,), optional
        A second set; the first with itself when not given.

    Returns
    -------
    lower, upper : ndarrays of shape (n, k)
        `lower <= d <= upper`; sharp when only embeddings and residuals are known. Their
        midpoint errs by at most the smaller of the two residuals.

    Notes
    -----
    Cost O(n k s) in time, O(n k) in memory. The interval is the one nSimplex projections
    give in one extra dimension (Connor et al., Information Systems 2017), here for s.

    Examples
    --------
    >>> import numpy as np
    >>> from isopivot import distance_bounds
    >>> lower, upper = distance_bounds(np.array([[0.0], [3.0]]), np.array([2.0, 2.0]))
    >>> float(lower[0, 1]), float(upper[0, 1])
    (3.0, 5.0)
    """
    F, r = _embedded(F, r, "F", "r")
    if (G is None) != (q is None):
        raise ValueError("got one of G and q; allowed are both or neither; pass the other one too")
    G, q = (F, r) if G is None or q is None else _embedded(G, q, "G", "q")
    if F.shape[1] != G.shape[1]:
        raise ValueError(
            f"got F with {F.shape[1]} columns and G with {G.shape[1]}; allowed are equal "
            "numbers; embed both sets with the same estimator"
        )
    e = distances(F, G)
    with np.errstate(over="ignore"):
        upper = np.hypot(e, r[:, None] + q[None, :])
    return np.hypot(e, r[:, None] - q[None, :]), _finite(upper)


def actual_distortion(
    X: Any, embedding: Any, residuals: Any = None, *, progress: Progress | None = None
) -> float:
    """Return the largest change of a pairwise distance: exact, over all pairs.

    Of Euclidean distances, which `ICPQR` certifies; a `KernelICPQR` certifies those of its
    feature space, of which this knows nothing.

    Parameters
    ----------
    X : array or sparse matrix of shape (n, m)
        The points.
    embedding : array of shape (n, s)
        The embedded points.
    residuals : array of shape (n,), optional
        Residual norms of an orthogonal projection. With them, pairs that cannot be the
        worst are never looked at.
    progress : callable, optional
        Called with (blocks done, blocks in all).

    Returns
    -------
    float
        The maximum of |d - e|.

    Notes
    -----
    With residuals, d - e <= r_i + r_j: rows are walked by decreasing residual, and a row
    only meets the rows whose residual could still beat the worst pair so far. Memory is a
    block of rows against a block of rows, never n x n; time O(n^2 (m + s)) at worst.

    Examples
    --------
    >>> import numpy as np
    >>> from isopivot import actual_distortion
    >>> actual_distortion(np.array([[0.0, 0.0], [3.0, 4.0]]), np.array([[0.0], [3.0]]))
    2.0
    """
    X, F = _matrix(X, "X"), _matrix(embedding, "embedding")
    n = X.shape[0]
    if F.shape[0] != n:
        raise ValueError(
            f"got {n} points and {F.shape[0]} embedded points; allowed are equal numbers; "
            "pass the embedding of this very X"
        )
    r = None if residuals is None else _residuals(residuals, n, "residuals", "X")
    exponent = binary_exponent(max(_largest_entry(X), _largest_entry(F)), _EPS)
    eps = max(float(np.finfo(M.dtype).eps) if M.dtype.kind == "f" else _EPS for M in (X, F))
    worst = _WorstPair(_Cloud(X, exponent), _Cloud(F, exponent), eps)
    worst.search(None if r is None else times_power_of_two(r, -exponent), progress)
    return float(_finite(times_power_of_two(np.float64(worst.found), exponent)))


_EPS = float(np.finfo(np.float64).eps)
_BLOCK = 512  # rows against rows: 2 MB of distances


class _Cloud:
    """Points as blocks of float64 rows, measured from their mean to lose fewer digits."""

    def __init__(self, X: Any, exponent: int) -> None:
        self.X, self._exponent = X, exponent
        self._mean: Any = 0.0
        blocks = list(row_blocks(X.shape[0], 8 * X.shape[1]))
        if not sparse.issparse(X):
            self._mean = sum(self.rows(block).sum(axis=0) for block in blocks) / X.shape[0]
        self.norms2 = np.concatenate([_row_norms2(self.rows(block)) for block in blocks])

    def rows(self, which: Any) -> Any:
        block = self._raw(which)
        return block if sparse.issparse(block) else block - self._mean

    def _raw(self, which: Any) -> Any:
        return times_power_of_two(self.X[which].astype(np.float64), -self._exponent)

    def estimate(self, left: Any, right: Any) -> tuple[Vector, Vector]:
        """Return distances of all pairs by one matrix product, and their rounding error."""
        inner = self.rows(left) @ self.rows(right).T
        inner = inner.toarray() if sparse.issparse(inner) else inner
        size2 = self.norms2[left][:, None] + self.norms2[right][None, :]
        d2 = np.maximum(size2 - 2.0 * inner, 0.0)
        d = np.sqrt(d2)
        blur2 = 8.0 * (4.0 + np.sqrt(self.X.shape[1])) * _EPS * size2
        # |sqrt(d2 + b) - sqrt(d2)| <= b / sqrt(d2 + b), and at most sqrt(b).
        return d, blur2 / np.sqrt(d2 + blur2 + np.finfo(np.float64).tiny)

    @property
    def largest(self) -> float:
        """Largest norm, at most: from the origin, where rounding happened."""
        return float(np.sqrt(self.norms2.max(initial=0.0)) + np.linalg.norm(self._mean))

    def exact(self, i: Rows, j: Rows) -> Vector:
        """Return the distances of the pairs (i, j) from differences."""
        return np.sqrt(_row_norms2(self._raw(i) - self._raw(j)))


class _WorstPair:
    """Search for the largest |d - e|: estimates rule pairs out, differences decide."""

    def __init__(self, points: _Cloud, embedded: _Cloud, eps: float) -> None:
        self.points, self.embedded, self._eps = points, embedded, eps
        self.found = 0.0

    def search(self, r: Vector | None, progress: Progress | None) -> None:
        n = len(self.points.norms2)
        order = np.arange(n) if r is None else np.argsort(-r, kind="stable")
        # Residuals are as accurate as the data: allow for that before ruling out.
        per_norm = (64.0 + 10.0 * np.sqrt(self.points.X.shape[1])) * self._eps
        slack = per_norm * max(self.points.largest, self.embedded.largest)
        blocks = [order[block] for block in row_blocks(n, 1, _BLOCK)]
        for done, left in enumerate(blocks):
            for right in blocks[done:]:
                if r is not None and r[left[0]] + r[right[0]] + slack <= self.found:
                    break  # rows are sorted: nothing further right can be worse
                rho = None if r is None else r[left][:, None] + r[right][None, :] + slack
                self._visit(left, right, rho)
            if progress is not None:
                progress(done + 1, len(blocks))

    def _visit(self, left: Rows, right: Rows, rho: Vector | None) -> None:
        e, blur_e = self.embedded.estimate(left, right)
        if rho is not None:
            e_low = np.maximum(e - blur_e, 0.0)
            # d - e <= up - e = rho^2 / (up + e), decreasing in e.
            if (rho**2 / (np.hypot(e_low, rho) + e_low + np.finfo(float).tiny)).max() <= self.found:
                return
        d, blur_d = self.points.estimate(left, right)
        self._decide(left, right, np.abs(d - e) + blur_d + blur_e)

    def _decide(self, left: Rows, right: Rows, upper: Vector) -> None:
        """Measure pairs by decreasing upper bound until no bound exceeds the worst found."""
        i, j = np.nonzero(upper > self.found)
        by_bound = np.argsort(-upper[i, j], kind="stable")
        chunk = max(1, (1 << 20) // max(1, self.points.X.shape[1]))
        for start in range(0, len(i), chunk):
            pairs = by_bound[start : start + chunk]
            if upper[i[pairs[0]], j[pairs[0]]] <= self.found:
                return
            a, b = left[i[pairs]], right[j[pairs]]
            change = np.abs(self.points.exact(a, b) - self.embedded.exact(a, b))
            self.found = max(self.found, float(change.max()))


def _row_norms2(rows: Any) -> Vector:
    if sparse.issparse(rows):
        return np.asarray(rows.power(2).sum(axis=1), dtype=np.float64).ravel()
    return np.asarray(np.vecdot(rows, rows))


def _largest_entry(X: Any) -> float:
    data = X.data if sparse.issparse(X) else X
    return max(float(data.max()), -float(data.min())) if data.size else 0.0


def _matrix(X: Any, name: str) -> Any:
    matrix = X.tocsr() if sparse.issparse(X) else to_numpy(np.asarray(X) if _plain(X) else X)
    matrix = np.asarray(matrix) if isinstance(matrix, np.matrix) else matrix
    if matrix.ndim != 2 or matrix.dtype.kind not in "fiub":
        raise ValueError(
            f"got {name} of shape {matrix.shape} and type {matrix.dtype}; allowed is a real "
            f"matrix with one point per row; reshape or convert {name}"
        )
    if not np.isfinite(matrix.data if sparse.issparse(matrix) else matrix).all():
        raise ValueError(
            f"got NaN or infinity in {name}; allowed are finite values; drop such rows"
        )
    return matrix


def _plain(X: Any) -> bool:
    return not hasattr(X, "__array_namespace__") and not hasattr(X, "__dlpack__")


def _embedded(F: Any, r: Any, name: str, residuals: str) -> tuple[Vector, Vector]:
    F = _matrix(F, name).astype(np.float64)
    return F, _residuals(r, F.shape[0], residuals, name)


def _residuals(r: Any, n: int, residuals: str, name: str) -> Vector:
    r = to_numpy(np.asarray(r) if _plain(r) else r)
    if r.shape != (n,):
        raise ValueError(
            f"got {residuals} of shape {r.shape}; allowed is ({n},); pass one residual per row "
            f"of {name}"
        )
    if not (r >= 0).all() or not np.isfinite(r).all():
        raise ValueError(
            f"got negative or non-finite values in {residuals}; allowed are residuals >= 0; pass "
            "what distortion_rate returned"
        )
    return np.asarray(r, dtype=np.float64)


def _finite(value: Any) -> Any:
    if not np.isfinite(value).all():
        raise ValueError(
            "got points whose distances exceed the largest floating-point number; allowed are "
            "distances below 1.8e308; divide the data by a constant"
        )
    return value


def distances(F: Vector, G: Vector) -> Vector:
    """Return distances of all pairs; of differences, so that close pairs keep their digits."""
    exponent = binary_exponent(max(_largest_entry(F), _largest_entry(G)), _EPS)
    F, G = times_power_of_two(F, -exponent), times_power_of_two(G, -exponent)
    return (
        np.asarray(times_power_of_two(cdist(F, G), exponent))
        if F.shape[1]
        else np.zeros((len(F), len(G)))
    )
