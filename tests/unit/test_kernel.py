"""KernelICPQR: dictionary, extension and rates in feature space, without an n x n matrix."""

import tracemalloc

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.base import clone

from isopivot import ICPQR, KernelICPQR
from isopivot.kernels import NAMES, RADIAL
from strategies import point_sets

RNG = np.random.default_rng(0)
X = RNG.standard_normal((120, 5))
NEW = 1.5 * RNG.standard_normal((40, 5))
FORMULAS = {
    "rbf": lambda A, B, e: np.exp(-cdist(A, B, "sqeuclidean") / e),
    "exponential": lambda A, B, e: np.exp(-cdist(A, B) / np.sqrt(e)),
    "laplacian": lambda A, B, e: np.exp(-cdist(A, B, "cityblock") / np.sqrt(e)),
    "matern32": lambda A, B, e: (
        (1 + np.sqrt(3 / e) * cdist(A, B)) * np.exp(-np.sqrt(3 / e) * cdist(A, B))
    ),
    "cosine": lambda A, B, e: 1 - cdist(A, B, "cosine"),
    "polynomial": lambda A, B, e: (A @ B.T / 5 + 1) ** 3,
    "linear": lambda A, B, e: A @ B.T,
}
FUNCTIONS = [name for name in NAMES if name != "precomputed"]


def literal(K, mu, floor):
    """Pivoted Cholesky of a dense kernel matrix, one pivot at a time."""
    residual2, rows, L = K.diagonal().copy(), [], np.zeros((len(K), 0))
    while residual2.max() > max(mu, floor) ** 2:
        j = int(np.argmax(residual2 >= residual2.max() * (1 - 64 * np.finfo(float).eps)))
        column = (K[:, j] - L @ L[j]) / np.sqrt(residual2[j])
        L = np.column_stack([L, column])
        residual2 = np.maximum(residual2 - column**2, 0)
        rows.append(j)
        residual2[rows] = 0
    return np.array(rows), L, np.sqrt(residual2)


@pytest.mark.parametrize("kernel", FUNCTIONS)
def test_fit_equals_a_dense_pivoted_cholesky(kernel):
    model = KernelICPQR("20%", kernel=kernel).fit(X)
    K = FORMULAS[kernel](X, X, model.epsilon_ or 1.0)
    rows, L, residuals = literal(K, model.mu_, model.certificate_.accuracy_floor)
    np.testing.assert_array_equal(model.dictionary_indices_, rows)
    floor = model.certificate_.accuracy_floor
    np.testing.assert_allclose(model.embedding_, L, atol=10 * floor)
    np.testing.assert_allclose(model.residuals_, residuals, atol=floor)
    assert model.mu_strict_ <= model.mu_
    np.testing.assert_array_equal(model.dictionary_, X[rows])


@pytest.mark.parametrize("kernel", FUNCTIONS)
def test_new_points_are_projected_in_feature_space(kernel):
    model = KernelICPQR("20%", kernel=kernel).fit(X)
    e = model.epsilon_ or 1.0
    k = FORMULAS[kernel]
    D = model.dictionary_
    weights = np.linalg.solve(k(D, D, e), k(D, NEW, e))
    projected2 = np.einsum("ij,ij->j", weights, k(D, NEW, e))
    true2 = np.diagonal(k(NEW, NEW, e)) - projected2
    size = np.sqrt(np.diagonal(k(NEW, NEW, e)).max())
    atol = 1e-6 * size
    np.testing.assert_allclose(model.distortion_rate(NEW) ** 2, true2, atol=atol * size)
    F = model.transform(NEW)
    np.testing.assert_allclose((F**2).sum(axis=1), projected2, atol=atol * size)
    np.testing.assert_allclose(model.transform(X), model.embedding_, atol=atol)


