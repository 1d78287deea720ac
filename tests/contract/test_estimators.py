"""Every estimator passes one suite: scikit-learn's own checks and everyday use."""

import pickle
import warnings

import numpy as np
import pytest
import sklearn
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from isopivot import ICPQR, ICPQRClassifier, KernelICPQR
from isopivot._compat import HAS_CALLBACKS

ESTIMATORS = [
    ICPQR(),
    ICPQR(mu=0.5, center=False),
    ICPQR(mu=None, n_components=1, rotate=True),
    ICPQR(threshold="strict", relaxation=0.5),
    KernelICPQR(),
    KernelICPQR(0.3, kernel="exponential", rotate=True),
    KernelICPQR("5%", kernel="polynomial"),
    ICPQRClassifier(),
    ICPQRClassifier(0.2, kernel="rbf", epsilon_scale=[0.5, 1.0]),
    ICPQRClassifier(kernel="matern32", threshold="strict", n_jobs=2),
]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
def test_scikit_learn_checks_pass_in_full(estimator):
    with warnings.catch_warnings():
        # Skipped are only the array namespaces that are not installed; see below for ours.
        warnings.filterwarnings("ignore", category=sklearn.exceptions.SkipTestWarning)
        results = check_estimator(estimator, on_skip=None, on_fail=None)
    failed = [(r["check_name"], r["exception"]) for r in results if r["status"] == "failed"]
    skipped = {r["check_name"] for r in results if r["status"] == "skipped"}
    assert not failed
    assert all("array_api" in name for name in skipped)
    assert not any(r["status"] == "xfail" for r in results)


def test_scikit_learn_checks_of_a_precomputed_kernel():
    """All but those that score rows without k(x, x), which a varying diagonal needs."""
    reason = "rows of a precomputed kernel with varying diagonal cannot be scored alone"
    excused = dict.fromkeys(
        [
            "check_fit_score_takes_y",
            "check_positive_only_tag_during_fit",
            "check_dtype_object",
            "check_estimators_dtypes",
            "check_f_contiguous_array_estimator",
            "check_methods_sample_order_invariance",
            "check_methods_subset_invariance",
            "check_dict_unchanged",
            "check_fit_idempotent",
        ],
        reason,
    )
    results = check_estimator(
        KernelICPQR("5%", kernel="precomputed"),
        on_skip=None,
        on_fail=None,
        expected_failed_checks=excused,
    )
    failed = {r["check_name"]: str(r["exception"]) for r in results if r["status"] == "failed"}
    assert not failed
    xfailed = [r for r in results if r["status"] == "xfail"]
    assert all("no diagonal" in str(r["exception"]) or "positive" in r["check_name"]
               for r in xfailed)  # fmt: skip


def test_works_in_a_pipeline_and_a_grid_search():
    X, y = load_iris(return_X_y=True)
    pipeline = make_pipeline(StandardScaler(), ICPQR(), LogisticRegression(max_iter=500))
    search = GridSearchCV(pipeline, {"icpqr__mu": ["1%", "50%"]}, cv=3, scoring="accuracy")
    search.fit(X, y)
    assert search.best_score_ > 0.9
    assert search.best_estimator_[:-1].transform(X).shape[1] <= 4
    assert search.best_estimator_[:-1].get_feature_names_out()[0] == "icpqr0"


def test_clone_and_pickle_keep_parameters_and_predictions():
    X = load_digits().data[:300]
    model = ICPQR("30%", rotate=True, threshold="strict").fit(X)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.transform(X), model.transform(X))
    np.testing.assert_array_equal(copy.distortion_rate(X), model.distortion_rate(X))
    assert copy.certificate_ == model.certificate_
    assert clone(model).get_params() == model.get_params()
    assert not hasattr(clone(model), "embedding_")


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_set_output_gives_named_columns(library):
    pytest.importorskip(library)
    X = load_iris(as_frame=True).data
    model = ICPQR("20%").set_output(transform=library)
    frame = model.fit_transform(X)
    assert list(frame.columns) == list(model.get_feature_names_out())
    assert frame.shape == (150, model.n_components_)
    np.testing.assert_array_equal(np.asarray(frame), model.embedding_)
    np.testing.assert_allclose(
        np.asarray(model.transform(X)), model.embedding_, atol=model.certificate_.accuracy_floor
    )
    lower, upper = model.distance_bounds(X[:5])
    assert isinstance(lower, np.ndarray)
    assert (lower <= upper).all()


def test_dtypes_are_preserved():
    X = load_iris().data
    for dtype in (np.float32, np.float64):
        model = ICPQR("20%").fit(X.astype(dtype))
        assert model.embedding_.dtype == model.components_.dtype == dtype
        assert model.transform(X.astype(dtype)).dtype == dtype
        assert model.certificate_.dtype == np.dtype(dtype).name


