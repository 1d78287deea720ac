"""The report holds what the model says, as text, and nothing from elsewhere."""

import itertools
import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from scipy import sparse
from scipy.spatial.distance import pdist

from isopivot import ICPQR, DiffusionICPQR, ICPQRClassifier, KernelICPQR, load, report
from isopivot.report._compact import packed, unpacked
from isopivot.report._steps import chosen_steps, principal_views
from isopivot.report.collect import collect, label_groups, rate_histogram
from isopivot.report.page import as_json, notes, policy, render

pytest.importorskip("plotly")

HOSTILE = (
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(2)>",
    "<!--<script>",
    "{{ library }}",
    "%{x} <b>bold</b> & \u2028 \u2029 '\"",
    "=HYPERLINK(1)",
    "\udcff broken file name",
)


def cloud(n=120, m=6, seed=0):
    X = np.random.default_rng(seed).standard_normal((n, m))
    return X * 2.0 ** -np.arange(m)


def models():
    return {
        "linear": ICPQR("10%"),
        "rotated": ICPQR("10%", rotate=True),
        "relaxed": ICPQR("10%", relaxation=0.5),
        "kernel": KernelICPQR(0.2),
        "rotated kernel": KernelICPQR(0.2, rotate=True),
        "diffusion": DiffusionICPQR("20%"),
        "low-rank diffusion": DiffusionICPQR("20%", method="low_rank"),
    }


@pytest.fixture(params=models())
def fitted(request):
    X = cloud()
    return models()[request.param].fit(X), X


def html_of(model, X, tmp_path, **options):
    path = tmp_path / "report.html"
    report.write(model, X, path, **options)
    return path.read_text(encoding="utf-8")


def data_in(html):
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.DOTALL)
    return json.loads(found[1])


# -- the slider ---------------------------------------------------------------------------


def test_steps_print_what_truncation_certifies(fitted):
    model, X = fitted
    steps = collect(model, X)["steps"]
    assert [step["s"] for step in steps] == chosen_steps(model.n_components_, len(X)).tolist()
    for step in steps[1:]:
        short = model.truncate(n_components=step["s"])
        assert step["boundText"] == f"{short.certificate_.distortion_bound:.6g}"
        assert step["muText"] == f"{model.path_[step['s'], 0]:.6g}"
    nothing = model.truncate(mu=float(model.path_[0, 0]))
    assert steps[0]["boundText"] == f"{nothing.certificate_.distortion_bound:.6g}"


def test_dictionary_comes_in_the_order_of_the_pivots(fitted):
    model, X = fitted
    data = collect(model, X, names=[f"row {i}" for i in range(len(X))])
    assert [name for name, _ in data["dictionary"]] == [
        f"row {i}" for i in model.dictionary_indices_
    ]
    rank = np.array(data["table"]["rank"])
    np.testing.assert_array_equal(rank[model.dictionary_indices_], 1 + np.arange(rank.max()))


@pytest.mark.parametrize("n_components", [0, 1, 2, 58, 59, 60, 61, 600, 9_000])
def test_steps_are_few_and_hold_both_ends(n_components):
    sizes = chosen_steps(n_components, 1_000)
    assert len(sizes) <= 60
    assert sizes[0] == 0
    assert sizes[-1] == n_components
    assert (np.diff(sizes) > 0).all()


def test_a_large_embedding_is_read_less_often():
    assert 8 <= len(chosen_steps(500, 1_000_000)) < 60


def test_a_saved_model_bounds_its_steps_by_twice_mu(fitted, tmp_path):
    model, X = fitted
    model.save(tmp_path / "model.isopivot")
    loaded = load(tmp_path / "model.isopivot")
    data, full = collect(loaded, X), collect(model, X)
    assert data["training"]
    assert not data["exactBounds"]
    for step, exact in zip(data["steps"][:-1], full["steps"][:-1], strict=True):
        floor = model.certificate_.accuracy_floor
        assert step["boundText"] == f"{2.0 * (model.path_[step['s'], 0] + floor):.6g}"
        assert step["bound"] >= exact["bound"]
    assert data["steps"][-1] == full["steps"][-1]
    near = [row["neighbors"] for row in data["anomalies"]]
    assert near == [row["neighbors"] for row in full["anomalies"]]


def test_a_saved_model_shows_new_rows_and_its_dictionary(fitted, tmp_path):
    model, _ = fitted
    model.save(tmp_path / "model.isopivot")
    data = collect(load(tmp_path / "model.isopivot"), cloud(30, seed=1))
    assert not data["training"]
    assert data["points"]["extra"] == list(range(model.n_components_))


