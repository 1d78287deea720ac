"""The compiled functions give what NumPy gives."""

import ctypes
import multiprocessing
import subprocess
import sys
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from threadpoolctl import threadpool_limits

from isopivot import _algebra, _compiled, _factors, _greedy, _native, icpqr
from isopivot._native import _library, loop, products
from isopivot._points import as_points

pytestmark = pytest.mark.skipif(not _native.ready(), reason="the compiled functions were not built")

SHAPES = [
    (1, 1, 1),
    (5, 3, 2),
    (8, 16, 8),
    (37, 19, 9),
    (100, 600, 25),
    (700, 50, 70),
    (64, 3000, 40),
]


@pytest.fixture(autouse=True)
def always(monkeypatch):
    """Compiled products are tested even where they were not compiled for the processor at hand."""
    monkeypatch.setattr(products, "products_pay", lambda: True)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture(params=[1, 3])
def threads(request, monkeypatch):
    """So many threads, for the smallest work."""
    monkeypatch.setattr(_library, "threads_of_blas", lambda: request.param)
    monkeypatch.setattr(_library, "SMALL", 0)
    return request.param


def slack(A, B):
    """Rounding of the inner products of two sets of rows, in the format of A."""
    sizes = np.linalg.norm(A, axis=1)[:, None] * np.linalg.norm(B, axis=1)[None, :]
    return (4 + np.sqrt(A.shape[1])) * np.finfo(A.dtype).eps * sizes


FORMATS = [(np.float64, np.float64), (np.float32, np.float32), (np.float32, np.float64)]


