"""ONNX graphs answer as Python does, up to the rounding that both of them have."""

import json
import os
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from scipy import sparse
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError

import isopivot
from isopivot import ICPQR, DiffusionICPQR, ICPQRClassifier, KernelICPQR
from isopivot._onnx_extension import _forward_substitution
from isopivot._onnx_graph import Graph
from isopivot.estimators import TableModel
from isopivot.onnx import KERNELS, to_onnx
from onnx_answers import EPS, answers, assert_same, rate_slack, session, well_apart
from strategies import point_sets
from tolerances import eps_of, length_slack, q_less_slack, smallest_of

onnx = pytest.importorskip("onnx")

RNG = np.random.default_rng(0)
X = RNG.standard_normal((150, 7)) @ RNG.standard_normal((7, 7))
NEW = 1.5 * RNG.standard_normal((40, 7)) @ RNG.standard_normal((7, 7))
DIGITS, NUMBERS = load_digits(return_X_y=True)
WORDS = np.array(["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"])
DTYPES = (np.float64, np.float32)

needs_data = pytest.mark.skipif("ISOPIVOT_DATA" not in os.environ, reason="ISOPIVOT_DATA not set")


MODELS = {
    "ICPQR": ICPQR("30%"),
    "not centred": ICPQR("30%", center=False),
    "rotated": ICPQR("30%", rotate=True),
    "to the floor": ICPQR(0),
    "strict": ICPQR("30%", threshold="strict"),
    "nothing kept": ICPQR("300%"),
    **{f"{name} {mu}": KernelICPQR(mu, kernel=name) for name in KERNELS for mu in ("30%", 0)},
    **{f"{name} rotated": KernelICPQR("20%", kernel=name, rotate=True) for name in KERNELS},
    **{f"{name}, nothing kept": KernelICPQR("300%", kernel=name) for name in KERNELS},
}


@pytest.fixture(params=MODELS)
def unfitted(request):
    return MODELS[request.param]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("offset", [0.0, 1e3])
def test_graph_answers_as_python_does(unfitted, dtype, offset):
    fitted = unfitted.fit((X + offset).astype(dtype))
    graph = session(fitted)
    far = np.vstack([NEW + offset, 1e4 * NEW, np.zeros((1, 7))]).astype(dtype)
    for rows in (X + offset, NEW + offset, NEW[:1] + offset):
        assert_same(fitted, rows.astype(dtype), graph)
    assert_same(fitted, far, graph)


@pytest.mark.parametrize("dtype", DTYPES)
def test_training_rows_are_normal_in_a_batch_and_alone(unfitted, dtype):
    rows = X.astype(dtype)
    graph = session(unfitted.fit(rows))
    assert (graph.run(["label"], {"X": rows})[0] == 1).all()
    alone = [graph.run(["label"], {"X": rows[i : i + 1]})[0] for i in range(len(rows))]
    assert (np.concatenate(alone) == 1).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("offset", [0.0, 1e3])
def test_residuals_that_are_rounding_alone_are_zero(dtype, offset):
    rows = (X + offset).astype(dtype)
    model = ICPQR(0).fit(rows)
    rows = np.vstack([rows, 1e-3 * NEW.astype(dtype)])  # near the origin, far from the mean
    assert (model.distortion_rate(rows) == 0).all()
    assert (session(model).run(["distortion_rate"], {"X": rows})[0] == 0).all()


@given(problem=point_sets())
@settings(max_examples=40)
def test_any_point_set_gives_the_same_answers(problem):
    model = ICPQR("10%").fit(problem)
    assert (assert_same(model, problem) == 1).all()


@pytest.mark.parametrize(
    ("dtype", "scale"),
    [(np.float64, s) for s in (1e-318, 1e-300, 1e-150, 1e150, 1e300, 1e306)]
    + [(np.float32, s) for s in (1e-43, 1e-37, 1e-20, 1e15, 1e36)],
)
def test_any_scale(dtype, scale):
    rows = (scale * (X + 3.0) / np.abs(X).max()).astype(dtype)
    model = ICPQR("30%").fit(rows)
    assert (assert_same(model, rows) == 1).all()
    linear = KernelICPQR("30%", kernel="linear").fit(rows)
    F, rates, labels = answers(linear, rows)
    assert (labels == 1).all()
    size = np.abs(linear.transform(rows)).max()
    # The first coordinate is what matters here; its substitution is one division.
    slack = 2 * (40.0 * eps_of(rows) * size + smallest_of(rows))
    assert np.all(np.abs(F[:, :1] - linear.transform(rows)[:, :1]) <= slack)
    assert np.all(np.abs(rates - linear.distortion_rate(rows)) <= 2 * q_less_slack(rows) + slack)


