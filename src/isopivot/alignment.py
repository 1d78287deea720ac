"""Laying one embedding on another (the paper's appendix, Algorithm 6, corrected)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from isopivot._arrays import binary_exponent, times_power_of_two


def align(A: npt.ArrayLike, B: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return `B` moved rigidly onto `A`: distances in B are kept, the misfit is minimal.

    Parameters
    ----------
    A, B : array-like of shape (n, k) and (n, l)
        The same n points in two embeddings; the narrower is padded with zero columns.

    Returns
    -------
    ndarray of shape (n, max(k, l))
        B after the best orthogonal transformation (reflections allowed) and translation.

    Notes
    -----
    Orthogonal Procrustes: with centred A, B and the singular value decomposition
    B^T A = U S V^T, the best orthogonal matrix is U V^T. The printed Algorithm 6 centres
    by column sums and multiplies the singular vectors of A and B, which does not even
    bring a rigid copy back onto its original (errata 18).

    Examples
    --------
    >>> import numpy as np
    >>> from isopivot import align
    >>> A = np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 1.0]])
    >>> quarter_turn = np.array([[0.0, 1.0], [-1.0, 0.0]])
    >>> bool(np.allclose(align(A, A @ quarter_turn + 5.0), A))
    True
    """
    target, moving = _padded(A, B)
    largest = max(np.abs(target).max(initial=0.0), np.abs(moving).max(initial=0.0))
    exponent = binary_exponent(float(largest), float(np.finfo(np.float64).eps))
    target, moving = (times_power_of_two(M, -exponent) for M in (target, moving))
    mean = target.mean(axis=0)
    moving = moving - moving.mean(axis=0)
    U, _, Vt = np.linalg.svd(moving.T @ (target - mean))
    aligned = moving @ (U @ Vt) + mean
    return np.asarray(times_power_of_two(aligned, exponent))


def _padded(
    A: npt.ArrayLike, B: npt.ArrayLike
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    pair = [np.asarray(M, dtype=np.float64) for M in (A, B)]
    if any(M.ndim != 2 for M in pair) or len(pair[0]) != len(pair[1]) or len(pair[0]) == 0:
        raise ValueError(
            f"got shapes {pair[0].shape} and {pair[1].shape}; allowed are two matrices with the "
            "same number (at least 1) of rows; pass two embeddings of the same points"
        )
    if not all(np.isfinite(M).all() for M in pair):
        raise ValueError("got NaN or infinity; allowed are finite coordinates; drop such rows")
    width = max(M.shape[1] for M in pair)
    padded = [np.pad(M, ((0, 0), (0, width - M.shape[1]))) for M in pair]
    return padded[0], padded[1]