@pytest.mark.parametrize(("dtype", "wide"), FORMATS, ids=["double", "single", "mixed"])
@pytest.mark.parametrize(("n", "m", "k"), SHAPES)
def test_products_of_chosen_rows(rng, threads, n, m, k, dtype, wide):
    X, V = rng.standard_normal((n, m)).astype(dtype), rng.standard_normal((k, m)).astype(wide)
    shift = rng.standard_normal(k).astype(wide)
    rows = np.sort(rng.choice(n, -(-n // 2), replace=False))
    F = np.full((n, k), 7.0, dtype=dtype)
    captured2 = _native.multiply(X, rows, _native.pack(V), _native.columns_of(F), k, shift=shift)
    exact = X[rows].astype(np.float64) @ V.T.astype(np.float64) - shift
    stored = np.finfo(dtype).eps * np.abs(exact)
    room = slack(X[rows].astype(wide), V) + np.finfo(wide).eps * np.abs(shift) + stored
    assert (np.abs(F[rows] - exact) <= room).all()
    assert (F[np.setdiff1d(np.arange(n), rows)] == 7.0).all()
    # What is counted was not rounded to the format of the rows.
    sizes = np.linalg.norm(exact, axis=1)
    blur = 2 * np.linalg.norm(room - stored, axis=1) * sizes + k * np.finfo(wide).eps * sizes**2
    assert (np.abs(captured2 - (exact**2).sum(axis=1)) <= blur).all()
    assert_array_equal(_native.multiply(X, rows, _native.pack(V), None, 0, shift=shift), captured2)


@pytest.mark.parametrize("second", [0.0, -0.0, 1e-45, -1e-40, np.inf, -np.inf, np.nan])
def test_two_numbers_of_float_are_no_double(second):
    # As a double, each such pair would be subnormal, or not a number.
    X = np.tile(np.array([3.0, second], dtype=np.float32), (9, 8))
    V = np.tile(np.array([1.0, 0.0], dtype=np.float32), (8, 8))
    F = np.zeros((9, 8), dtype=np.float32)
    _native.multiply(X, None, _native.pack(V), _native.columns_of(F), 8)
    assert_array_equal(F, np.full((9, 8), 24.0 if np.isfinite(second) else np.nan))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("n", "m", "k"), SHAPES)
def test_inner_products_and_sums_of_rows(rng, threads, n, m, k, dtype):
    A, B = (rng.standard_normal((rows, m)).astype(dtype) for rows in (n, k))
    exact = A.astype(np.float64) @ B.T.astype(np.float64)
    assert (np.abs(_native.inner(A, B) - exact) <= slack(A, B)).all()
    C, start = rng.standard_normal((n, k)).astype(dtype), rng.standard_normal((k, m)).astype(dtype)
    out = start.copy()
    _native.combine(C, A, out, -1)
    exact = start - C.T.astype(np.float64) @ A.astype(np.float64)
    assert (np.abs(out - exact) <= slack(C.T, A.T) + np.finfo(dtype).eps * np.abs(start)).all()


def test_sums_read_nothing_beyond_the_end(rng):
    whole = rng.standard_normal((6, 13))
    C, B = whole[:, 10:], rng.standard_normal((6, 5))
    out = np.zeros((3, 5))
    _native.combine(C, B, out)
    assert_allclose(out, C.T @ B, atol=1e-14)
    assert not products._reaches(C, 8)
    assert products._reaches(whole[:, :3], 8)


@pytest.mark.parametrize(("dtype", "wide"), FORMATS, ids=["double", "single", "mixed"])
@pytest.mark.parametrize(("n", "m", "k"), SHAPES)
@pytest.mark.parametrize("centred", [False, True])
def test_gram_matrices(rng, threads, n, m, k, dtype, wide, centred):
    X = (rng.standard_normal((n, m)) + 3.0).astype(dtype)
    rows = rng.permutation(n)[: min(n, k)]
    mean = X.mean(axis=0) if centred else np.zeros(m, dtype=dtype)
    G = _native.gram(X, rows, mean if centred else None, wide=wide == np.float64)
    Y = X[rows].astype(np.float64) - mean
    assert_array_equal(G, G.T)
    raw = np.abs(X[rows]).astype(wide) + np.abs(mean)
    assert (np.abs(G - Y @ Y.T) <= slack(raw, Y)).all()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rows_may_lie_apart(rng, dtype):
    big = rng.standard_normal((40, 30)).astype(dtype)
    A, V = big[::3, 5:25], rng.standard_normal((6, 20)).astype(dtype)
    assert (np.abs(_native.inner(A, V) - A @ V.T) <= 2 * slack(A, V)).all()
    assert_allclose(_native.norms2(A, None), (A.astype(float) ** 2).sum(axis=1), rtol=1e-14)


def placed(X, Q, F, most=99, of_mean=None, center=False):
    """Return a factor with these directions, and coordinates (s, n)."""
    (s, n), groups = F.shape, -(-len(F) // _native.LINE)
    factor = _compiled.Compiled(as_points(X, center=center), s)
    state, factor.wide = factor._state, Q.dtype == np.float64
    factor._Q = np.zeros(Q.shape, dtype=Q.dtype)
    factor._of_mean = np.zeros(s, dtype=Q.dtype)
    state.most = most
    factor._reserve(s)
    factor._know(state)
    factor._Q[:], state.s = Q, s
    whole = np.zeros((groups * _native.LINE, n), dtype=F.dtype)
    whole[:s] = F
    factor._lines.reshape(groups, n, -1)[:] = whole.reshape(groups, -1, n).transpose(0, 2, 1)
    if of_mean is not None:
        factor._of_mean[:], state.of_mean = of_mean, _library.address(factor._of_mean)
    return factor


def coordinates(factor):
    """Return the coordinates (s, n) as they are now."""
    lines = factor._lines.reshape(-1, factor.n, _native.LINE)
    return lines.transpose(0, 2, 1).reshape(-1, factor.n)[: factor.s]


def advanced(factor, rows, stop2=0.0, error=0.0):
    """Bring rows up to date; return those that are blurred."""
    count = loop.advance(factor._state, factor._kind, rows, stop2, error)
    return factor._rooms["plan"].view(np.int64)[:count].copy()


def test_both_sides_know_the_same_state():
    assert _library.library().bytes_of_state() == ctypes.sizeof(loop.State)
    assert len(loop.State._fields_) * 8 == ctypes.sizeof(loop.State)


def brought_up_to_date(X, Q, stage, rows, most, mean=None):
    """Bring rows up to date, and check that each got exactly what it had not seen."""
    n, s, seen = len(X), len(Q), np.minimum(stage, len(Q)).astype(np.int32)
    C = (Q @ X.T.astype(Q.dtype) - (0.0 if mean is None else mean[:, None])).astype(X.dtype)
    factor = placed(X, Q, np.where(np.arange(s)[:, None] < seen, C, np.nan), most, mean)
    start2 = np.full(n, 2.0 * np.square(C, dtype=np.float64).sum(axis=0).max())
    factor.residual2[:], factor.slack2[:], factor.stage[:] = start2, 0.0, seen
    factor._unit[:] = 0.0
    before = factor.rows_read
    assert len(advanced(factor, rows)) == 0
    late = rows[seen[rows] < s]
    assert factor.rows_read - before == len(late)
    assert_array_equal(factor.stage[rows], s)
    assert_array_equal(np.delete(factor.stage, rows), np.delete(seen, rows))
    found = coordinates(factor)
    assert_allclose(found[:, rows], C[:, rows], rtol=0, atol=2.0 * slack(X, Q).max())
    others = np.setdiff1d(np.arange(n), rows)
    missing = np.arange(s)[:, None] >= seen[others]
    assert_array_equal(np.isnan(found[:, others]), missing)
    new = np.where(np.arange(s)[:, None] >= seen, C, 0.0).astype(np.float64)
    expected = start2 - (new**2).sum(axis=0)
    expected[others] = start2[others]
    eps = np.finfo(X.dtype).eps
    assert_allclose(factor.residual2, expected, rtol=4 * np.sqrt(X.shape[1]) * eps)


@pytest.mark.parametrize("most", [99, 16])
@pytest.mark.parametrize(("dtype", "wide"), FORMATS, ids=["double", "single", "mixed"])
def test_rows_that_have_seen_directions_skip_them(rng, threads, dtype, wide, most):
    X = rng.standard_normal((300, 3000)).astype(dtype)
    Q = rng.standard_normal((61, 3000)).astype(wide)
    mean = rng.standard_normal(61).astype(wide)
    rows = rng.permutation(300)[:250]
    brought_up_to_date(X, Q, rng.integers(0, 62, 300), rows, most, mean)


def test_columns_that_fill_up_are_zero_and_not_written(rng):
    X, V = rng.standard_normal((20, 7)), rng.standard_normal((5, 7))
    directions = np.array([3, -1, 0, -1, -1, 4])
    F = np.full((20, 6), 7.0)
    where = np.where(directions < 0, 0, _native.columns_of(F)).astype(np.uintp)
    captured2 = _native.multiply(X, None, _native.pack(V, directions), where, 6)
    expected = X @ V[[3, 0, 4]].T
    assert_allclose(F[:, [0, 2, 5]], expected, atol=1e-13)
    assert (F[:, [1, 3, 4]] == 7.0).all()
    assert_allclose(captured2, (expected**2).sum(axis=1), rtol=1e-13)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("s", [1, 8, 29, 40])
def test_coordinates_in_lines(rng, threads, dtype, s):
    F = rng.standard_normal((s, 50)).astype(dtype)
    X, Q = rng.standard_normal((50, 60)).astype(dtype), np.zeros((s, 60), dtype=dtype)
    factor = placed(X, Q, F)
    assert_array_equal(coordinates(factor), F)
    assert_array_equal(products.unlined(factor._lines, s), F)


def test_what_cannot_be_read_in_place_is_said():
    X = np.ones((4, 6))
    assert _native.available(X)
    assert _native.available(X[::2])
    odd = np.zeros(8 * 24 + 1, dtype=np.uint8)[1:].view(np.float64).reshape(4, 6)
    assert not _native.available(odd)
    for other in (X.T, X[:, ::2], X.astype(int), X[::-1], X.astype(">f8"), X[0], [[1.0]]):
        assert not _native.available(other)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_columns_are_written_where_they_belong(rng, dtype):
    F, values = np.zeros((9, 40), dtype=dtype), rng.standard_normal((4, 7)).astype(dtype)
    columns = rng.permutation(40)[:7]
    expected = F.copy()
    expected[3:7, columns] = values
    _native.scatter(F[3:7], columns, values)
    assert_array_equal(F, expected)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_what_is_below_the_triangle_becomes_zero(rng, threads, dtype):
    F, columns = rng.standard_normal((37, 90)).astype(dtype), rng.permutation(90)[:37]
    expected = F.copy()
    expected[:, columns] = np.triu(F[:, columns])
    _native.triangular(F, columns)
    assert_array_equal(F, expected)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_one_reading_gives_norms_and_sums(rng, dtype):
    X = rng.standard_normal((999, 37)).astype(dtype)
    norms2, total = _native.read_once(X)
    wide = X.astype(np.float64)
    assert_allclose(norms2, (wide**2).sum(axis=1), rtol=1e-14)
    assert_allclose(total, wide.sum(axis=0), atol=999 * 2.3e-16 * np.abs(wide).sum(axis=0).max())


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("m", [1, 37, 200])
def test_norms_and_finite_numbers(rng, threads, dtype, m):
    X = rng.standard_normal((999, m)).astype(dtype)
    mean = X.mean(axis=0)
    expected = ((X.astype(np.float64) - mean) ** 2).sum(axis=1)
    assert_allclose(_native.norms2(X, mean), expected, rtol=m * 2.3e-16)
    assert _native.all_finite(X)
    for bad in (np.nan, np.inf, -np.inf):
        Y = X.copy()
        Y[rng.integers(999), rng.integers(m)] = bad
        assert not _native.all_finite(Y)
    assert _native.all_finite(np.full((3, m), np.finfo(dtype).max, dtype=dtype))


bounds = st.lists(st.sampled_from([0.0, 0.5, 1.0, 1.0 + 1e-15, 2.0, 3.0]), min_size=1, max_size=60)


@given(bounds, st.integers(1, 70), st.sampled_from([0.0, 0.5, 2.5]), st.booleans())
def test_leaders_equal_those_of_numpy(values, count, stop2, no_slack):
    upper2 = np.array(values)

    class Known:
        residual2, slack2 = upper2, None if no_slack else np.zeros(len(upper2))

    Known.upper2 = upper2
    found = _greedy.leaders(Known, count, stop2, 2.2e-16)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_native, "ready", lambda: False)
        assert_array_equal(found, _greedy.leaders(Known, count, stop2, 2.2e-16))


@pytest.mark.parametrize("n", [500, 5_000])
def test_leaders_of_many_rows(rng, n):
    upper2 = rng.choice([rng.random(n), np.ones(n)])
    upper2[rng.integers(n, size=n // 10)] = 1.0 - 2.0**-52  # tied with 1
    order = np.lexsort((np.arange(n), -np.where(upper2 > 1.0 - 2.0**-50, 1.0, upper2)))
    for count in (1, 30, 300):
        found = _native.leaders(upper2, None, count, 0.0, 64 * 2.0**-52)
        assert_array_equal(found, np.sort(order[:count]))


@given(bounds, st.integers(1, 70), st.sampled_from([0.0, 0.5, 2.5]))
def test_the_foremost_are_the_largest(values, count, stop2):
    upper2 = np.array(values)
    rows = _native.foremost(upper2, np.zeros(len(upper2)), count, stop2, len(upper2))
    assert_array_equal(rows, _native.foremost(upper2, None, count, stop2, len(upper2)))
    if len(rows) > 1:
        assert _native.foremost(upper2, None, count, stop2, len(rows) - 1) is None
    others = np.setdiff1d(np.arange(len(upper2)), rows)
    assert (upper2[rows] > stop2).all()
    assert len(rows) > 0 or (upper2 <= stop2).all()
    if len(rows):
        assert upper2[rows].min() >= upper2[others].max(initial=0.0)


@given(
    st.lists(st.integers(0, 40), min_size=1, max_size=50),
    st.integers(1, 40),
    st.sampled_from([3, 16, 99]),
    st.sampled_from(FORMATS),
)
def test_every_row_gets_exactly_what_it_has_not_seen(stages, s, most, formats):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((len(stages), 5)).astype(formats[0])
    Q = rng.standard_normal((s, 5)).astype(formats[1])
    rows = np.flatnonzero(np.arange(len(stages)) % 3)
    brought_up_to_date(X, Q, np.array(stages), rows, most)


@pytest.mark.parametrize("shifted", [False, True])
def test_residuals_are_brought_up_to_date_with_the_products(rng, threads, shifted):
    X, V = rng.standard_normal((90, 30)), np.linalg.qr(rng.standard_normal((30, 5)))[0].T.copy()
    shift = 0.1 * rng.standard_normal(5) if shifted else None
    norms2, rows = (X**2).sum(axis=1), np.arange(0, 90, 2)
    slack2 = np.where(np.arange(90) % 3, 0.25, 0.0)
    factor = placed(X, V, np.zeros((5, 90)), of_mean=shift)
    factor._unit[:], factor.residual2[:], factor.slack2[:] = 0.5, norms2, slack2
    factor._state.root_eps = 1.0
    assert len(advanced(factor, rows)) == 0
    C = X[rows] @ V.T - (0.0 if shift is None else shift)
    expected = norms2.copy()
    expected[rows] -= (C**2).sum(axis=1)
    assert_allclose(factor.residual2, np.maximum(expected, 0.0), atol=1e-13)
    assert_allclose(coordinates(factor)[:, rows], C.T, atol=1e-14)
    expected = np.where(slack2 == 0.0, 0.5 * np.sqrt(norms2), slack2)
    assert_allclose(factor.slack2[rows], expected[rows], rtol=1e-15)
    assert_array_equal(factor.slack2[1::2], slack2[1::2])
    assert_array_equal(factor.stage, np.where(np.arange(90) % 2, 0, 5))
    # Residuals too near to where they would suffice are named, and no others.
    factor.stage[:], factor.residual2[:], factor.slack2[:] = 0, norms2, 1e-9
    assert_array_equal(advanced(factor, rows, norms2[44] - (C[22] ** 2).sum()), [44])
    factor.stage[:], factor.slack2[:] = 0, 1e9
    assert_array_equal(advanced(factor, rows), rows)


def test_rows_that_lag_behind():
    stage = np.array([3, 5, 0, 5, 4], dtype=np.int32)
    assert_array_equal(_native.behind(np.array([0, 1, 2, 4]), stage, 5), [0, 2, 4])
    assert len(_native.behind(np.array([1, 3]), stage, 5)) == 0


def test_measured_residuals_are_taken_unless_coordinates_are_too_rough():
    n, rows = 6, np.array([1, 2, 4])
    X, Q = np.zeros((n, 32)), np.eye(32)[:16]
    X[:, 16] = [1.0, 1.0, 2.0, 1.0, 1.0, 1.0]
    F = np.zeros((16, n))
    F[3] = 1e-3  # is wrong: the directions have nothing of these points
    factor = placed(X, Q, F)
    factor._unit[:] = np.array([1, 1, 1, 1, 40, 1]) * 1e-3
    factor.residual2[:], factor.slack2[:] = 9.0, 2.0
    # 16 coordinates add 4e-6 of the first two, 6e-3 of the third; a quarter of the floor is 1e-3.
    factor._state.floor, factor._state.floor_per_root = 4e-3, 0.0
    loop.recompute(factor._state, factor._kind, rows)
    # The third is measured once more, without the part that the directions have of it.
    assert_array_equal(factor.residual2, [9.0, 1.0 + 1e-6, 4.0 + 1e-6, 9.0, 1.0, 9.0])
    assert_array_equal(factor.slack2, [2.0, 0.0, 0.0, 2.0, 0.0, 2.0])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("cancelled", [0.0, 1e-9, 1e-3, 1.0])
@pytest.mark.parametrize(("s", "m", "k"), [(0, 5, 1), (3, 7, 2), (40, 100, 9), (70, 900, 60)])
def test_directions_are_orthonormal(rng, threads, monkeypatch, s, m, k, dtype, cancelled):
    monkeypatch.setattr(products, "SPARE", 1 << 17)  # not all at once
    Q = np.ascontiguousarray(np.linalg.qr(rng.standard_normal((m, s)))[0].T, dtype=dtype)
    assert _native.available(Q) or s == 0
    E = rng.standard_normal((k, m))
    E += rng.standard_normal((k, s)) @ Q * cancelled - (E @ Q.T) @ Q
    E = E.astype(dtype)
    new, entered = _algebra.orthonormalised(E.copy(), Q, 0.0)
    eps = np.finfo(dtype).eps
    assert new.dtype == dtype
    assert new.shape == (k, m)
    assert_allclose(new.astype(float) @ new.T, np.eye(k), atol=40 * eps)
    assert np.abs(new.astype(float) @ Q.T).max(initial=0.0) <= 8 * eps
    monkeypatch.setattr(_native, "available", lambda A: False)
    plain, residuals = _algebra.orthonormalised(E.copy(), Q, 0.0)
    assert_allclose(new, plain, atol=200 * k * eps)
    assert_allclose(entered, residuals, rtol=200 * k * eps)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_directions_end_where_a_residual_suffices(rng, dtype):
    Q = np.eye(3, 30, dtype=dtype)
    E = np.eye(4, 30, 5, dtype=dtype) * np.array([[3.0], [2.0], [0.5], [1.0]], dtype=dtype)
    before = E.copy()
    new, entered = _algebra.orthonormalised(E, Q, 1.0)
    assert_allclose(new, np.eye(2, 30, 5))
    assert_allclose(entered, [3.0, 2.0])
    none, entered = _algebra.orthonormalised(before, Q, 16.0)
    assert none.shape == (0, 30)
    assert len(entered) == 0
    assert_array_equal(before[0], 3.0 * np.eye(1, 30, 5, dtype=dtype)[0])


@given(
    *(st.integers(1, 12), st.integers(1, 12), st.integers(0, 100)),
    *(st.floats(0.0, 4.0), st.sampled_from([0.0, 1e-9, 0.1])),
)
def test_panel_pivots_equal_those_of_numpy(n, room, seed, bound2, blur2):
    V = np.random.default_rng(seed).integers(-2, 3, (n, 6)).astype(float)
    G, panel = V @ V.T, _greedy.Panel(np.arange(3, n + 3), bound2, n // 2 + 3)
    V[0] = 1.0 + V[0]  # never zero: the first is always taken
    G = V @ V.T
    options = {"room": room, "relaxation": 1.0, "eps": 2.2e-16, "blur2": blur2}
    found = _greedy.panel_pivots(G, panel, 0.5, **options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_native, "ready", lambda: False)
        assert_array_equal(found, _greedy.panel_pivots(G, panel, 0.5, **options))


@pytest.mark.parametrize("n", [0, 1, 7, 40])
def test_inverses_of_leading_factors(rng, n):
    A = rng.standard_normal((n, n + 3))
    G = A @ A.T
    inverse, diagonal = _native.leading_inverse(G.copy(), 0.0)
    L = np.linalg.cholesky(G) if n else G
    assert_allclose(diagonal, np.diagonal(L), rtol=1e-10)
    assert_allclose(inverse @ L, np.eye(n), atol=1e-9)
    if n > 1:  # what is in the span of the rows before it ends it
        G[-1], G[:, -1] = G[0], G[:, 0]
        G[-1, -1] = G[0, 0]
        assert len(_native.leading_inverse(G, 1e-9)[1]) == n - 1


@given(bounds, st.data())
def test_what_is_outside_equals_numpy(values, data):
    upper2 = np.array(values)
    rows = np.array(sorted(data.draw(st.sets(st.integers(0, len(values) - 1)))), dtype=np.intp)
    bound2, fence = _native.outside(upper2, np.zeros(len(upper2)), rows, 1e-14)
    others = upper2.copy()
    others[rows] = 0.0
    assert bound2 == others.max()
    assert fence == np.argmax(others >= others.max() * (1 - 1e-14))


@pytest.mark.parametrize("kind", ["noise", "lattice", "decaying"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("without", ["products", "all"])
def test_pivots_equal_those_without_the_compiled_functions(rng, kind, dtype, without, monkeypatch):
    X = rng.standard_normal((3000, 80))
    if kind == "lattice":
        X = np.sign(X)
    if kind == "decaying":
        X /= np.arange(1, 81) ** 2
    X = X.astype(dtype)
    compiled = icpqr(X, mu="5%", center=True)
    monkeypatch.setattr(products, "products_pay", lambda: False)
    assert not _native.available(X)
    if without == "all":
        monkeypatch.setattr(_native, "ready", lambda: False)
    plain = icpqr(X, mu="5%", center=True)
    floor = compiled.certificate.accuracy_floor
    if kind != "lattice" or dtype == np.float64:
        assert_array_equal(compiled.pivots, plain.pivots)
        assert_allclose(compiled.residuals, plain.residuals, atol=2 * floor)


def test_threads_are_those_of_the_blas():
    with threadpool_limits(1, user_api="blas"):
        assert _library.threads_of_blas() == 1
        assert _library.threads_for(1 << 40) == 1
    assert _library.threads_for(1) == 1


def test_results_do_not_depend_on_the_number_of_threads(rng, monkeypatch):
    X = rng.standard_normal((3000, 120)) / np.arange(1, 121)
    results = []
    for threads in (1, 2, 7):
        monkeypatch.setattr(_library, "threads_of_blas", lambda threads=threads: threads)
        results.append(icpqr(X, mu="5%", center=True))
    for other in results[1:]:
        assert_array_equal(other.coordinates, results[0].coordinates)
        assert_array_equal(other.residuals, results[0].residuals)


def test_fits_on_many_threads_at_once(rng, monkeypatch):
    monkeypatch.setattr(_library, "threads_of_blas", lambda: 3)
    X = rng.standard_normal((2000, 60))
    expected, found = icpqr(X, n_components=20).coordinates, []
    workers = [
        threading.Thread(target=lambda: found.append(icpqr(X, n_components=20).coordinates))
        for _ in range(4)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(found) == 4
    for other in found:
        assert_array_equal(other, expected)


def test_a_fit_after_the_main_thread_ended():
    code = (
        "import threading, time, numpy as np\n"
        "from isopivot import icpqr\n"
        "from isopivot._native import _library\n"
        "_library.threads_of_blas = lambda: 2\n"
        "X = np.random.default_rng(0).standard_normal((4000, 100))\n"
        "def work():\n"
        "    time.sleep(0.5)\n"
        "    print(len(icpqr(X, n_components=20).pivots))\n"
        "threading.Thread(target=work).start()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["20"]


def _fit(seed):
    X = np.random.default_rng(seed).standard_normal((4000, 100))
    return icpqr(X, n_components=20).pivots.tolist()


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_has_threads_of_its_own(monkeypatch):
    monkeypatch.setattr(_library, "threads_of_blas", lambda: 2)
    here = _fit(0)  # starts the threads
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply_async(_fit, (0,)).get(timeout=60) == here


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("k", "m"), [(1, 1), (3, 5), (8, 24), (13, 100), (70, 333)])
def test_rows_are_replaced_by_their_sums(rng, threads, dtype, k, m):
    M, E = rng.standard_normal((k, k)).astype(dtype), rng.standard_normal((k, m)).astype(dtype)
    exact = M.astype(np.float64) @ E.astype(np.float64)
    room = slack(M, E.T)
    _native.replace(M, E)
    assert (np.abs(E - exact) <= room).all()


def test_rows_that_lag_far_behind_are_read_in_parts(rng, monkeypatch):
    X = rng.standard_normal((900, 300))
    whole = icpqr(X, n_components=200)
    monkeypatch.setattr(_compiled, "SPARE", 0.0)  # 48 directions at a time
    parts = icpqr(X, n_components=200)
    assert_array_equal(parts.pivots, whole.pivots)
    assert_allclose(parts.coordinates, whole.coordinates, atol=whole.certificate.accuracy_floor)


@pytest.mark.parametrize("center", [False, True])
def test_products_kept_from_the_last_panel_change_nothing(rng, center, monkeypatch):
    X = rng.standard_normal((900, 300)) + 1.0
    kept = icpqr(X, n_components=200, center=center)
    monkeypatch.setattr(_compiled, "WORTH", 2.0)
    again = icpqr(X, n_components=200, center=center)
    assert_array_equal(kept.pivots, again.pivots)


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("kind", ["decaying", "steep", "outliers"])
def test_float32_goes_on_in_float64_when_its_digits_are_used_up(rng, kind, center, monkeypatch):
    X = rng.standard_normal((3000, 90)) / np.arange(1, 91) ** (3.0 if kind == "steep" else 1.5)
    X += 0.5
    if kind == "outliers":
        X[::100] *= 50.0
    X = X.astype(np.float32)
    widened = []
    original = _compiled.Compiled._widen

    def widen(self):
        widened.append(self.s)
        original(self)

    monkeypatch.setattr(_compiled.Compiled, "_widen", widen)
    found = icpqr(X, n_components=60, center=center)
    assert len(widened) == (kind == "steep")  # else explicit residuals do
    assert all(0 < s < 60 for s in widened)
    assert found.basis.dtype == found.coordinates.dtype == np.float32
    floor = found.certificate.accuracy_floor
    assert wrong_by(X, found) <= floor
    wide = icpqr(X.astype(np.float64), n_components=60, center=center)
    assert_allclose(found.pivot_residuals, wide.pivot_residuals, atol=2 * floor)


def wrong_by(X, found):
    """Return the largest error of a residual."""
    Y = X.astype(np.float64) - (0.0 if found.mean is None else found.mean)
    basis = np.linalg.qr(Y[found.pivots].T)[0]
    return np.abs(found.residuals - np.linalg.norm(Y - (Y @ basis) @ basis.T, axis=1)).max()


def spread_out(rng, n, m):
    return rng.standard_normal((n, m))


def few_values(rng, n, m):
    return (rng.random((n, m)) < 0.5) / 3.0  # equal terms: their roundings do not cancel


def far_from_the_origin(rng, n, m):
    return 1 / 3 + 0.1 * rng.standard_normal((n, m))


def nearly_in_a_plane(rng, n, m):
    plane = rng.standard_normal((n, 12)) @ rng.standard_normal((12, m))
    return plane + 1e-3 * rng.standard_normal((n, m))


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("m", [17, 200, 600, 3000])
@pytest.mark.parametrize(
    "rows_of", [spread_out, few_values, far_from_the_origin, nearly_in_a_plane]
)
def test_float32_residuals_that_were_not_measured_are_as_wrong_as_is_allowed(
    rng, rows_of, m, center
):
    points = as_points(rows_of(rng, 400, m).astype(np.float32), center=center)
    factor = _compiled.Compiled(points)
    factor._state.spent = -(10**15)  # nothing is too much: it goes on in float32
    how = {"limit": min(400, m), "relaxation": 1.0}
    _compiled.greedy(factor, mu=None, n_components=min(40, m - 2), **how)
    # All that was measured is forgotten.
    factor.residual2[:] = _native.norms2(points.X, points.mean)
    factor.slack2[:] = factor._unit * points.reach
    factor.stage[:] = 0
    for s in (factor.s // 2, factor.s):
        factor._state.s = s
        advanced(factor, None)
    Y = points.X.astype(np.float64) - (0.0 if points.mean is None else points.mean)
    basis = np.linalg.qr(Y[factor.pivots].T)[0]
    E = Y - (Y @ basis) @ basis.T
    wrong = np.abs((E**2).sum(axis=1) - factor.residual2)
    assert (wrong <= factor.slack2).all()


@pytest.mark.parametrize("few", [1, 10**9])
@pytest.mark.parametrize("steepness", [1.5, 3.0])
def test_blurred_rows_may_be_left_for_later(rng, monkeypatch, few, steepness):
    X = (rng.standard_normal((1500, 90)) / np.arange(1, 91) ** steepness).astype(np.float32)
    usual = icpqr(X, n_components=60)
    monkeypatch.setattr(_compiled, "FEW", few)
    monkeypatch.setattr(_factors, "FREE_WORK", 0)  # or all are measured in the end
    found = icpqr(X, n_components=60)
    assert wrong_by(X, found) <= found.certificate.accuracy_floor
    assert_allclose(
        found.pivot_residuals, usual.pivot_residuals, atol=usual.certificate.accuracy_floor
    )


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("density", [0.0, 0.02, 0.6])
def test_products_of_sparse_rows(rng, threads, dtype, density):
    D = rng.standard_normal((700, 5_000)).astype(dtype) * (rng.random((700, 5_000)) < density)
    D[3] = 0.0
    X = sparse.csr_matrix(D)
    assert X.dtype == dtype
    assert _native.sparse_available(X)
    D = D.astype(np.float64)
    left = rng.choice(700, 21, replace=False)
    sizes = np.abs(D[left]) @ np.abs(D).T  # rounding is relative to these
    for right in (slice(0, 700), slice(13, 680), np.sort(rng.choice(700, 300, replace=False))):
        error = np.abs(_native.sparse_products(X, left, right) - D[left] @ D[right].T)
        assert (error <= 5_000 * 2.3e-16 * sizes[:, right]).all()
    assert _native.sparse_products(X, left[:0], slice(0, 9)).shape == (0, 9)
    assert _native.sparse_products(X, left, left[:0]).shape == (21, 0)


def test_sparse_rows_that_name_a_feature_twice(rng):
    X = sparse.csr_matrix(
        (rng.random(6), np.array([4, 4, 1, 0, 4, 0], dtype=np.int32), np.array([0, 3, 6])),
        shape=(2, 5),
    )
    D = X.toarray()
    both = np.arange(2)
    assert_allclose(_native.sparse_products(X, both, both), D @ D.T, rtol=1e-15)


def test_sparse_rows_that_must_not_be_written_to():
    X = sparse.csr_matrix(np.eye(3))
    for part in (X.data, X.indices, X.indptr):
        part.flags.writeable = False
    assert _native.sparse_available(X)
    assert_array_equal(_native.sparse_products(X, np.arange(3), slice(0, 3)), np.eye(3))


def test_sparse_rows_with_wide_indices_are_left_to_scipy():
    X = sparse.csr_matrix(np.eye(3))
    X.indices = X.indices.astype(np.int64)
    assert not _native.sparse_available(X)


@pytest.mark.parametrize("count", [1, 9, 171])
@pytest.mark.parametrize(("dtype", "wide"), FORMATS, ids=["double", "single", "mixed"])
@pytest.mark.parametrize(("m", "s"), [(1, 1), (5, 3), (37, 20), (600, 90)])
@pytest.mark.parametrize("centred", [False, True])
def test_residuals_of_rows(rng, threads, dtype, wide, m, s, centred, count):
    X = rng.standard_normal((300, m)).astype(dtype)
    Q = np.ascontiguousarray(np.linalg.qr(rng.standard_normal((m, s)))[0].T, dtype=wide)
    mean = X.mean(axis=0) if centred else np.zeros(m)
    Y = X.astype(np.float64) - mean
    C = (Q.astype(np.float64) @ Y.T).astype(dtype)
    factor, rows = placed(X, Q, C, center=centred), np.sort(rng.choice(300, count, replace=False))
    factor._unit[:] = 0.0  # as if coordinates were exact
    factor.stage[:] = s
    before = factor.residual2.copy()
    loop.recompute(factor._state, factor._kind, rows.copy())
    expected = Y[rows] - C[:, rows].T.astype(np.float64) @ Q.astype(np.float64)
    if wide != dtype:  # coordinates that were rounded are not trusted
        expected -= expected @ Q.T @ Q
    # Rounding of the vectors, which are no longer than 3 sqrt(m).
    rounding = (s + 4) * np.finfo(wide).eps * 3 * np.sqrt(m)
    if centred:  # the mean is rounded, too
        rounding += np.finfo(dtype).eps * np.sqrt(m)
    found = np.sqrt(factor.residual2[rows])
    assert_allclose(found, np.linalg.norm(expected, axis=1), rtol=0, atol=rounding)
    assert (factor.slack2[rows] == 0.0).all()
    others = np.setdiff1d(np.arange(300), rows)
    assert_array_equal(factor.residual2[others], before[others])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_directions_that_are_orthogonal_are_not_corrected(rng, dtype):
    Q = np.linalg.qr(rng.standard_normal((400, 60)))[0].T.astype(dtype).copy()
    basis, new, eps = Q[:50], Q[50:].copy(), np.finfo(dtype).eps
    kept = new.copy()
    far = np.linalg.norm((basis.astype(float) @ new.T), axis=0).max()
    assert far <= _algebra.ORTHOGONAL * eps
    assert_array_equal(_algebra._corrected(new, basis @ new.T, basis), kept)
    new += np.float32(40.0) * eps * basis[:10]
    C = np.asarray(basis.astype(float) @ new.T.astype(float), dtype=dtype)
    corrected = _algebra._corrected(new, C, basis)
    assert np.linalg.norm(basis.astype(float) @ corrected.T, axis=0).max() <= 4 * eps


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_basis_is_orthonormal_whether_it_was_corrected_or_not(rng, dtype):
    # Noise needs no correction, residuals far below the norms do.
    X = rng.standard_normal((700, 500))
    for data in (X, X * np.geomspace(1, 1e-3, 500) + 1.0):
        found = icpqr(data.astype(dtype), n_components=300)
        Q = found.basis.astype(np.float64)
        assert np.linalg.norm(Q @ Q.T - np.eye(300), 2) <= 20 * np.finfo(dtype).eps


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("s", [3, 37, 60])
def test_nothing_is_read_of_coordinates_that_was_not_written(rng, dtype, s, monkeypatch):
    X = (rng.standard_normal((500, 70)) * np.geomspace(1, 1e-3, 70)).astype(dtype)
    plain = icpqr(X, n_components=s, center=True)

    def spoilt(method):
        def reserve(self, *arguments):
            result = method(self, *arguments)
            for room in (*self._rooms.values(), self._lines, self._Q, self._entered):
                if not self.s:
                    room.view(np.uint8)[:] = 255  # NaN, or -1
            return result

        return reserve

    monkeypatch.setattr(_compiled.Compiled, "_reserve", spoilt(_compiled.Compiled._reserve))
    found = icpqr(X, n_components=s, center=True)
    for name in ("pivots", "coordinates", "residuals", "basis"):
        assert_array_equal(getattr(found, name), getattr(plain, name))


@pytest.mark.parametrize("s", [1, 8, 60, 180])
def test_coordinates_keep_little_memory_beyond_them(s):
    lines = np.empty((-(-s // _native.LINE), 50 * _native.LINE))
    F = products.unlined(lines, s)
    assert F.shape == (s, 50)
    whole = F if F.base is None else F.base
    assert whole.nbytes <= (1.0 + products.MOST_BEYOND) * F.nbytes