def test_queries_may_have_another_scale_than_the_training_rows():
    model = ICPQR("30%").fit(X)
    graph = session(model)
    for scale in (1e-300, 1e-100, 1e100, 1e300):
        assert_same(model, scale * NEW, graph)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mu", ["60%", 0])
@pytest.mark.parametrize("center", [True, False])
def test_wide_sparse_data_has_a_graph_for_dense_rows(dtype, mu, center):
    rows = sparse.random(50, 900, density=0.02, random_state=0, format="csr", dtype=dtype)
    model = ICPQR(mu, center=center).fit(rows)
    assert model.certificate_.route == "cholesky"
    dense = rows.toarray()
    F, rates, labels = answers(model, dense)
    # Python has these from squares that cancel, the graph from vectors: see tolerances.
    slack = 2 * (q_less_slack(dense) + 16 * eps_of(dense))
    assert np.abs(rates - model.distortion_rate(dense)).max() <= slack
    assert np.abs(F - model.transform(dense)).max() <= slack
    assert (labels == 1).all()
    assert (answers(model, np.ones((1, 900), dtype=dtype))[2] == -1).all()


def test_sparse_training_rows_of_a_kernel():
    rows = sparse.csr_array(np.where(np.abs(X) > 1.0, X, 0.0))
    for name in KERNELS:
        model = KernelICPQR("30%", kernel=name).fit(rows)
        assert (assert_same(model, rows.toarray()) == 1).all()


# -- triangular systems -------------------------------------------------------------------


def kahan(size, cosine):
    """A triangle that pivoting lets pass though its inverse is huge."""
    sine = np.sqrt(1.0 - cosine**2)
    upper = np.eye(size) - cosine * np.triu(np.ones((size, size)), 1)
    return (sine ** np.arange(size)[:, None] * upper).T


def substituted(T, U):
    graph = Graph("float64")
    graph("Identity", _forward_substitution(graph, T, "X"), name="F")
    proto = graph.finished([("F", np.dtype(np.float64), [len(T)])], len(T), {})
    return answers(proto, U)[0]


def backward_error(T, F, U):
    """Largest residual, in units of what substitution itself may leave: s eps |F| |T|'."""
    return np.max(np.abs(F @ T.T - U) / (len(T) * EPS * np.abs(F) @ np.abs(T).T))


@pytest.mark.parametrize(("size", "cosine"), [(1, 0.5), (40, 0.6), (50, 0.6), (150, 0.2)])
def test_substitution_leaves_no_more_than_python_does(size, cosine):
    T = kahan(size, cosine)
    U = RNG.standard_normal((30, size)) @ T.T
    assert backward_error(T, substituted(T, U), U) <= 4.0


def test_one_inverse_alone_would_not_do():
    T = kahan(50, 0.6)
    U = RNG.standard_normal((30, 50)) @ T.T
    assert backward_error(T, U @ np.linalg.inv(T).T, U) > 1e3


def test_triangles_that_inverses_cannot_solve_raise():
    with pytest.raises(ValueError, match=r"close to dependent.*allowed is 0\.01; keep fewer"):
        substituted(kahan(60, 0.9), np.ones((1, 60)))


@pytest.mark.parametrize(("features", "epsilon"), [(1, 0.05), (2, 0.5), (3, 1.0)])
def test_dictionaries_at_the_floor_of_smooth_kernels(features, epsilon):
    rows = RNG.uniform(size=(600, features))
    model = KernelICPQR(0, epsilon=epsilon).fit(rows)
    assert np.linalg.cond(model._extension.T) > 1e7
    assert (assert_same(model, rows) == 1).all()
    assert_same(model, RNG.uniform(-0.2, 1.2, (200, features)))


# -- kernels ------------------------------------------------------------------------------


def operators(model):
    return {node.op_type for node in to_onnx(model).graph.node}


def test_distances_are_taken_from_differences_where_inner_products_lose_digits():
    pairs = np.vstack([X, X + 1e-4])
    tight = KernelICPQR("50%", epsilon=1e-7).fit(pairs)
    assert "Scan" in operators(tight)
    assert (assert_same(tight, pairs) == 1).all()
    assert_same(tight, X + 5e-5)
    assert "Scan" not in operators(KernelICPQR("50%").fit(pairs))


