"""Rows less the few directions they have most of keep their residual, and lose few digits.

`_native/shortened.inc`: what the compiled loop does where differences of squares cannot tell
residuals any more.
"""

import numpy as np
import pytest

import reference
from isopivot import _compiled, _factors, icpqr
from isopivot._points import as_points

pytestmark = pytest.mark.skipif(
    not as_points(np.eye(3), center=False).in_place, reason="the compiled functions were not built"
)
DONE = 2**31 - 1


def far_out(rng, n, m):
    """Rows that are mostly a multiple of one of eight directions."""
    few = rng.standard_normal((8, m))
    return 30.0 * few[rng.integers(8, size=n)] + rng.standard_normal((n, m))


def local(rng, n, m):
    """Bumps: each row is near those of its neighbours only."""
    places = np.sort(rng.random(n))[:, None] - np.linspace(0.0, 1.0, m)
    return np.exp(-((30.0 * places) ** 2)) * np.exp(rng.standard_normal((n, 1)))


def steep(rng, n, m):
    return rng.standard_normal((n, m)) * np.geomspace(1.0, 1e-4, m)


def few_values(rng, n, m):
    return (rng.random((n, m)) < 0.5) / 3.0 + 5.0 * np.eye(n, m)[rng.integers(20, size=n)]


DATA = [far_out, local, steep, few_values]


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def always_short(monkeypatch):
    """Every panel is decided by short vectors, and nothing is measured only as it is little."""
    monkeypatch.setattr(_compiled, "SHORT_FROM", 0)
    monkeypatch.setattr(_compiled, "FEW", 1)
    monkeypatch.setattr(_factors, "EXPLICIT_BELOW", np.inf)
    monkeypatch.setattr(_factors, "CLEAR", 0.0)
    monkeypatch.setattr(_factors, "FREE_WORK", 0)


def factorized(X, s, *, center=False):
    factor = _compiled.Compiled(as_points(X, center=center))
    how = {"limit": min(X.shape), "relaxation": 1.0}
    _compiled.greedy(factor, mu=None, n_components=s, **how)
    return factor


def exact(X, factor, center):
    """Residuals of all rows before each pivot and after the last, in float64."""
    Y = X.astype(np.float64)
    Y -= factor.points.mean if center else 0.0
    left, largest = Y.copy(), [np.linalg.norm(Y, axis=1)]
    for pivot in factor.pivots:
        q = left[pivot] / np.linalg.norm(left[pivot])
        for _ in range(2):
            left -= np.outer(left @ q, q)
        largest.append(np.linalg.norm(left, axis=1))
    return np.array(largest)


@pytest.mark.usefixtures("always_short")
@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("rows_of", DATA)
def test_pivots_and_residuals_of_float32_are_right_to_within_the_floor(rng, rows_of, center):
    X = rows_of(rng, 500, 300).astype(np.float32)
    factor = factorized(X, 60, center=center)
    norms = exact(X, factor, center)
    assert factor.s == 60
    assert not factor.wide
    pivots = norms[np.arange(60), factor.pivots]
    ties = 32.0 * np.finfo(np.float32).eps * norms[:60].max(axis=1)  # count as equal
    assert (norms[:60].max(axis=1) - pivots <= factor.floor + ties).all()
    assert np.abs(np.sqrt(factor.residual2) - norms[60]).max() <= factor.floor
    assert np.abs(factor.pivot_residuals - pivots).max() <= factor.floor


@pytest.mark.usefixtures("always_short")
@pytest.mark.parametrize("center", [False, True])
def test_rows_of_float32_are_told_in_float64_as_well(rng, center):
    X = far_out(rng, 500, 300).astype(np.float32)
    X[:, 40:] *= np.float32(0.01)
    factor = _compiled.Compiled(as_points(X, center=center))
    factor._state.spent = 10**15  # what is measured explicitly next is too much
    how = {"limit": 300, "relaxation": 1.0}
    _compiled.greedy(factor, mu=None, n_components=60, **how)
    norms = exact(X, factor, center)
    pivots = norms[np.arange(60), factor.pivots]
    assert factor.wide
    assert (norms[:60].max(axis=1) - pivots <= factor.floor).all()
    assert np.abs(np.sqrt(factor.residual2) - norms[60]).max() <= factor.floor


@pytest.mark.usefixtures("always_short")
@pytest.mark.parametrize("rows_of", DATA)
def test_pivots_of_float64_are_those_of_plain_greedy(rng, rows_of):
    X = rows_of(rng, 200, 90)
    found, plain = factorized(X, 50), reference.greedy(X, n_components=50)
    np.testing.assert_array_equal(found.pivots, plain.pivots)


def test_few_directions_measure_what_a_difference_cannot_tell(rng, monkeypatch):
    monkeypatch.setattr(_compiled, "SHORT_FROM", 0)
    monkeypatch.setattr(_compiled, "FEW", 1)
    monkeypatch.setattr(_factors, "FREE_WORK", 0)
    X = far_out(rng, 2000, 400).astype(np.float32)
    X[:, 40:] *= np.float32(0.01)
    factor = factorized(X, 70)
    # Without short vectors all rows would have been measured, and every panel been explicit.
    blurred = factor._unit * factor.points.reach > 2.0 * factor.floor * np.sqrt(factor.residual2)
    assert blurred.mean() > 0.9
    assert factor._state.spent == 0
    assert factor._state.E_room == 0
    wrong = np.abs(np.sqrt(factor.residual2) - exact(X, factor, False)[-1])
    assert wrong.max() <= factor.floor


@pytest.mark.usefixtures("always_short")
def test_coordinates_whose_squares_are_hardly_numbers(rng):
    X = np.zeros((60, 40))
    X[np.arange(60), np.arange(60) % 40] = 1.0 + rng.random(60)
    X[:, 0] = 2e-162 * rng.random(60)
    factor = factorized(X, 38)
    assert factor.s == 38
    assert np.isfinite(factor.residual2).all()
    np.testing.assert_array_equal(factor.pivots, reference.greedy(X, n_components=38).pivots)


@pytest.mark.usefixtures("always_short")
def test_where_short_vectors_are_too_long_residuals_are_explicit(rng, monkeypatch):
    monkeypatch.setattr(_compiled, "SHORT", 1e9)  # nothing is taken off
    X = np.hstack([np.full((300, 1), 3e7), rng.standard_normal((300, 40))])
    factor = factorized(X, 25)
    assert factor._state.E_room > 0
    np.testing.assert_array_equal(factor.pivots, reference.greedy(X, n_components=25).pivots)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("center", [False, True])
def test_pivots_are_not_projected_on_later_directions(rng, dtype, center):
    X = local(rng, 400, 300).astype(dtype)
    factor = factorized(X, 50, center=center)
    pivots, stage = factor.pivots.copy(), factor.stage.copy()
    assert (stage[pivots] == DONE).all()
    assert (np.delete(stage, pivots) == 50).all()
    found = icpqr(X, n_components=50, center=center)
    np.testing.assert_array_equal(found.pivots, pivots)
    C = found.coordinates[pivots]
    assert (np.triu(C, 1) == 0.0).all()
    Y = X[pivots].astype(np.float64) - (found.mean.astype(np.float64) if center else 0.0)
    floor = found.certificate.accuracy_floor
    assert np.abs(np.tril(Y @ found.basis.astype(np.float64).T) - C).max() <= floor