# -- pictures -----------------------------------------------------------------------------


def test_views_are_principal_components_of_each_step(fitted):
    model, X = fitted
    data = collect(model, X)
    for step, pack in list(zip(data["steps"], data["points"]["views"], strict=True))[1::4]:
        view = unpacked(pack).reshape(-1, 3)
        F = model.truncate(n_components=step["s"]).embedding_
        singular = np.linalg.svd(F - F.mean(axis=0), compute_uv=False)[:3]
        spread = np.linalg.norm(view - view.mean(axis=0), axis=0)[: len(singular)]
        tolerance = pack["step"] * np.sqrt(len(X))  # of 16 bits, once per point
        np.testing.assert_allclose(spread, singular, rtol=0, atol=tolerance)


def test_views_of_many_coordinates_follow_the_leading_axes():
    random = np.random.default_rng(0)
    F = random.standard_normal((500, 400)) * np.r_[30.0, 20.0, 10.0, np.ones(397)]
    view = principal_views(F, np.array([400]))[0]
    singular = np.linalg.svd(F - F.mean(axis=0), compute_uv=False)[:3]
    np.testing.assert_allclose(np.linalg.norm(view, axis=0), singular, rtol=1e-3)


def test_axes_do_not_flip_between_neighbouring_steps():
    F = cloud(200, 8)
    seen = principal_views(F, np.arange(1, 9))
    for view, finer in itertools.pairwise(seen):
        assert ((view * finer).sum(axis=0) >= 0).all()


def test_packing_errs_by_half_a_step_at_most():
    values = np.random.default_rng(0).standard_normal(1000) * 1e150
    pack = packed(values)
    assert np.abs(unpacked(pack) - values).max() <= 0.51 * pack["step"]
    np.testing.assert_array_equal(unpacked(packed(np.full(5, 3.5))), np.full(5, 3.5))


def test_pairs_lie_inside_the_band_at_every_step(fitted):
    model, X = fitted
    data = collect(model, X)
    floor = model.certificate_.accuracy_floor
    for step, pack in zip(data["steps"], data["pairs"]["change"], strict=True):
        slack = pack["step"] + 4.0 * floor + 1e-6 * step["bound"]  # drawing, rounding, printing
        assert unpacked(pack).min() >= -slack - 2.0 * model.certificate_.route_error
        assert unpacked(pack).max() <= step["bound"] + slack


@pytest.mark.parametrize("kernel", ["rbf", "linear", "polynomial", "cosine"])
def test_true_distances_are_those_of_the_geometry(kernel):
    X = cloud()
    model = KernelICPQR("10%", kernel=kernel).fit(X)
    pairs = collect(model, X)["pairs"]
    lower, upper = model.distance_bounds(X[pairs["rows"]])
    above = np.triu_indices(len(lower), k=1)
    assert pairs["width"] is None
    d, slack = np.array(pairs["lower"]), 1e-5 * upper.max()
    assert (lower[above] - slack <= d).all()
    assert (d <= upper[above] + slack).all()


def test_linear_distances_are_measured():
    X = cloud()
    pairs = collect(ICPQR("10%").fit(X), X)["pairs"]
    np.testing.assert_allclose(pairs["lower"], pdist(X[pairs["rows"]]), rtol=1e-5)


def test_diffusion_distances_come_as_intervals():
    X = cloud()
    model = DiffusionICPQR("20%").fit(X)
    pairs = collect(model, X)["pairs"]
    lower, upper = model.distance_bounds(X[pairs["rows"]])
    above = np.triu_indices(len(lower), k=1)
    np.testing.assert_allclose(pairs["lower"], lower[above], rtol=1e-5)
    np.testing.assert_allclose(pairs["width"], (upper - lower)[above], rtol=1e-5, atol=1e-12)


# -- rows, rates, anomalies ---------------------------------------------------------------


def test_the_table_is_the_models_word(fitted):
    model, X = fitted
    table = collect(model, X)["table"]
    np.testing.assert_allclose(table["rate"], model.distortion_rate(X), rtol=1e-5, atol=1e-300)
    np.testing.assert_array_equal(np.array(table["normal"]) == 1, model.predict(X) == 1)
    columns = np.array(table["coordinates"]).T
    shown = model.embedding_[:, : columns.shape[1]]
    np.testing.assert_allclose(columns, shown, rtol=1e-5)
    assert table["coordinateNames"] == list(model.get_feature_names_out()[: columns.shape[1]])