@pytest.mark.parametrize("kernel", FUNCTIONS)
def test_promise_on_every_feature_space_distance(kernel):
    model = KernelICPQR("30%", kernel=kernel).fit(X)
    K = FORMULAS[kernel](X, X, model.epsilon_ or 1.0)
    k = K.diagonal()
    true = np.sqrt(np.maximum(k[:, None] + k[None, :] - 2 * K, 0))
    embedded = cdist(model.embedding_, model.embedding_)
    assert np.abs(true - embedded).max() <= model.certificate_.distortion_bound
    lower, upper = model.distance_bounds(X)
    assert (lower <= true + 1e-7 * np.sqrt(k.max())).all()
    assert (true <= upper + 1e-7 * np.sqrt(k.max())).all()


@pytest.mark.parametrize("threshold", ["mu", "strict"])
@pytest.mark.parametrize("kernel", FUNCTIONS)
@pytest.mark.parametrize("mu", ["50%", "10%", "0.1%"])
def test_training_rows_are_normal_in_a_batch_and_alone(kernel, mu, threshold):
    model = KernelICPQR(mu, kernel=kernel, threshold=threshold).fit(X)
    assert (model.predict(X) == 1).all()
    assert all(model.predict(X[i : i + 1])[0] == 1 for i in range(len(X)))


def test_linear_kernel_agrees_with_the_linear_estimator():
    kernel = KernelICPQR("10%", kernel="linear").fit(X)
    linear = ICPQR("10%", center=False).fit(X)
    np.testing.assert_array_equal(kernel.dictionary_indices_, linear.dictionary_indices_)
    np.testing.assert_allclose(
        kernel.residuals_, linear.residuals_, atol=kernel.certificate_.accuracy_floor
    )


def test_only_the_diagonal_panels_and_columns_are_evaluated():
    points = np.random.default_rng(1).standard_normal((6000, 3))
    model = KernelICPQR(None, 40).fit(points)
    evaluations = model.certificate_.kernel_evaluations
    assert 6000 * 41 <= evaluations < 6000 * 41 + 40 * 256**2 + 40 * 40 * 256
    calls = []

    def counted(A, B):
        calls.append(len(A) * len(B))
        return np.exp(-cdist(A, B, "sqeuclidean"))

    own = KernelICPQR(None, 10, kernel=counted).fit(points[:500])
    assert own.certificate_.kernel_evaluations == sum(calls)


def test_memory_grows_with_the_dictionary_only():
    points = np.random.default_rng(2).standard_normal((8000, 4))
    tracemalloc.start()
    try:
        model = KernelICPQR(None, 20).fit(points)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert model.n_components_ == 20
    assert peak < 0.15 * 8 * 8000**2  # an n x n matrix would be 512 MB


def test_median_epsilon():
    model = KernelICPQR().fit(X)
    pairs = cdist(X, X, "sqeuclidean")[np.triu_indices(len(X), 1)]
    assert model.epsilon_ == pytest.approx(0.5 * np.median(pairs), rel=1e-12)
    city = cdist(X, X, "cityblock")[np.triu_indices(len(X), 1)] ** 2
    laplacian = KernelICPQR(kernel="laplacian", epsilon_scale=2.0).fit(X)
    assert laplacian.epsilon_ == pytest.approx(2.0 * np.median(city), rel=1e-12)
    assert KernelICPQR(epsilon=3.0, epsilon_scale=9.0).fit(X).epsilon_ == 3.0
    assert KernelICPQR(kernel="cosine").fit(X).epsilon_ is None


def test_median_epsilon_of_duplicates():
    mostly = np.repeat(X[:3], [50, 1, 1], axis=0)
    pairs = cdist(mostly, mostly, "sqeuclidean")[np.triu_indices(52, 1)]
    assert KernelICPQR(epsilon_scale=1.0).fit(mostly).epsilon_ == pytest.approx(
        pairs[pairs > 0].mean()
    )
    same = KernelICPQR(epsilon_scale=1.0).fit(np.ones((9, 2)))
    assert same.epsilon_ == 1.0
    assert same.n_components_ == 1


