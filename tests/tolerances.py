"""What floating point may cost, from machine epsilon, the sizes and the scale of the data.

M is the largest row norm before centring: rounding happens at the size of the raw numbers,
and a centred cloud far from the origin keeps that error.
"""

import numpy as np

__all__ = [
    "eigen_slack",
    "eps_of",
    "largest_norm",
    "length_slack",
    "q_less_slack",
    "smallest_of",
]


def eps_of(X):
    """Machine epsilon of the arithmetic that data of this dtype is worked in."""
    dtype = np.asarray(X).dtype
    return float(np.finfo(dtype if dtype.kind == "f" else np.float64).eps)


def smallest_of(X):
    """The smallest number above zero of the arithmetic that data of this dtype is worked in."""
    dtype = np.asarray(X).dtype
    return float(np.finfo(dtype if dtype.kind == "f" else np.float64).smallest_subnormal)


def largest_norm(X):
    """The largest row norm, in longdouble so that no scale overflows."""
    rows = np.asarray(X, dtype=np.longdouble)
    return float(np.sqrt((rows * rows).sum(axis=1)).max(initial=0))


def length_slack(X, *others):
    """Rounding error of one length (residual, coordinate vector, distance) on the explicit-Q route.

    A product with an orthonormal row sums m terms, and it is done twice; 10 covers centring,
    scaling and the square root. Each of these may also lose one subnormal number to underflow.
    Further arrays, such as queries, can only raise the scale.
    """
    M = max(largest_norm(rows) for rows in (X, *others))
    operations = 10 + 2 * np.asarray(X).shape[1]
    return operations * (eps_of(X) * M + smallest_of(X))


def q_less_slack(X):
    """Rounding error of one length on the Q-less route, where squares cancel: sqrt(eps) times M."""
    m = np.asarray(X).shape[1]
    return float(np.sqrt((10 + 2 * m) * np.finfo(np.float64).eps)) * largest_norm(X)


def eigen_slack(Z):
    """Rounding error of one distance that comes from eigenpairs of an n x n matrix.

    LAPACK passes its own tests as long as U S U' misses the matrix by at most 30 n eps of its
    norm, and U' U the unit matrix by as much; which part of that is used depends on the processor.
    The rows of Z are those of the matrix, stretched to the largest norm M; a distance takes two.
    """
    n = len(Z)
    return 2 * (30 + 30) * n * eps_of(Z) * largest_norm(Z)
