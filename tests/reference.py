"""Slow and literal oracles, in float64 or longdouble.

The first half is what the library should compute. The second half, every name of which starts
with ``printed_``, is the paper as printed: wrong on purpose, for the errata tests.

Legend: rows of ``X`` are points, as everywhere in the library; ``A`` is the paper's m x n matrix
with points in its columns, ``A = X.T``. Indices count from zero.
"""

from dataclasses import dataclass

import numpy as np

from tolerances import eps_of

__all__ = [
    "Greedy",
    "distances",
    "entry_residuals",
    "greedy",
    "max_distortion",
    "printed_algorithm_1",
    "printed_algorithm_2",
    "printed_algorithm_3",
    "printed_algorithm_6",
    "printed_distortion_rate",
    "project",
]

TIE_WINDOW = 64


@dataclass(frozen=True)
class Greedy:
    """Pivots in order, Q (m x s), residual norms (n,) and the R_jj at which pivots entered (s,)."""

    pivots: np.ndarray
    Q: np.ndarray
    residuals: np.ndarray
    pivot_residuals: np.ndarray


def greedy(X, mu=None, n_components=None, *, dtype=np.float64):
    """Plain greedy pivoted QR with the residual matrix E kept explicitly.

    The test comes before the admission. Ties go to the lowest index whose squared residual is
    within 64 eps of the largest; eps is that of the data's dtype, whatever dtype works here.
    """
    eps = eps_of(X)
    X, scale = _to_unit_scale(X, dtype)
    stop = max(0.0 if mu is None else mu / scale, 10 * eps * _norms(X).max(initial=0))
    limit = min(X.shape) if n_components is None else n_components
    pivots, entered, Q = [], [], np.empty((X.shape[1], 0), dtype=dtype)
    E = X
    while len(pivots) < limit:
        residual2 = (E * E).sum(axis=1)
        if np.sqrt(residual2.max(initial=0)) <= stop:
            break
        p = _lowest_index_of_largest(residual2, eps)
        q = _perp(_perp(E[p], Q), Q)
        entered.append(np.sqrt(residual2[p]))
        pivots.append(p)
        Q = np.column_stack([Q, q / np.sqrt(q @ q)])
        E = _perp(_perp(X, Q), Q)
        E[pivots] = 0
    return Greedy(
        np.array(pivots, dtype=int), Q, _norms(E) * scale, np.array(entered, dtype=dtype) * scale
    )


def project(X, pivots, mean=None):
    """Q (m x s), coordinates (n x s) and residual norms on the span of the given pivots.

    In longdouble, orthogonalised twice: the truth to compare a float64 or float32 result with.
    """
    X = _centred(X, mean)
    Q = np.empty((X.shape[1], 0), dtype=np.longdouble)
    for p in pivots:
        q = _perp(_perp(X[p], Q), Q)
        Q = np.column_stack([Q, q / np.sqrt(q @ q)])
    return Q, X @ Q, _norms(_perp(_perp(X, Q), Q))


def entry_residuals(X, pivots, mean=None):
    """Residual norms (s, n) of all points just before each pivot entered, in longdouble."""
    return np.array([project(X, pivots[:j], mean)[2] for j in range(len(pivots))])


def distances(F, G=None):
    """All pairwise distances in longdouble, differences taken explicitly."""
    F = np.asarray(F, dtype=np.longdouble)
    G = F if G is None else np.asarray(G, dtype=np.longdouble)
    return np.sqrt(((F[:, None, :] - G[None, :, :]) ** 2).sum(axis=2))


def max_distortion(X, embedding):
    """The largest change of a pairwise distance, in longdouble over all pairs."""
    return np.abs(distances(X) - distances(embedding)).max(initial=0)


def _to_unit_scale(X, dtype):
    """X over a power of two, so that squares neither overflow nor vanish, and that power."""
    largest = float(np.abs(X).max(initial=0))
    scale = 2.0 ** int(np.frexp(largest)[1]) if largest > 0 else 1.0
    return np.asarray(X, dtype=dtype) / dtype(scale), dtype(scale)


