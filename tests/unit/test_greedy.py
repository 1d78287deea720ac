"""The panel-wise loop takes the pivots of plain greedy, whatever the source."""

from functools import partial

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given
from scipy import sparse

import isopivot._greedy as loop
import reference
from isopivot import ICPQR, _compiled, _factors, _native, actual_distortion, icpqr
from isopivot._cholesky import Cholesky
from isopivot._compiled import Compiled
from isopivot._factors import Orthonormal
from isopivot._gram import LinearGram
from isopivot._points import as_points
from strategies import problems

EPS = np.finfo(float).eps


def noise(rng, n, m):
    return rng.standard_normal((n, m))


def decaying(rng, n, m):
    return rng.standard_normal((n, m)) * np.geomspace(1, 1e-6, m)


def clustered(rng, n, m):
    centres = 5 * rng.standard_normal((12, m))
    return centres[rng.integers(12, size=n)] + 0.1 * rng.standard_normal((n, m))


def run(factor, **stop):
    stop = {"mu": None, "n_components": None, "relaxation": 1.0, **stop}
    limit = min(factor.n, getattr(getattr(factor, "points", None), "m", factor.n))
    greedy = _compiled.greedy if isinstance(factor, Compiled) else partial(loop.greedy, eps=EPS)
    greedy(factor, limit=limit, **stop)
    return factor


@pytest.mark.parametrize("panel", [2, 16, 256])
@pytest.mark.parametrize(("n", "m"), [(2000, 60), (150, 200), (300, 300)])
@pytest.mark.parametrize("data", [noise, decaying, clustered])
def test_pivots_equal_lapack(data, n, m, panel, monkeypatch):
    monkeypatch.setattr(loop, "PANEL", panel)
    X = data(np.random.default_rng(7), n, m)
    s = min(n, m) // 2
    _, lapack = scipy.linalg.qr(X.T, pivoting=True, mode="r")
    result = icpqr(X, n_components=s)
    np.testing.assert_array_equal(result.pivots, lapack[:s])
    centred = X - result.mean if result.mean is not None else X - X.mean(axis=0)
    _, lapack = scipy.linalg.qr(centred.T, pivoting=True, mode="r")
    np.testing.assert_array_equal(icpqr(X, n_components=s, center=True).pivots, lapack[:s])


def signs(rng):
    return rng.choice([-1.0, 1.0], (60, 24))


def one_hot(rng):
    return np.eye(12)[rng.integers(12, size=80)]


def integers(rng):
    return rng.integers(-2, 3, (60, 8)).astype(float)


def duplicates(rng):
    return rng.standard_normal((10, 6))[rng.integers(10, size=50)]


@pytest.mark.parametrize("panel", [3, 256])
@pytest.mark.parametrize("data", [signs, one_hot, integers, duplicates])
def test_pivots_on_ties_equal_plain_greedy(data, panel, monkeypatch):
    monkeypatch.setattr(loop, "PANEL", panel)
    for seed in range(10):
        X = data(np.random.default_rng(seed))
        plain = reference.greedy(X, 0.0)
        # Below this the residuals of both are rounding relative to the tie window.
        clear = plain.pivot_residuals > 0.05 * np.linalg.norm(X, axis=1).max()
        np.testing.assert_array_equal(icpqr(X, 0.0).pivots[clear], plain.pivots[clear])


@given(problem=problems())
def test_pivots_equal_plain_greedy_wherever_the_gap_exceeds_the_floor(problem):
    X, mu = problem
    result = icpqr(X, mu)
    floor = result.certificate.accuracy_floor
    residuals = reference.entry_residuals(X, result.pivots)
    for pivot, before in zip(result.pivots, residuals, strict=True):
        # Each pivot is the argmax of the true residuals, or tied with it up to rounding.
        assert before[pivot] >= before.max() - 2 * floor