@pytest.mark.parametrize("kernel", [name for name in FUNCTIONS if name != "laplacian"])
def test_gradient_of_the_rate_per_feature(kernel):
    # Three members do not span the five features, so that linear kernels leave a rate too.
    model = KernelICPQR(None, 3, kernel=kernel).fit(X)
    far = model.distortion_rate(NEW) > 0.3 * model.distortion_rate(NEW).max()
    points = NEW[far][:5]
    gradient = model.explain(points).contributions
    step = 1e-5
    for j in range(5):
        shift = step * np.eye(5)[j]
        slope = model.distortion_rate(points + shift) - model.distortion_rate(points - shift)
        np.testing.assert_allclose(
            gradient[:, j], slope / (2 * step), atol=1e-4 * np.abs(gradient).max()
        )


def test_explanation_names_members_nearest_in_feature_space():
    model = KernelICPQR("30%").fit(X)
    explanation = model.explain(NEW[:6], n_neighbors=4)
    k = FORMULAS["rbf"](NEW[:6], model.dictionary_, model.epsilon_)
    nearest = np.sort(np.sqrt(2 - 2 * k), axis=1)[:, :4]
    np.testing.assert_allclose(explanation.neighbor_distances, nearest, atol=1e-7)
    assert explanation.neighbors.shape == (6, 4)
    custom = KernelICPQR("30%", kernel=lambda A, B: np.exp(-cdist(A, B))).fit(X)
    assert custom.explain(NEW[:2]).contributions is None
    assert "residual_x0" not in custom.explain(NEW[:2]).to_frame().columns


@pytest.mark.parametrize("wanted", [{"mu": 0.5}, {"n_components": 7}])
@pytest.mark.parametrize("kernel", ["rbf", "polynomial"])
def test_truncation_equals_a_new_fit(kernel, wanted):
    model = KernelICPQR("5%", kernel=kernel).fit(X)
    if "mu" in wanted:
        wanted = {"mu": 0.5 * model.path_[0, 0]}
    shorter = model.truncate(**wanted)
    fresh = clone(shorter).fit(X)
    floor = fresh.certificate_.accuracy_floor
    np.testing.assert_array_equal(shorter.dictionary_indices_, fresh.dictionary_indices_)
    np.testing.assert_allclose(
        shorter.distortion_rate(NEW), fresh.distortion_rate(NEW), atol=2 * floor
    )
    assert shorter.epsilon_ == fresh.epsilon_
    assert shorter.certificate_.stopped_by == fresh.certificate_.stopped_by


@pytest.mark.parametrize("kernel", FUNCTIONS)
def test_sparse_input_gives_the_answers_of_dense_input(kernel):
    thin = sparse.random(80, 30, density=0.2, format="csr", random_state=0)
    dense = KernelICPQR("20%", kernel=kernel).fit(thin.toarray())
    model = KernelICPQR("20%", kernel=kernel).fit(thin)
    floor = dense.certificate_.accuracy_floor + model.certificate_.accuracy_floor
    np.testing.assert_array_equal(model.dictionary_indices_, dense.dictionary_indices_)
    np.testing.assert_allclose(
        model.distortion_rate(thin), dense.distortion_rate(thin.toarray()), atol=2 * floor
    )
    assert sparse.issparse(model.dictionary_)


def test_precomputed_matrix_gives_the_answers_of_its_kernel():
    model = KernelICPQR(0.2).fit(X)
    k = FORMULAS["rbf"]
    given = KernelICPQR(0.2, kernel="precomputed").fit(k(X, X, model.epsilon_))
    np.testing.assert_array_equal(given.dictionary_indices_, model.dictionary_indices_)
    against = k(NEW, X, model.epsilon_)
    np.testing.assert_allclose(
        given.distortion_rate(against), model.distortion_rate(NEW), atol=1e-6
    )
    np.testing.assert_allclose(given.transform(against), model.transform(NEW), atol=1e-6)
    assert given.predict(against).shape == (40,)
    assert not hasattr(given, "dictionary_")
    assert given.truncate(n_components=3).transform(against).shape == (40, 3)
    assert given.__sklearn_tags__().input_tags.pairwise