@pytest.mark.parametrize("name", ["array_api_strict", "torch"])
def test_array_api_dispatch_keeps_the_namespace(name, monkeypatch):
    xp = pytest.importorskip(name)
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    X = load_digits().data[:400]
    plain = ICPQR("30%", rotate=True).fit(X)
    given = xp.asarray(X)
    with sklearn.config_context(array_api_dispatch=True):
        model = ICPQR("30%", rotate=True).fit(given)
        results = {
            "transform": model.transform(given),
            "distortion_rate": model.distortion_rate(given),
            "decision_function": model.decision_function(given),
            "predict": model.predict(given),
            "inverse_transform": model.inverse_transform(model.transform(given)),
        }
        shorter = model.truncate(n_components=5)
        assert shorter.transform(given).shape == (400, 5)
        assert model.explain(given).contributions.shape == X.shape
    atol = 4 * plain.certificate_.accuracy_floor
    for method, value in results.items():
        assert type(value) is type(given), method
        expected = plain.transform(X) if method == "inverse_transform" else X
        expected = getattr(plain, method)(expected)
        # Principal axes are as accurate as the gaps between variances; distances are not
        # touched by that.
        if method != "transform":
            np.testing.assert_allclose(np.asarray(value), expected, atol=10 * atol)
    assert model.n_components_ == plain.n_components_


def test_without_dispatch_other_arrays_become_numpy():
    array_api_strict = pytest.importorskip("array_api_strict")
    X = load_iris().data
    assert type(ICPQR().fit(np.asarray(X)).embedding_) is np.ndarray
    torch = pytest.importorskip("torch", reason="torch is not installed")
    assert type(ICPQR().fit(torch.asarray(X)).embedding_) is np.ndarray
    assert array_api_strict is not None


@pytest.mark.skipif(not HAS_CALLBACKS, reason="this scikit-learn has no callbacks")
def test_progress_through_scikit_learn_callbacks():
    class Count:
        def __init__(self):
            self.events = []

        def setup(self, estimator, context):
            self.events.append("setup")

        def on_fit_task_begin(self, estimator, context):
            self.events.append(f"begin {context.task_name}")

        def on_fit_task_end(self, estimator, context):
            self.events.append(f"end {context.task_name}")

        def teardown(self, estimator, context):
            self.events.append("teardown")

    callback = Count()
    model = ICPQR("1%").set_callbacks(callback)
    model.fit(load_digits().data)
    assert callback.events[:2] == ["setup", "begin fit"]
    assert callback.events[-2:] == ["end fit", "teardown"]
    assert callback.events.count("end panel") == callback.events.count("begin panel") >= 1


def test_sparse_and_dense_input_give_the_same_answers():
    X = load_digits().data
    dense, thin = ICPQR("40%").fit(X), ICPQR("40%").fit(sparse.csr_array(X))
    floor = dense.certificate_.accuracy_floor + thin.certificate_.accuracy_floor
    np.testing.assert_array_equal(dense.dictionary_indices_, thin.dictionary_indices_)
    np.testing.assert_allclose(dense.distortion_rate(X), thin.distortion_rate(X), atol=floor)
    np.testing.assert_allclose(thin.transform(sparse.csr_array(X)), thin.embedding_, atol=2 * floor)
    assert sparse.issparse(thin.dictionary_)


def test_wide_sparse_models_have_every_method():
    X = sparse.random(50, 300, density=0.1, format="csr", random_state=3)
    model = ICPQR("30%", rotate=True).fit(X)
    floor = model.certificate_.accuracy_floor
    assert model.certificate_.route == "cholesky"
    np.testing.assert_allclose(model.transform(X), model.embedding_, atol=floor)
    np.testing.assert_allclose(model.transform(X.toarray()), model.embedding_, atol=floor)
    np.testing.assert_allclose(model.distortion_rate(X), model.residuals_, atol=floor)
    basis = model.components_
    np.testing.assert_allclose(basis @ basis.T, np.eye(len(basis)), atol=1e-9)
    back = model.inverse_transform(model.embedding_)
    np.testing.assert_allclose(
        np.linalg.norm(X.toarray() - back, axis=1), model.residuals_, atol=2 * floor
    )
    explanation = model.explain(X[:4])
    np.testing.assert_allclose(
        np.linalg.norm(explanation.contributions, axis=1), explanation.rates, atol=2 * floor
    )
    shorter = model.truncate(n_components=3)
    assert shorter.transform(X).shape == (50, 3)
    assert (model.predict(X) == 1).all()