@pytest.mark.parametrize("epsilon", [1e-7, 1.0])
@pytest.mark.parametrize("name", ["rbf", "laplacian"])
def test_no_intermediate_is_larger_than_rows_times_members(name, epsilon):
    model = KernelICPQR("50%", kernel=name, epsilon=epsilon).fit(X)
    inferred = onnx.shape_inference.infer_shapes(to_onnx(model), data_prop=True)
    n = 1000
    allowed = n * max(model.n_components_, X.shape[1])
    values = [*inferred.graph.value_info, *inferred.graph.output]
    assert len(values) > 10
    for value in values:
        dims = value.type.tensor_type.shape.dim
        assert np.prod([d.dim_value or n for d in dims], initial=1) <= allowed, value.name


@pytest.mark.parametrize("mu", ["60%", "100%"])
@pytest.mark.parametrize("kernel", [None, *KERNELS])
def test_rows_that_are_not_finite_are_never_normal(kernel, mu):
    model = ICPQR(mu) if kernel is None else KernelICPQR(mu, kernel=kernel)
    rows = X[:4].copy()
    rows[0, 0], rows[1, 2], rows[2, 1] = np.nan, np.inf, -np.inf
    _, rates, labels = answers(model.fit(X), rows)
    assert labels.tolist() == [-1, -1, -1, 1]
    assert np.isfinite(rates).tolist() == [False, False, False, True]


def test_calibrated_truncated_and_numeric_thresholds_decide():
    for model in (
        ICPQR("30%").fit(X).calibrate(0.9 * X, 0.1),
        KernelICPQR(0.1).fit(X).truncate(n_components=20),
        KernelICPQR(0.1, threshold=0.05).fit(X),
    ):
        labels = assert_same(model, np.vstack([X, NEW]))
        assert {-1, 1} == set(labels.tolist())


@pytest.mark.parametrize("model", [ICPQR("30%", rotate=True), KernelICPQR("30%")])
def test_loaded_models_have_the_same_graph(model, tmp_path):
    model.fit(X).save(tmp_path / "model")
    again = isopivot.load(tmp_path / "model")
    assert to_onnx(again) == to_onnx(model)


# -- classifier ---------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kernel", [None, *KERNELS])
@pytest.mark.parametrize("reject", [False, True])
@pytest.mark.parametrize(("labels", "none"), [(NUMBERS, -1), (WORDS[NUMBERS], "none")])
def test_classifier_answers_as_python_does(dtype, kernel, reject, labels, none):
    rows = DIGITS.astype(dtype)
    model = ICPQRClassifier("20%", kernel=kernel, reject=reject, reject_label=none)
    model.fit(rows[:500], labels[:500])
    noise = 16 * np.random.default_rng(1).uniform(size=(40, 64))
    queries = np.vstack([rows[:40], rows[500:800], noise.astype(dtype)])
    label, rates, probabilities = answers(model, queries)
    assert label.dtype == (np.int64 if none == -1 else object)
    assert rates.dtype == dtype
    expected = model.distortion_rates(queries)
    slack = 2 * length_slack(queries) if kernel is None else 2 * rate_slack(model, queries)
    assert np.all(np.abs(rates - expected) <= slack)
    # A softmax changes by no more than twice what its arguments do.
    assert np.all(np.abs(probabilities - model.predict_proba(queries)) <= 2 * np.max(slack) + EPS)
    sure = well_apart(model, expected, slack)
    assert sure.mean() > 0.95
    assert np.array_equal(label[sure], model.predict(queries)[sure])
    assert reject == (none in label.tolist())


@pytest.mark.parametrize("labels", [NUMBERS.astype(float), NUMBERS > 4])
def test_labels_that_are_neither_whole_numbers_nor_strings_raise(labels):
    model = ICPQRClassifier("20%").fit(DIGITS[:300], labels[:300])
    with pytest.raises(ValueError, match=r"got labels such as .* allowed are strings or whole"):
        to_onnx(model)


def test_training_rows_of_a_rejecting_classifier_are_known():
    for kernel in (None, "rbf"):
        model = ICPQRClassifier("20%", kernel=kernel, reject=True).fit(DIGITS[:500], NUMBERS[:500])
        assert -1 not in answers(model, DIGITS[:500])[0].tolist()


# -- what the file says and what has no graph ---------------------------------------------


def test_file_names_its_producer_its_certificate_and_its_features():
    pandas = pytest.importorskip("pandas")
    names = list("abcdefg")
    model = ICPQR("30%").fit(pandas.DataFrame(X, columns=names))
    proto = to_onnx(model)
    assert (proto.producer_name, proto.producer_version) == ("isopivot", isopivot.__version__)
    assert [(entry.domain, entry.version) for entry in proto.opset_import] == [("", 18)]
    told = {entry.key: entry.value for entry in proto.metadata_props}
    assert told["model"] == "ICPQR"
    assert float(told["mu"]) == model.mu_
    assert float(told["threshold"]) == model.threshold_
    assert float(told["distortion_bound"]) == model.certificate_.distortion_bound
    assert json.loads(told["certificate"]) == model.certificate_.to_dict()
    assert json.loads(told["feature_names"]) == names


