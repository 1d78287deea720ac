"""What the pictures show is what they were given, and nothing leaks into pyplot."""

import itertools
import subprocess
import sys

import numpy as np
import pytest
from scipy import sparse
from scipy.spatial.distance import pdist

from isopivot import ICPQR, icpqr
from isopivot.plots import (
    PALETTE,
    SHAPES,
    plot_changes,
    plot_distances,
    plot_embedding,
    plot_path,
    plot_rates,
)

pytest.importorskip("matplotlib")

PATH = np.array([[8.0, 0], [5.0, 1], [2.0, 2], [0.5, 3]])


@pytest.fixture
def reduced():
    """Points with five large directions and noise, cut where the noise is lost."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((120, 5)) @ rng.standard_normal((5, 12)) * 3
    X += 0.2 * rng.standard_normal(X.shape)
    return X, icpqr(X, mu=2.0, center=True)


def save(ax, tmp_path):
    """Draw for real: some mistakes appear only then."""
    target = tmp_path / "picture.png"
    ax.figure.savefig(target)
    assert target.stat().st_size > 1000


def entries(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


# plot_path


def test_path_curve_is_the_path(tmp_path):
    ax = plot_path(PATH)
    (curve,) = ax.lines
    np.testing.assert_array_equal(curve.get_xydata(), PATH)
    assert curve.get_drawstyle() == "steps-pre"
    save(ax, tmp_path)


def test_path_of_an_estimator_is_asked_for_by_name():
    model = ICPQR().fit(np.eye(3))
    with pytest.raises(TypeError, match="got the estimator ICPQR for path"):
        plot_path(model)


def test_without_matplotlib_the_remedy_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match="pip install matplotlib"):
        plot_path(PATH)


@pytest.mark.parametrize(
    ("mu", "size"), [(0.5, 3), (1.99, 3), (2.0, 2), (4.9, 2), (8.0, 0), (99, 0)]
)
def test_path_marks_the_smallest_sufficient_dimension(mu, size):
    ax = plot_path(PATH, mu=mu)
    np.testing.assert_array_equal(ax.lines[1].get_xydata(), [[mu, size]])


def test_path_marks_every_mu_given():
    ax = plot_path(PATH, mu=[0.5, 3.0])
    assert entries(ax) == [r"$\mu$ = 0.5: s = 3", r"$\mu$ = 3: s = 2"]


def test_path_refuses_a_mu_it_does_not_reach():
    with pytest.raises(ValueError, match=r"mu=0.1 is below the end of the path \(0.5\); fit with"):
        plot_path(PATH, mu=0.1)


@pytest.mark.parametrize(("last", "scale"), [(0.5, "linear"), (0.01, "log"), (0.0, "linear")])
def test_path_axis_follows_the_span(last, scale, tmp_path):
    path = np.vstack([PATH[:-1], [last, 3]])
    ax = plot_path(path)
    assert ax.get_xscale() == scale
    save(ax, tmp_path)


def test_path_without_components(tmp_path):
    save(plot_path([[0.0, 0]], mu=1.0), tmp_path)


# plot_embedding


def test_embedding_draws_the_first_two_columns_and_rings_the_dictionary(reduced, tmp_path):
    _, factors = reduced
    ax = plot_embedding(factors.coordinates, factors.pivots)
    points, rings = (np.asarray(c.get_offsets()) for c in ax.collections)
    np.testing.assert_array_equal(points, factors.coordinates[:, :2])
    np.testing.assert_array_equal(rings, factors.coordinates[factors.pivots, :2])
    assert entries(ax) == [f"dictionary ({len(factors.pivots)})"]
    save(ax, tmp_path)


@pytest.mark.parametrize("columns", [0, 1])
def test_embedding_pads_missing_columns(columns, tmp_path):
    ax = plot_embedding(np.ones((4, columns)), [])
    expected = np.zeros((4, 2))
    expected[:, :columns] = 1
    np.testing.assert_array_equal(ax.collections[0].get_offsets(), expected)
    save(ax, tmp_path)


def test_embedding_gives_each_class_a_colour_and_a_name():
    labels = np.array(["cat", "dog", "cat", "eel"])
    ax = plot_embedding(np.arange(8.0).reshape(4, 2), [0], labels=labels)
    assert entries(ax) == ["cat", "dog", "eel", "dictionary (1)"]
    assert [len(c.get_offsets()) for c in ax.collections] == [2, 1, 1, 1]
    assert len({tuple(c.get_facecolor()[0]) for c in ax.collections[:3]}) == 3
    assert len({c.get_paths()[0].vertices.tobytes() for c in ax.collections[:3]}) == 3


def test_embedding_legend_is_readable():
    ax = plot_embedding(np.eye(3), labels=["cat", "dog", "eel"], label_name="animal")
    legend = ax.get_legend()
    assert legend.get_title().get_text() == "animal"
    for drawn, shown in zip(ax.collections, legend.legend_handles, strict=True):
        assert shown.get_sizes()[0] > 2 * drawn.get_sizes()[0]
        assert shown.get_alpha() == 1.0


def test_colours_and_shapes_are_all_different():
    assert len(set(PALETTE)) == len(set(SHAPES)) == len(PALETTE) == len(SHAPES)


def test_embedding_shades_many_numbers_and_refuses_many_names(tmp_path):
    many = len(PALETTE) + 1
    points = np.random.default_rng(0).standard_normal((many, 2))
    ax = plot_embedding(points, labels=np.arange(many) / 7, label_name="sevenths")
    assert ax.figure.axes[1].get_ylabel() == "sevenths"
    np.testing.assert_array_equal(ax.collections[0].get_array(), np.arange(many) / 7)
    save(ax, tmp_path)
    with pytest.raises(ValueError, match=r"11 different values, at most 10 .* pass numbers"):
        plot_embedding(points, labels=[f"name{k}" for k in range(many)])


def test_embedding_wants_a_label_per_point():
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        plot_embedding(np.ones((4, 2)), labels=[0, 1])


# plot_changes


def cells(ax):
    """Hexagons with pairs in them: centres (e, d), counts, and half their extent."""
    hexagons = ax.collections[1]
    corners = hexagons.get_paths()[0].vertices
    return np.asarray(hexagons.get_offsets()), hexagons.get_array(), np.ptp(corners, axis=0) / 2


def test_every_pair_is_drawn_inside_the_band(reduced, tmp_path):
    X, factors = reduced
    bound = factors.certificate.distortion_bound
    ax = plot_changes(X, factors.coordinates, factors.certificate)
    centres, counts, (_, half) = cells(ax)
    assert counts.sum() == len(X) * (len(X) - 1) // 2
    # A pair is within half a cell of its cell's centre.
    assert centres[:, 1].min() >= -half
    assert centres[:, 1].max() <= bound + half
    assert ax.get_ylim()[0] == 0  # parts of cells below are cut off
    assert ax.get_ylim()[1] > bound
    # Above the dashed curve there is no pair, and no part of a cell is drawn.
    clip, to_pixels = ax.collections[1].get_clip_path().get_transformed_path_and_affine()
    e = np.linspace(*ax.get_xlim(), 50)[1:-1]
    limit = np.hypot(e, bound) - e
    for height, inside in [(0.99 * limit, True), (1.01 * limit + 0.01 * bound, False)]:
        pixels = ax.transData.transform(np.column_stack([e, height]))
        drawn = to_pixels.transform_path(clip).contains_points(pixels)
        assert drawn.all() if inside else not drawn.any()
    save(ax, tmp_path)


def test_true_against_embedded_distances_lie_in_the_band(reduced, tmp_path):
    X, factors = reduced
    bound = factors.certificate.distortion_bound
    ax = plot_distances(X, factors.coordinates, factors.certificate)
    centres, counts, half = cells(ax)
    assert counts.sum() == len(X) * (len(X) - 1) // 2
    change = centres[:, 1] - centres[:, 0]
    assert change.min() >= -half.sum()
    assert change.max() <= bound + half.sum()
    corners = ax.collections[0].get_paths()[0].vertices
    assert np.ptp(corners[corners[:, 0] == 0.0][:, 1]) == bound
    assert ax.get_ylim()[1] > pdist(X).max()
    save(ax, tmp_path)


def test_band_has_the_certified_width(reduced):
    X, factors = reduced
    bound = factors.certificate.distortion_bound
    ax = plot_changes(X, factors.coordinates, factors.certificate)
    corners = ax.collections[0].get_paths()[0].vertices
    assert set(corners[:, 1]) == {0.0, bound}
    e, sharper = ax.lines[0].get_xydata().T
    np.testing.assert_allclose(sharper, np.hypot(e, bound) - e, rtol=0, atol=1e-12 * bound)
    assert entries(ax)[0] == f"certified: d - e $\\leq$ {bound:.3g}"


@pytest.mark.parametrize("stretch", [0.0, 2.0], ids=["too short", "too long"])
def test_a_broken_promise_is_not_hidden(reduced, stretch, tmp_path):
    X, factors = reduced
    embedding = stretch * factors.coordinates
    change = pdist(X) - pdist(embedding)
    ax = plot_changes(X, embedding, 0.1)
    low, high = ax.get_ylim()
    assert low < change.min() or change.min() >= low == 0
    assert high > change.max()
    if stretch == 0.0:
        assert ax.collections[1].get_clip_path() is None  # the axes' box alone
    save(ax, tmp_path)


def test_pair_that_changed_most_is_marked(reduced):
    X, factors = reduced
    true, embedded = pdist(X), pdist(factors.coordinates)
    worst = np.argmax(np.abs(true - embedded))
    ax = plot_changes(X, factors.coordinates, 4.0)
    rounding = 8 * np.finfo(float).eps * true.max()
    np.testing.assert_allclose(
        ax.lines[-1].get_xydata(),
        [[embedded[worst], (true - embedded)[worst]]],
        rtol=0,
        atol=rounding,
    )
    assert entries(ax)[-1] == f"largest change seen: {(true - embedded)[worst]:.3g}"


def test_sparse_points_are_drawn_alike(reduced):
    X, factors = reduced
    dense = plot_changes(X, factors.coordinates, 4.0)
    thin = plot_changes(sparse.csr_array(X), factors.coordinates, 4.0)
    np.testing.assert_array_equal(cells(thin)[1], cells(dense)[1])


def test_only_max_points_are_compared(reduced):
    X, factors = reduced
    ax = plot_changes(X, factors.coordinates, factors.certificate, max_points=30)
    assert cells(ax)[1].sum() == 30 * 29 // 2
    assert ax.get_title() == "Change of distances, pairs of 30 points"


@pytest.mark.parametrize(
    ("X", "embedding"),
    [
        (np.ones((1, 3)), np.zeros((1, 1))),
        (np.ones((5, 3)), np.zeros((5, 0))),
        (np.array([[0.0], [2.0]]), np.zeros((2, 0))),
    ],
    ids=["one point", "duplicates", "no components"],
)
def test_degenerate_distances_are_drawn(X, embedding, tmp_path):
    save(plot_changes(X, embedding, 2.0), tmp_path)


def test_distances_want_matching_rows():
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        plot_changes(np.ones((4, 2)), np.ones((3, 2)), 1.0)


# plot_rates


def bars(ax):
    """Outlines of the histograms as (left, right, count), zero counts dropped."""
    found = []
    for patch in ax.patches:
        corners = patch.get_xy()
        for (left, height), (right, same) in itertools.pairwise(corners):
            if right > left and height == same > 0:
                found.append((left, right, height))
    return found


def test_bars_split_at_the_threshold(tmp_path):
    rates = np.random.default_rng(1).gamma(4.0, size=500)
    threshold = np.sort(rates)[450]  # one of the rates: it counts as normal
    ax = plot_rates(rates, threshold)
    assert sum(count for _, _, count in bars(ax)) == 500
    assert sum(count for left, _, count in bars(ax) if left > threshold) == 49
    assert entries(ax)[:2] == ["normal (451)", "abnormal (49)"]
    assert ax.get_title() == "Distortion rates: 49 of 500 points above the threshold"
    save(ax, tmp_path)


def test_rates_are_grouped_by_label():
    ax = plot_rates([0.1, 0.2, 0.3, 0.9], 0.5, labels=["a", "b", "a", "a"])
    assert entries(ax) == ["a (3)", "b (1)", "threshold 0.5"]


@pytest.mark.parametrize(
    ("rates", "threshold", "above"),
    [
        ([0.0, 0.0], 0.0, 0),
        ([0.0, 5.0], 1e-300, 1),
        ([2.0, 2.0], 2.0, 0),
        ([1.0, 2.0], np.inf, 0),
        ([1.0, 1e9], 3.0, 1),
        ([1e-150, 3e-150], 2e-150, 1),
    ],
)
def test_extreme_rates_are_all_drawn(rates, threshold, above, tmp_path):
    ax = plot_rates(rates, threshold)
    assert sum(count for _, _, count in bars(ax)) == len(rates)
    assert f": {above} of 2 points" in ax.get_title()
    save(ax, tmp_path)


def test_rates_refuse_more_groups_than_colours():
    with pytest.raises(ValueError, match=r"11 different values, at most 10 .* leave labels out"):
        plot_rates(np.ones(11), 1.0, labels=np.arange(11))


def test_rates_must_be_finite():
    with pytest.raises(ValueError, match="NaN"):
        plot_rates([0.1, np.nan], 1.0)


# all of them

CALLS = [
    lambda ax: plot_path(PATH, ax=ax),
    lambda ax: plot_embedding(np.eye(3), [0], ax=ax),
    lambda ax: plot_changes(np.eye(3), np.eye(3), 1.0, ax=ax),
    lambda ax: plot_rates([1.0, 2.0], 1.5, ax=ax),
]


@pytest.mark.parametrize("call", CALLS, ids=["path", "embedding", "distances", "rates"])
def test_axes_given_are_drawn_on_and_returned(call):
    from matplotlib.figure import Figure

    ax = Figure().subplots()
    assert call(ax) is ax
    assert ax.get_title()
    assert "units of the data" in ax.get_xlabel()


def test_matplotlib_is_imported_late_and_pyplot_never(tmp_path):
    code = (
        "import sys, isopivot.plots as p\n"
        "assert 'matplotlib' not in sys.modules\n"
        "p.plot_path([[1.0, 0]]).figure.savefig(sys.argv[1])\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "picture.png")]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