def test_new_rows_are_told_from_training_rows(fitted):
    model, X = fitted
    assert collect(model, X)["training"]
    other = X.copy()
    other[model.dictionary_indices_[0]] *= 1.001
    for rows in (X[:50], X[::-1], cloud(len(X), seed=3), other):
        data = collect(model, rows)
        assert not data["training"]
        said = "could not be recognised as the rows the model learnt from, in their order"
        assert said in data["words"]["paragraphs"][3][1]
        assert said in notes(data)
        assert data["dictionary"][0][0] == f"training row {model.dictionary_indices_[0]}"


def test_rates_are_counted_over_all_rows():
    X = cloud(500)
    model = ICPQR("30%", threshold=0.3).fit(X)
    data = collect(model, X, max_rows=100)
    rates = model.distortion_rate(X)
    assert sum(data["rates"]["counts"]) == 500
    assert data["rates"]["above"] == (rates > 0.3).sum() > 0
    assert data["rates"]["thresholdText"] == "0.3"


def test_rates_over_decades_get_a_log_scale():
    rates = np.r_[np.linspace(0.1, 0.2, 99), 1e4, 0.0]
    histogram = rate_histogram(rates, 0.15)
    assert histogram["log"]
    assert sum(histogram["counts"]) == 101
    np.testing.assert_allclose(np.diff(np.log(histogram["edges"])), np.log(1e5) / 40, rtol=1e-4)


def test_an_infinite_threshold_is_none():
    assert rate_histogram(np.array([0.0, 1.0]), np.inf)["threshold"] is None


def test_the_oddest_rows_come_with_their_features():
    X = cloud()
    model = ICPQR(None, n_components=2).fit(X)
    odd = collect(model, X)["anomalies"]
    rates = model.distortion_rate(X)
    order = np.argsort(-rates, kind="stable")[:20]
    assert [row["name"] for row in odd] == [str(i) for i in order]
    missed = model.explain(X[order[:1]])
    most = int(np.argmax(np.abs(missed.contributions[0])))
    name, value, share = odd[0]["features"][0]
    assert (name, value) == (f"x{most}", f"{missed.contributions[0, most]:+.4g}")
    assert share == pytest.approx((missed.contributions[0, most] / rates[order[0]]) ** 2, rel=1e-4)
    assert [int(name) for name, _ in odd[0]["neighbors"]] == missed.neighbors[0, :3].tolist()


def test_diffusion_names_neighbours_instead_of_features():
    X = cloud()
    odd = collect(DiffusionICPQR("20%").fit(X), X)["anomalies"]
    assert all(not row["features"] and len(row["neighbors"]) == 3 for row in odd)


@pytest.mark.parametrize("max_rows", [1, 30, 60])
def test_a_sample_keeps_the_oddest_and_the_dictionary(max_rows):
    X = cloud(400)
    model = ICPQR("10%").fit(X)
    data = collect(model, X, max_rows=max_rows)
    shown = [int(name) for name in data["table"]["names"]]
    assert len(shown) == max_rows == data["rows"]["shown"]
    rates = model.distortion_rate(X)
    wanted = [*np.argsort(-rates, kind="stable")[:20], *model.dictionary_indices_]
    assert set(wanted[:max_rows]) <= set(shown)
    assert data == collect(model, X, max_rows=max_rows)
    assert data != collect(model, X, max_rows=max_rows, random_state=1) or max_rows == 1


def test_labels_become_groups_or_a_scale():
    shown = np.arange(30)
    words = label_groups(["b", "a", "c"] * 10, 30, shown)
    assert words["names"] == ["a", "b", "c"]
    assert words["group"][:3] == [1, 0, 2]
    assert label_groups(np.arange(30) % 3, 30, shown)["names"] == ["0", "1", "2"]
    assert label_groups(np.linspace(0, 1, 30), 30, shown)["scale"][-1] == 1.0
    many = label_groups([str(i) for i in range(30)], 30, shown)
    assert len(many["names"]) == 11
    assert many["names"][-1] == "other"
    assert max(many["group"]) == 10


# -- kinds of input -----------------------------------------------------------------------


def test_frames_give_names_to_rows_and_features():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(cloud(m=3), columns=["weight", "height", "age"])
    frame.index = [f"patient {i}" for i in range(len(frame))]
    data = collect(ICPQR(None, n_components=1).fit(frame), frame)
    assert data["training"]
    assert data["table"]["names"][7] == "patient 7"
    assert data["anomalies"][0]["features"][0][0] in frame.columns
    assert collect(ICPQR("10%").fit(frame), frame.iloc[:9])["rows"]["of"] == 9