def test_classifier_file_has_one_certificate_per_class():
    model = ICPQRClassifier("20%").fit(DIGITS[:300], WORDS[NUMBERS[:300]])
    told = {entry.key: entry.value for entry in to_onnx(model).metadata_props}
    assert json.loads(told["classes"]) == model.classes_.tolist()
    assert json.loads(told["threshold"]) == [e.threshold_ for e in model.estimators_]
    assert len(json.loads(told["certificate"])) == 10


def test_inputs_and_outputs_have_their_names_and_a_free_number_of_rows():
    graph = session(ICPQR("30%").fit(X.astype(np.float32)))
    (entry,) = graph.get_inputs()
    assert (entry.name, entry.type, entry.shape) == ("X", "tensor(float)", ["n", 7])
    assert [out.name for out in graph.get_outputs()] == ["embedding", "distortion_rate", "label"]
    assert [len(values) for values in graph.run(None, {"X": np.zeros((0, 7), "f4")})] == [0, 0, 0]


@pytest.mark.parametrize(
    "kernel",
    ["exponential", "matern32", "cosine", "polynomial", "precomputed", lambda A, B: A @ B.T],
)
def test_other_kernels_raise(kernel):
    model = KernelICPQR("30%", kernel=kernel).fit(X @ X.T if kernel == "precomputed" else X)
    with pytest.raises(ValueError, match=r"got kernel=.* allowed are rbf, linear, laplacian; fit"):
        to_onnx(model)


def test_other_models_raise():
    with pytest.raises(ValueError, match="got a DiffusionICPQR; allowed are ICPQR, KernelICPQR"):
        to_onnx(DiffusionICPQR().fit(X))
    with pytest.raises(ValueError, match=r"got a TableModel; .* pass model\.estimator"):
        to_onnx(TableModel(None, ICPQR().fit(X)))


def test_unfitted_models_raise():
    with pytest.raises(NotFittedError, match="not fitted"):
        to_onnx(ICPQR())


def test_dictionaries_too_large_for_a_file_raise(monkeypatch):
    model = ICPQR(0).fit(X)
    monkeypatch.setattr("isopivot.onnx.LARGEST_BYTES", 8 * 7 * (7 + 7) - 1)
    with pytest.raises(ValueError, match=r"got dictionaries that take .* keep fewer members"):
        to_onnx(model)


def test_missing_package_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match=r"pip install onnx"):
        to_onnx(ICPQR().fit(X))


# -- real data ----------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "model", [ICPQR(20.0), KernelICPQR(0.3), KernelICPQR("20%", kernel="linear")]
)
def test_digit_images(model, dtype):
    train, test = DIGITS[:700].astype(dtype), DIGITS[700:1100].astype(dtype)
    model.fit(train)
    assert (assert_same(model, train) == 1).all()
    assert_same(model, test)


@pytest.mark.data
@needs_data
@pytest.mark.parametrize("dtype", DTYPES)
def test_spoken_letters(dtype):
    from isopivot.datasets import load_isolet

    letters = load_isolet()
    train, test = letters.X_train[:1500].astype(dtype), letters.X_test[:300].astype(dtype)
    for model in (ICPQR("30%").fit(train), KernelICPQR(0.5, kernel="laplacian").fit(train[:600])):
        assert_same(model, test)
    assert (session(ICPQR("30%").fit(train)).run(["label"], {"X": train})[0] == 1).all()
    classifier = ICPQRClassifier("30%", reject=True, reject_label="?")
    classifier.fit(train, letters.y_train[:1500])
    label = answers(classifier, test)[0]
    sure = well_apart(classifier, classifier.distortion_rates(test), 2 * length_slack(test))
    assert sure.mean() > 0.95
    assert np.array_equal(label[sure], classifier.predict(test)[sure])


@pytest.mark.data
@needs_data
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("model", [ICPQR("0.1%"), ICPQR(0), KernelICPQR(0.1), KernelICPQR(0)])
def test_network_traffic_with_byte_counts_up_to_a_billion(model, dtype):
    from isopivot.datasets import load_kdd99

    rows = load_kdd99().X_train10[::400].astype(dtype)
    model.fit(rows)
    assert (assert_same(model, rows) == 1).all()
    assert_same(model, rows[:1])
