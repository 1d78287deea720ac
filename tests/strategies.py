"""Point sets to test on: ordinary ones, and every shape that breaks a pivoted QR.

Rows are points. Every strategy draws finite matrices; entries that are not zero stay far enough
from the subnormal range that epsilon times the largest norm is still a meaningful error.
"""

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tolerances import largest_norm

__all__ = ["mus", "point_sets", "problems", "seeds"]

seeds = st.integers(0, 2**32 - 1)

# The largest exponents keep sums of squares of float32 data out of reach on purpose.
EXPONENTS = {np.float64: (-150, -20, 0, 0, 0, 20, 150), np.float32: (-30, -10, 0, 0, 0, 10, 30)}


def _gaussian(draw, n, m):
    return np.random.default_rng(draw(seeds)).standard_normal((n, m))


def _decaying(draw, n, m):
    return _gaussian(draw, n, m) * 0.5 ** np.arange(m)


def _offset(draw, n, m):
    return _gaussian(draw, n, m) + draw(st.sampled_from([3.0, 1000.0]))


def _any_floats(draw, n, m):
    sizes = st.floats(1e-5, 8.0) | st.floats(-8.0, -1e-5) | st.just(0.0)
    return draw(hnp.arrays(np.float64, (n, m), elements=sizes))


def _integers(draw, n, m):
    return draw(hnp.arrays(np.int64, (n, m), elements=st.integers(-3, 3))).astype(float)


def _signs(draw, n, m):
    return np.random.default_rng(draw(seeds)).choice([-1.0, 1.0], size=(n, m))


def _one_hot(draw, n, m):
    return np.eye(m)[np.random.default_rng(draw(seeds)).integers(m, size=n)]


def _low_rank(draw, n, m):
    """Integer factors: the rank is exact, not merely numerical."""
    rank = draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(seeds))
    return rng.integers(-4, 5, (n, rank)) @ rng.integers(-4, 5, (rank, m)).astype(float)


def _duplicates(draw, n, m):
    rng = np.random.default_rng(draw(seeds))
    return rng.standard_normal((max(1, n // 3), m))[rng.integers(max(1, n // 3), size=n)]


def _constant(draw, n, m):
    row = np.random.default_rng(draw(seeds)).standard_normal(m)
    return np.tile(draw(st.sampled_from([0.0, 1.0, 1000.0])) * row, (n, 1))


KINDS = (
    _gaussian,
    _decaying,
    _offset,
    _any_floats,
    _integers,
    _signs,
    _one_hot,
    _low_rank,
    _duplicates,
    _constant,
)


@st.composite
def point_sets(draw, *, min_rows=1, max_rows=30, max_features=12, dtypes=(np.float64, np.float32)):
    """An (n, m) matrix of one of the kinds above, sometimes with zero rows, at any scale."""
    n, m = draw(st.integers(min_rows, max_rows)), draw(st.integers(1, max_features))
    X = draw(st.sampled_from(KINDS))(draw, n, m)
    if draw(st.booleans()):
        X[draw(st.integers(0, n - 1))] = 0
    dtype = draw(st.sampled_from(dtypes))
    exponent = draw(st.sampled_from(EXPONENTS[dtype]))
    return (X * 10.0**exponent).astype(dtype)


@st.composite
def mus(draw, X, *, allow_zero=True):
    """An absolute mu for X, from a thousandth of the largest norm to more than all of it."""
    fraction = draw(st.sampled_from([0.01, 0.1, 0.5, 1.0]) | st.floats(1e-3, 1.2))
    if allow_zero and draw(st.integers(0, 9)) == 0:
        fraction = 0.0
    return fraction * largest_norm(X)


@st.composite
def problems(draw, **kwargs):
    """A point set and a mu for it."""
    X = draw(point_sets(**kwargs))
    return X, draw(mus(X))