def test_arrays_for_a_model_of_named_features_do_not_warn(tmp_path):
    pd = pytest.importorskip("pandas")
    X = cloud(m=3)
    model = ICPQR("10%").fit(pd.DataFrame(X, columns=["weight", "height", "age"]))
    for rows in (X, X[:50]):  # warnings are errors here
        report.write(model, rows, tmp_path / "r.html")


def test_sparse_rows_work():
    X = sparse.random(80, 200, density=0.05, random_state=0, format="coo")
    linear, kernel = (collect(model.fit(X), X) for model in (ICPQR("40%"), KernelICPQR(0.5)))
    assert linear["training"]
    assert kernel["training"]
    true = pdist(X.toarray()[linear["pairs"]["rows"]])
    np.testing.assert_allclose(linear["pairs"]["lower"], true, rtol=1e-5)


@pytest.mark.parametrize("constant", [True, False])
def test_precomputed_kernels_work(constant):
    X = cloud()
    K = X @ X.T
    if constant:
        K /= np.sqrt(np.outer(K.diagonal(), K.diagonal()))
        np.fill_diagonal(K, 1.0)
    K = (K + K.T) / 2.0
    model = KernelICPQR("10%", kernel="precomputed").fit(K)
    data = collect(model, K)
    rows = data["pairs"]["rows"]
    norms2 = K.diagonal()[rows]
    d2 = norms2[:, None] + norms2[None, :] - 2.0 * K[np.ix_(rows, rows)]
    above = np.triu_indices(len(rows), k=1)
    np.testing.assert_allclose(data["pairs"]["lower"], np.sqrt(d2[above]), rtol=1e-5)
    assert "features each" not in data["words"]["paragraphs"][0][1]
    if constant:
        assert not collect(model, K[:40])["training"]


@pytest.mark.parametrize("scale", [1e-150, 1.0, 1e150])
def test_any_scale_stays_finite(scale, tmp_path):
    X = cloud() * scale
    data = data_in(html_of(ICPQR("10%").fit(X), X, tmp_path))
    assert data["steps"][0]["mu"] == pytest.approx(ICPQR("10%").fit(X).path_[0, 0], rel=1e-5)


EDGES = {
    "one row": (ICPQR(), np.ones((1, 3))),
    "one row kept": (ICPQR(center=False), np.ones((1, 3))),
    "one row, kernel": (KernelICPQR(), np.ones((1, 3))),
    "one row, diffusion": (DiffusionICPQR(), np.ones((1, 3))),
    "constant": (ICPQR(), np.ones((20, 3))),
    "nothing kept": (ICPQR(1e6), cloud()),
    "one dimension": (ICPQR(None, n_components=1), cloud()),
    "two rows": (ICPQR(), cloud(2)),
    "single precision": (ICPQR("10%"), cloud().astype(np.float32)),
}


@pytest.mark.parametrize("edge", EDGES)
def test_small_and_flat_data_make_a_page(edge, tmp_path):
    model, X = EDGES[edge]
    data = data_in(html_of(model.fit(X), X, tmp_path))
    assert data["training"]
    assert data["steps"][-1]["s"] == model.n_components_
    assert len(data["table"]["names"]) == len(X)


# -- words --------------------------------------------------------------------------------


def test_the_promise_is_in_plain_words():
    X = cloud()
    model = ICPQR("10%").fit(X)
    said = collect(model, X)["words"]
    bound = f"{model.certificate_.distortion_bound:.6g}"
    assert said["badge"] == "Certified"
    assert said["headline"] == (
        f"No pairwise distance of the training data changed by more than {bound}."
    )
    assert "every one of the 7,140 pairs" in said["paragraphs"][1][1]


def test_what_was_not_reached_is_said():
    X = cloud()
    data = collect(ICPQR(1e-3, n_components=2).fit(X), X)
    assert data["words"]["badge"] == "Not certified"
    assert "was not reached" in data["words"]["headline"]
    assert data["bounded"]


def test_the_tile_calls_the_bound_a_bound():
    X = cloud()
    model = ICPQR("10%").fit(X)
    bound = f"{model.certificate_.distortion_bound:.6g}"
    assert collect(model, X)["facts"][2] == ("no distance changes by more than", bound)


def test_what_has_no_proof_promises_nothing():
    X = cloud()
    model = DiffusionICPQR("10%", method="low_rank", alpha=0.5, epsilon_scale=10.0).fit(X)
    data = collect(model, X)
    assert not data["bounded"]
    assert data["facts"][2][0] == "estimated change of a diffusion distance"
    assert "no proof" in data["words"]["headline"]
    assert "Nothing is promised" in data["words"]["paragraphs"][1][1]