def _centred(X, mean):
    X = np.asarray(X, dtype=np.longdouble)
    return X if mean is None else X - np.asarray(mean, dtype=np.longdouble)


def _norms(rows):
    return np.sqrt((rows * rows).sum(axis=1))


def _perp(rows, Q):
    return rows - (rows @ Q) @ Q.T


def _lowest_index_of_largest(residual2, eps):
    return int(np.flatnonzero(residual2 >= residual2.max() * (1 - TIE_WINDOW * eps))[0])


# The paper as printed. Do not repair: the errata tests show what goes wrong here.


def printed_algorithm_1(A, mu):
    """PRINTED, WRONG. Algorithm 1: returns Q, R, pi and the columns it orthogonalised.

    Two defects: a column index serves as a position (errata 2), and a pivot is admitted before
    the test (errata 3).
    """
    n = A.shape[1]
    pi, log = list(range(n)), []
    Q, R = np.empty((A.shape[0], 0)), np.empty((0, n))
    delta = np.inf
    with np.errstate(all="ignore"):
        while delta > mu:
            j = len(log)
            candidates = [i for i in range(n) if i not in pi[:j]]
            perp = A - Q @ (Q.T @ A)
            norms = np.linalg.norm(perp, axis=0)
            i_j = candidates[np.argmax(norms[candidates])]
            delta = norms[i_j]
            Q = np.column_stack([Q, perp[:, i_j] / delta])
            pi[j], pi[i_j] = pi[i_j], pi[j]
            R[:, [j, i_j]] = R[:, [i_j, j]]
            R = np.vstack([R, Q[:, j] @ A[:, pi]])
            log.append(i_j)
    return Q, R, pi, log


def printed_algorithm_2(A, mu, *, squared=False):
    """PRINTED, WRONG. Algorithm 2: returns R-bar (s x n), pi and the vector z - y.

    y accumulates R-bar where it needs its square (errata 1), a pivot is admitted before the test
    (errata 3), the test continues at equality (errata 4) and pivots keep their z - y (errata 7).
    ``squared=True`` repairs the first of these alone, to show the others by themselves.
    """
    n = A.shape[1]
    pi, y, z = list(range(n)), np.zeros(n), (A * A).sum(axis=0)
    R, delta = np.empty((0, n)), np.inf
    with np.errstate(all="ignore"):
        while delta >= mu**2:
            j = len(R)
            i_j = j + int(np.argmax((z - y)[pi[j:]]))
            pi[j], pi[i_j] = pi[i_j], pi[j]
            delta = z[pi[j]] - y[pi[j]]
            row = np.zeros(n)
            row[pi[j]] = np.sqrt(delta)
            for i in pi[j + 1 :]:
                row[i] = (A[:, pi[j]] @ A[:, i] - R[:, pi[j]] @ R[:, i]) / row[pi[j]]
                y[i] += row[i] ** 2 if squared else row[i]
            R = np.vstack([R, row])
    return R, pi, z - y


def printed_algorithm_3(B, T, v):
    """PRINTED, WRONG. Algorithm 3 for dictionary columns B and T = R-bar(:, pi([s])).

    The division by the diagonal stops short of the sum (errata 6).
    """
    f = np.zeros(T.shape[0])
    for j in range(T.shape[0]):
        f[j] = B[:, j] @ v / T[j, j] - T[:j, j] @ f[:j]
    return f


def printed_distortion_rate(x, f):
    """PRINTED, WRONG in floating point. Eq. dist_func: a difference that can be negative."""
    with np.errstate(invalid="ignore"):
        return np.sqrt((x * x).sum(axis=-1) - (f * f).sum(axis=-1))


def printed_algorithm_6(A, B):
    """PRINTED, WRONG. Algorithm 6: sums in place of means, singular vectors of either factor."""
    a, b = A.sum(axis=1, keepdims=True), B.sum(axis=1, keepdims=True)
    U_A = np.linalg.svd(A - a, full_matrices=False)[0]
    U_B = np.linalg.svd(B - b, full_matrices=False)[0]
    return U_A @ U_B.T @ (B - b) + a
