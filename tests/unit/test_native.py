"""The compiled functions give what NumPy gives."""

import multiprocessing
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from threadpoolctl import threadpool_limits

from isopivot import _greedy, _native, icpqr
from isopivot._native import _library, products
from isopivot._native.products import padded

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


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def zeros(rows):
    """No row has seen a direction."""
    return np.zeros(len(rows), dtype=np.int32)


def slack(X, V):
    """Rounding of the inner products of two sets of rows, in the format of X."""
    sizes = np.linalg.norm(V, axis=1)[:, None] * np.linalg.norm(X, axis=1)[None, :]
    return (4 + np.sqrt(X.shape[1])) * np.finfo(X.dtype).eps * sizes


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("n", "m", "k"), SHAPES)
def test_projections_of_chosen_rows(rng, n, m, k, dtype):
    X, V = (rng.standard_normal((rows, m)).astype(dtype) for rows in (n, k))
    shift = rng.standard_normal(k).astype(dtype)
    rows = np.sort(rng.choice(n, -(-n // 2), replace=False))
    F = np.full((k, n), 7.0, dtype=dtype)
    captured2 = _native.project(X, rows, zeros(rows), _native.packed(V), shift, F)
    wide, directions = X.astype(np.float64), V.astype(np.float64)
    expected = directions @ wide[rows].T - shift[:, None]
    room = slack(X[rows], V) + np.finfo(dtype).eps * np.abs(shift)[:, None]
    assert (np.abs(F[:, rows] - expected) <= room).all()
    others = np.setdiff1d(np.arange(n), rows)
    assert (F[:, others] == 7.0).all()
    stored = F[:, rows].astype(np.float64)
    assert_allclose(captured2, (stored**2).sum(axis=0), rtol=k * 2e-16 + 1e-15)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("n", "m", "k"), SHAPES)
def test_products(rng, n, m, k, dtype):
    A, B = rng.standard_normal((n, m)).astype(dtype), rng.standard_normal((m, k)).astype(dtype)
    expected = A.astype(np.float64) @ B.astype(np.float64)
    assert (np.abs(_native.product(A, B) - expected) <= slack(A, B.T).T).all()


def test_rows_may_lie_apart(rng):
    big = rng.standard_normal((40, 30))
    A, V = big[::3, 5:25], rng.standard_normal((6, 20))
    F = np.empty((6, len(A)))
    rows = np.arange(len(A))
    _native.project(A, rows, zeros(rows), _native.packed(V), None, F)
    assert_allclose(F, V @ A.T, atol=1e-13)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rows_that_have_seen_directions_skip_them(rng, dtype, threads, monkeypatch):
    monkeypatch.setattr(_library, "threads_of_blas", lambda: threads)
    monkeypatch.setattr(_library, "SMALL", 0)
    X, V = (rng.standard_normal((rows, 3000)).astype(dtype) for rows in (300, 61))
    whole = np.empty((61, 300), dtype=dtype)
    rows = rng.permutation(300)
    _native.project(X, rows, zeros(rows), _native.packed(V), None, whole)
    starts = np.sort(rng.integers(0, 62, 300)).astype(np.int32)
    F = whole.copy()
    for row, start in zip(rows, starts, strict=True):
        F[start:, row] = np.nan
    captured2 = _native.project(X, rows, starts, _native.packed(V), None, F)
    assert_array_equal(F, whole)  # also what was computed again
    wanted = np.arange(61)[:, None] >= starts[None, :]
    expected = (np.where(wanted, whole[:, rows], 0.0).astype(np.float64) ** 2).sum(axis=0)
    assert_allclose(captured2, expected, rtol=1e-13)


def test_what_cannot_be_read_in_place_is_said():
    X = np.ones((4, 6))
    assert _native.available(X)
    assert _native.available(X[::2])
    assert not _native.fits(np.ones((2, 3000)))
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
def test_one_reading_gives_norms_and_sums(rng, dtype):
    X = rng.standard_normal((999, 37)).astype(dtype)
    norms2, total = _native.read_once(X)
    wide = X.astype(np.float64)
    assert_allclose(norms2, (wide**2).sum(axis=1), rtol=1e-14)
    assert_allclose(total, wide.sum(axis=0), atol=999 * 2.3e-16 * np.abs(wide).sum(axis=0).max())


def test_padding_copies_only_what_it_must(rng):
    B = rng.standard_normal((5, 16))
    assert padded(B, np.float64) is B
    wide = padded(B[:, :11], np.float64)
    assert_array_equal(wide[:, :11], B[:, :11])
    assert (wide[:, 11:] == 0.0).all()


bounds = st.lists(st.sampled_from([0.0, 0.5, 1.0, 1.0 + 1e-15, 2.0, 3.0]), min_size=1, max_size=60)


@given(bounds, st.integers(1, 70), st.sampled_from([0.0, 0.5, 2.5]))
def test_leaders_equal_those_of_numpy(values, count, stop2):
    upper2 = np.array(values)

    class Known:
        residual2, slack2 = upper2, np.zeros(len(upper2))

    Known.upper2 = upper2
    found = _greedy.leaders(Known, count, stop2, 2.2e-16)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_native, "ready", lambda: False)
        assert_array_equal(found, _greedy.leaders(Known, count, stop2, 2.2e-16))


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
    assert not _native.fits(X)
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
        pieces = []
        _library.shared(lambda lo, hi: pieces.append((lo, hi)), 1000, 1 << 30)
        assert pieces == [(0, 1000)]


@pytest.mark.parametrize("threads", [2, 3, 5])
@pytest.mark.parametrize("n", [1, 15, 16, 17, 64, 1000])
def test_pieces_cover_all_rows_once(threads, n, monkeypatch):
    monkeypatch.setattr(_library, "threads_of_blas", lambda: threads)
    pieces = []
    _library.shared(lambda lo, hi: pieces.append((lo, hi)), n, 1 << 30)
    covered = np.concatenate([np.arange(lo, hi) for lo, hi in pieces])
    assert_array_equal(np.sort(covered), np.arange(n))


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