# -- the file -----------------------------------------------------------------------------


class Tags(HTMLParser):
    def __init__(self, html):
        super().__init__()
        self.found = []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))


def test_hostile_text_stays_text(tmp_path):
    X = cloud(len(HOSTILE) * 10, 3)
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=HOSTILE[:3])
    model = ICPQR(None, n_components=2).fit(frame)
    names = list(HOSTILE) * 10
    html = html_of(model, frame, tmp_path, names=names, labels=names, title=HOSTILE[0])
    assert data_in(html)["table"]["names"] == names
    assert "<h1>&lt;/script&gt;&lt;script&gt;alert(1)&lt;/script&gt;</h1>" in html
    plain = Tags(html_of(model, frame, tmp_path)).found
    assert [tag for tag, _ in Tags(html).found] == [tag for tag, _ in plain]
    assert html.count("\u2028") == html_of(model, frame, tmp_path).count("\u2028")


def test_json_escapes_what_html_would_read():
    text = as_json({"a": "<>&\u2028\u2029é"})
    assert text == '{"a":"\\u003c\\u003e\\u0026\\u2028\\u2029é"}'
    with pytest.raises(ValueError, match="not JSON compliant"):
        as_json({"a": float("nan")})


def test_the_page_may_reach_nothing(tmp_path):
    X = cloud()
    html = html_of(ICPQR("10%").fit(X), X, tmp_path)
    tags = Tags(html.split("<script>")[0]).found
    rules = [attrs for tag, attrs in tags if attrs.get("http-equiv") == "Content-Security-Policy"]
    assert "default-src 'none'" in rules[0]["content"]
    assert "unsafe-eval" not in rules[0]["content"]
    assert not re.search(r"script-src[^;]*unsafe-inline", rules[0]["content"])
    assert not [attrs for _, attrs in tags if attrs.get("src")]
    links = [attrs["href"] for tag, attrs in tags if tag in ("a", "link")]
    assert all(link.startswith(("#", "data:")) for link in links)


def test_the_policy_names_the_scripts():
    # The hash of the CSP specification's own example.
    known = "sha256-qznLcsROx4GACP2dm0UCKCzCG+HiZ1guq6ZZDob/Tng="
    assert f"script-src '{known}';" in policy(("alert('Hello, world.');",))


def test_line_ends_of_the_library_do_not_break_its_hash():
    X = cloud()
    data = collect(ICPQR("10%").fit(X), X)
    assert render(data, "var a;\r\nvar b;") == render(data, "var a;\nvar b;")


def test_the_same_arguments_give_the_same_file(tmp_path):
    X = cloud()
    model = ICPQR("10%").fit(X)
    assert html_of(model, X, tmp_path) == html_of(model, X, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_ten_thousand_rows_stay_under_eight_megabytes(tmp_path):
    X = np.random.default_rng(0).standard_normal((10_000, 50))
    model = ICPQR("10%").fit(X)
    report.write(
        model,
        X,
        tmp_path / "r.html",
        names=[f"customer {i}" for i in range(10_000)],
        labels=X[:, 0],
    )
    assert (tmp_path / "r.html").stat().st_size < 8_000_000


# -- errors -------------------------------------------------------------------------------


def test_a_classifier_is_refused_before_a_file_is_made(tmp_path):
    X = cloud()
    model = ICPQRClassifier(mu=0.5).fit(X, X[:, 0] > 0)
    with pytest.raises(ValueError, match="got ICPQRClassifier; allowed are ICPQR"):
        report.write(model, X, tmp_path / "r.html")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"names": ["a"]}, "got 1 names for 120 rows"),
        ({"labels": ["a", "b"]}, "got 2 labels for 120 rows"),
        ({"max_rows": 0}, "got max_rows=0; allowed is an integer >= 1"),
        ({"max_rows": 2.5}, "got max_rows=2.5"),
    ],
)
def test_wrong_arguments_are_named(options, message, tmp_path):
    X = cloud()
    with pytest.raises(ValueError, match=message):
        report.write(ICPQR("10%").fit(X), X, tmp_path / "r.html", **options)
    assert not list(tmp_path.iterdir())


def test_an_unfitted_model_is_refused(tmp_path):
    with pytest.raises(ValueError, match="not fitted"):
        report.write(ICPQR(), cloud(), tmp_path / "r.html")