def test_precomputed_matrix_with_a_varying_diagonal_needs_it():
    linear = KernelICPQR("20%", kernel="precomputed").fit(X @ X.T)
    with pytest.raises(ValueError, match=r"got no diagonal; allowed .* pass diagonal=k\(x, x\)"):
        linear.predict(NEW @ X.T)
    diagonal = (NEW**2).sum(axis=1)
    own = KernelICPQR("20%", kernel="linear").fit(X)
    np.testing.assert_allclose(
        linear.distortion_rate(NEW @ X.T, diagonal), own.distortion_rate(NEW), atol=1e-6
    )
    np.testing.assert_array_equal(linear.predict(NEW @ X.T, diagonal), own.predict(NEW))
    for bad in (diagonal[:3], -diagonal, diagonal * np.nan):
        with pytest.raises(ValueError, match=r"got a diagonal of shape .*allowed are 40 finite"):
            linear.score_samples(NEW @ X.T, bad)
    with pytest.raises(ValueError, match=r"kernel='precomputed' only; leave it out"):
        own.decision_function(NEW, diagonal)


@pytest.mark.parametrize(
    ("K", "message"),
    [
        (np.ones((3, 4)), r"shape \(3, 4\); allowed is a square"),
        (np.array([[1.0, 0.5], [0.1, 1.0]]), r"not symmetric .*pass \(K \+ K.T\) / 2"),
        (np.array([[1.0, 2.0], [2.0, 1.0]]), r"not positive semi-definite: some \|k"),
        (np.array([[0.0, 1.0], [1.0, 0.0]]), r"not positive semi-definite: some \|k"),
        (
            np.array([[1.0, 0.9, -0.9], [0.9, 1.0, 0.9], [-0.9, 0.9, 1.0]]),
            r"not positive semi-definite: a squared residual",
        ),
        (np.diag([1.0, -1.0]), r"not positive semi-definite: its diagonal holds -1"),
    ],
    ids=["not square", "not symmetric", "too large", "zero diagonal", "indefinite", "negative"],
)
def test_matrices_that_are_no_kernels(K, message):
    with pytest.raises(ValueError, match=message):
        KernelICPQR(0.01, kernel="precomputed").fit(K)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda A, B: -cdist(A, B), r"not positive semi-definite"),
        (lambda A, B: np.full((len(A), len(B)), np.nan), r"NaN or infinity from the kernel"),
        (lambda A, B: np.ones(3), r"kernel matrix of shape \(3,\) .*allowed is \(1, 1\)"),
        (lambda A, B: np.abs(A @ B.T) + 1.0 * A[:, :1], r"not symmetric|semi-definite"),
        (lambda A, B: np.exp(-cdist(A, B)) + 0.9 * (cdist(A, B) > 1), r"semi-definite"),
    ],
    ids=["negative", "NaN", "shape", "asymmetric", "indefinite"],
)
def test_callables_that_are_no_kernels(function, message):
    with pytest.raises(ValueError, match=message):
        KernelICPQR(0.01, kernel=function).fit(X)