@pytest.mark.parametrize("shape", [(60, 6), (200, 30), (206, 82)])
def test_pivots_among_float32_rows_that_are_close_together(shape):
    # Their coordinates, as stored, do not tell them apart.
    for seed in range(5):
        noise = np.random.default_rng(seed).standard_normal(shape)
        X = (1.0 + 1e-3 * noise).astype(np.float32)
        result = icpqr(X, n_components=shape[1] * 9 // 10)
        floor = result.certificate.accuracy_floor
        residuals = reference.entry_residuals(X, result.pivots)
        for pivot, before in zip(result.pivots, residuals, strict=True):
            assert before[pivot] >= before.max() - 2 * floor


@pytest.mark.parametrize("data", [noise, decaying, clustered])
def test_both_arithmetics_take_the_same_pivots(data):
    X = data(np.random.default_rng(3), 400, 40)
    mu = 0.01 * np.linalg.norm(X, axis=1).max()
    points = as_points(X, center=True)
    explicit = run(Orthonormal(points), mu=mu)
    q_less = run(Cholesky(LinearGram(points)), mu=mu)
    np.testing.assert_array_equal(explicit.pivots, q_less.pivots)
    np.testing.assert_allclose(
        np.sqrt(explicit.residual2), np.sqrt(q_less.residual2), atol=q_less.floor
    )


def test_cholesky_residuals_and_triangle_match_the_gram_matrix():
    X = noise(np.random.default_rng(0), 50, 20)
    factor = run(Cholesky(LinearGram(as_points(X, center=False))), n_components=8)
    B = X[factor.pivots]
    np.testing.assert_allclose(factor.T @ factor.T.T, B @ B.T, atol=50 * EPS * (B @ B.T).max())
    assert (np.triu(factor.T, 1) == 0).all()


def test_sparse_wide_rows_use_inner_products_and_agree_with_dense():
    X = sparse.random(60, 400, density=0.05, format="csr", random_state=0)
    from_sparse = icpqr(X, n_components=20, center=True)
    from_dense = icpqr(X.toarray(), n_components=20, center=True)
    assert from_sparse.certificate.route == "cholesky"
    assert from_sparse.basis is None
    np.testing.assert_array_equal(from_sparse.pivots, from_dense.pivots)
    np.testing.assert_allclose(
        from_sparse.residuals, from_dense.residuals, atol=from_sparse.certificate.accuracy_floor
    )


@pytest.mark.parametrize("gamma", [0.9, 0.5, 0.1])
def test_relaxation_keeps_the_promise_and_needs_no_more_passes(gamma):
    X = clustered(np.random.default_rng(5), 3000, 40)
    exact = icpqr(X, "2%")
    relaxed = icpqr(X, "2%", relaxation=gamma)
    assert relaxed.certificate.certified
    assert relaxed.certificate.mu_strict <= relaxed.certificate.mu
    assert relaxed.certificate.passes <= exact.certificate.passes
    worst = actual_distortion(X, relaxed.coordinates, relaxed.residuals)
    assert worst <= relaxed.certificate.distortion_bound


def test_stops_are_tested_before_admission_and_an_empty_dictionary_is_legal():
    X = np.diag([3.0, 1.0, 1.0, 0.5])
    assert list(icpqr(X, 1.0).pivots) == [0]
    empty = icpqr(X, 3.0)
    assert empty.certificate.n_components == 0
    assert empty.coordinates.shape == (4, 0)
    assert empty.certificate.stopped_by == "mu"
    np.testing.assert_array_equal(empty.residuals, [3.0, 1.0, 1.0, 0.5])


@pytest.mark.parametrize(
    ("stop", "reason", "certified"),
    [
        ({"mu": 0.7}, "mu", True),
        ({"n_components": 2}, "n_components", True),
        ({"mu": 0.1, "n_components": 2}, "n_components", False),
        ({"mu": 1.5, "n_components": 3}, "mu", True),
        ({"mu": 0.0}, "rank", True),
        ({"n_components": 5}, "rank", True),
    ],
)
def test_what_stopped_the_loop(stop, reason, certified):
    X = np.zeros((6, 5))
    X[:4, :4] = np.diag([3.0, 1.0, 1.0, 0.5])
    certificate = icpqr(X, **stop).certificate
    assert certificate.stopped_by == reason
    assert certificate.certified is certified
    assert certificate.mu >= certificate.mu_strict


class Known:
    """What the choice of leaders asks of a factor."""

    def __init__(self, upper2):
        self.upper2, self.residual2, self.slack2 = upper2, upper2, np.zeros(len(upper2))


@pytest.fixture(params=["compiled", "NumPy"])
def either(request, monkeypatch):
    """The bookkeeping in C, where it was built, and in NumPy."""
    if request.param == "NumPy":
        monkeypatch.setattr(_native, "ready", lambda: False)
    elif not _native.ready():
        pytest.skip("the compiled functions were not built")


@pytest.mark.usefixtures("either")
def test_leaders_are_the_largest_and_ties_go_to_the_lowest_index():
    upper2 = np.array([1.0, 5.0, 3.0, 3.0, 9.0, 3.0, 0.1])
    np.testing.assert_array_equal(loop.leaders(Known(upper2), 3, 0.0, EPS), [1, 2, 4])
    np.testing.assert_array_equal(loop.leaders(Known(upper2), 10, 2.0, EPS), [1, 2, 3, 4, 5])
    assert len(loop.leaders(Known(upper2), 3, 9.0, EPS)) == 0


@pytest.mark.usefixtures("either")
def test_leaders_of_many_rows_equal_a_full_sort():
    rng = np.random.default_rng(0)
    for upper2 in (rng.random(50_000), np.sort(rng.random(50_000)), np.ones(50_000)):
        expected = np.sort(np.argsort(-upper2, kind="stable")[:300])
        np.testing.assert_array_equal(loop.leaders(Known(upper2), 300, 0.0, EPS), expected)


def test_a_panel_stops_where_a_row_outside_could_win():
    G = np.diag([5.0, 4.0, 3.0])
    rows = np.array([2, 4, 8])
    take = lambda bound2, fence: loop.panel_pivots(  # noqa: E731
        G, loop.Panel(rows, bound2, fence), 0.0, room=3, relaxation=1.0, eps=EPS
    )
    np.testing.assert_array_equal(take(3.5, 0), [0, 1])
    np.testing.assert_array_equal(take(9.0, 0), [0])  # the first is always taken
    np.testing.assert_array_equal(take(4.0, 3), [0])  # tied with row 3, which comes first
    np.testing.assert_array_equal(take(4.0, 5), [0, 1])  # tied, and comes first itself


@pytest.mark.usefixtures("either")
def test_a_blurred_panel_takes_only_what_is_clear():
    G, rows = np.diag([5.0, 4.0, 3.0]), np.array([2, 4, 8])

    def take(blur2, bound2=1.0):
        panel = loop.Panel(rows, bound2, 0)
        return loop.panel_pivots(G, panel, 0.0, 3, 1.0, EPS, blur2=blur2).tolist()

    assert take(0.1) == [0, 1, 2]  # 5 - 0.4 > 4, 4 - 0.8 > 3, 3 - 1.2 > 1
    assert take(0.1, bound2=2.0) == [0, 1]
    assert take(0.2) == [0]
    assert take(0.3) == []
    assert take(0.1, bound2=4.7) == []  # a row outside may be larger


@pytest.mark.usefixtures("either")
@pytest.mark.parametrize("ties", [False, True])
def test_panels_from_differences_take_the_pivots_of_explicit_residuals(ties, monkeypatch):
    rng = np.random.default_rng(3)
    small = np.repeat(decaying(rng, 60, 40), 2 if ties else 1, axis=0)
    X = np.hstack([np.full((len(small), 1), 300.0), small])  # residuals far below the norms
    asked = []
    original = Orthonormal.gram

    def gram(self, rows, *, exact=False):
        G, blur2 = original(self, rows, exact=exact)
        asked.append((exact, blur2 > 0))
        return G, blur2

    monkeypatch.setattr(Orthonormal, "gram", gram)
    found = run(Orthonormal(as_points(X, center=False)), n_components=25).pivots
    assert any(blurred for _, blurred in asked)
    assert any(exact for exact, _ in asked) == ties
    expected = reference.greedy(X, n_components=25).pivots
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(icpqr(X, n_components=25).pivots, expected)


@pytest.mark.parametrize("part", [0.01, 0.6, 1.0])
def test_explicit_residuals_of_a_part_of_the_panel_change_no_pivot(part, monkeypatch):
    rng = np.random.default_rng(4)
    X = np.hstack([np.full((300, 1), 3e4), decaying(rng, 300, 40)])
    points = as_points(X, center=False)
    if not points.in_place:
        pytest.skip("the compiled functions were not built")
    monkeypatch.setattr(_compiled, "EXPLICIT", part)
    factor = run(Compiled(points), n_components=25)
    assert factor._state.E_room > 0  # panels were explicit
    np.testing.assert_array_equal(factor.pivots, reference.greedy(X, n_components=25).pivots)


def test_only_rows_that_matter_are_refreshed():
    X = noise(np.random.default_rng(1), 20_000, 100)
    result = ICPQR(None, 30).fit(X)
    assert result.certificate_.passes < 12  # plain greedy needs 31
    X = decaying(np.random.default_rng(1), 20_000, 300)
    assert icpqr(X, n_components=100).certificate.passes < 20  # all rows for each panel: 24


@pytest.mark.parametrize("compiled", [False, True])
def test_progress_reports_pivots_and_can_stop_the_loop(compiled):
    points = as_points(noise(np.random.default_rng(1), 500, 50), center=False)
    if compiled and not points.in_place:
        pytest.skip("the compiled functions were not built")
    seen = []
    factor = (Compiled if compiled else Orthonormal)(points)
    greedy = _compiled.greedy if compiled else partial(loop.greedy, eps=EPS)
    how = {"mu": None, "n_components": 40, "limit": 50, "relaxation": 1.0}
    reason = greedy(
        factor, progress=lambda done, most: seen.append((done, most)) or done >= 5, **how
    )
    assert reason == "n_components"
    assert seen[-1] == (factor.s, 40)
    assert 5 <= factor.s < 40


@pytest.mark.parametrize("pure", [False, True])
def test_rows_that_only_seemed_to_lead_are_passed_over(pure, monkeypatch):
    if pure:
        monkeypatch.setattr(_native, "ready", lambda: False)
    X = np.random.default_rng(3).standard_normal((200, 30)) * np.geomspace(1, 1e-7, 30)
    factor = run(Orthonormal(as_points(X, center=False)), n_components=22)
    few = np.argsort(factor.residual2)[20:30]  # small residuals, of which little is known
    factor.slack2[few] = 1.0
    panel = loop.next_panel(factor, 10, 0.0, EPS)
    np.testing.assert_array_equal(panel.rows, np.sort(few))
    how = (10, 1.0, EPS)
    assert len(loop._chosen(factor, panel, 0.0, *how)) == 0
    assert (factor.slack2[few] == 0.0).all()
    panel = loop.next_panel(factor, 10, 0.0, EPS)
    order = loop._chosen(factor, panel, 0.0, *how)
    assert panel.rows[order[0]] == np.argmax(factor.residual2)


@pytest.mark.parametrize("pure", [False, True])
def test_residuals_are_measured_only_where_the_floor_asks_for_it(pure, monkeypatch):
    if pure:
        monkeypatch.setattr(_native, "available", lambda A: False)
        monkeypatch.setattr(_native, "ready", lambda: False)
    elif not _native.ready():
        pytest.skip("the compiled functions were not built")
    monkeypatch.setattr(_factors, "FREE_WORK", 0)
    rng = np.random.default_rng(4)
    X = rng.standard_normal((3000, 80)) * np.geomspace(1, 2e-3, 80)
    X[:20] *= 30.0  # the floor grows with the largest norm
    X = X.astype(np.float32)
    factor = run((Orthonormal if pure else Compiled)(as_points(X, center=False)), n_components=50)
    floor, Y = factor.floor, X.astype(float)
    basis = np.linalg.qr(Y[factor.pivots].T)[0]
    exact = np.linalg.norm(Y - (Y @ basis) @ basis.T, axis=1)
    assert np.abs(np.sqrt(factor.residual2) - exact).max() <= floor
    blurred = (factor.slack2 > np.sqrt(factor.points.eps) * factor.residual2).sum()
    assert blurred > 1000  # these may be wrong by more than a part of themselves, not by a floor