@pytest.mark.parametrize(
    ("parameters", "kind", "message"),
    [
        ({"kernel": "gauss"}, ValueError, r"got kernel='gauss'; allowed are rbf, .*callable"),
        ({"kernel": 3}, ValueError, r"got kernel=3; allowed"),
        ({"epsilon": "mean"}, ValueError, r"got epsilon='mean'; allowed are \"median\""),
        ({"epsilon": -1.0}, ValueError, r"got epsilon=-1.0; allowed"),
        ({"epsilon": np.inf}, ValueError, r"got epsilon=inf; allowed"),
        ({"epsilon": None}, TypeError, r"got epsilon=None of type NoneType; allowed"),
        ({"epsilon_scale": 0.0}, ValueError, r"got epsilon_scale=0.0; allowed"),
        ({"kernel_params": 3}, TypeError, r"got kernel_params=3 of type int; allowed is a dict"),
        ({"kernel_params": {"gamma": 1.0}}, ValueError, r"for kernel='rbf'; allowed are none"),
        (
            {"kernel": "polynomial", "kernel_params": {"degree": 2.5}},
            ValueError,
            r"allowed are an integer degree >= 1",
        ),
        ({"n_components": 121}, ValueError, r"got n_components=121; allowed is 1 to 120"),
        ({"mu": 1e-12}, ValueError, r"mu=1e-12 is below what float64 can certify here"),
    ],
    ids=repr,
)
def test_bad_parameters(parameters, kind, message):
    with pytest.raises(kind, match=message):
        KernelICPQR(**parameters).fit(X)


def test_wrong_shapes_at_predict():
    with pytest.raises(ValueError, match=r"X has 4 features, but(.|\n)*Remedy"):
        KernelICPQR().fit(X).predict(X[:, :4])
    given = KernelICPQR(kernel="precomputed").fit(FORMULAS["rbf"](X, X, 3.0))
    with pytest.raises(ValueError, match=r"X has 7 features, but(.|\n)*Remedy"):
        given.predict(np.ones((2, 7)))


@given(
    points=point_sets(min_rows=2, max_rows=25, max_features=6),
    kernel=st.sampled_from(["rbf", "exponential", "laplacian", "matern32"]),
    share=st.sampled_from([0.02, 0.1, 0.4, 0.9]),
)
def test_promise_on_any_point_set(points, kernel, share):
    """Duplicates, zero rows, constant data, any scale, float32."""
    model = KernelICPQR(share, kernel=kernel).fit(points)
    wide = points.astype(np.longdouble)
    scale = np.longdouble(max(np.abs(wide).max(), 1e-300))
    K = FORMULAS[kernel](
        (wide / scale).astype(float), (wide / scale).astype(float),
        float(np.longdouble(model.epsilon_) / scale**2),
    )  # fmt: skip
    true = np.sqrt(np.maximum(2 - 2 * K, 0))
    embedded = cdist(model.embedding_, model.embedding_)
    # The reference itself rounds distances near zero by the root of eps.
    assert np.abs(true - embedded).max() <= model.certificate_.distortion_bound + 1e-6
    assert (model.predict(points) == 1).all()
    assert np.isfinite(model.distortion_rate(3 * points)).all()


@pytest.mark.parametrize("kernel", RADIAL)
def test_far_points_have_the_largest_rate(kernel):
    model = KernelICPQR(kernel=kernel).fit(X)
    far = np.array([[1e3] * 5, [1e100] * 5, [1.7e308] * 5])
    np.testing.assert_allclose(model.distortion_rate(far), 1.0, atol=1e-12)
    assert (model.predict(far) == -1).all()


def test_float32_input_keeps_its_dtype():
    model = KernelICPQR().fit(X.astype(np.float32))
    assert model.embedding_.dtype == model.transform(X.astype(np.float32)).dtype == np.float32
    assert (model.predict(X.astype(np.float32)) == 1).all()
    assert model.certificate_.dtype == "float32"


def test_rotation_turns_new_points_too():
    turned = KernelICPQR("20%", rotate=True).fit(X)
    variances = turned.embedding_.var(axis=0)
    assert (np.diff(variances) <= 1e-9).all()
    np.testing.assert_allclose(turned.transform(X), turned.embedding_, atol=1e-6)
    assert scipy.linalg.norm(turned.embedding_.mean(axis=0)) > 0  # centred for the axes only
