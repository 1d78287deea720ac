"""Cases that once broke a promise, kept so that they never do again."""

import numpy as np
import pytest
import sklearn
from scipy import sparse

from isopivot import (
    ICPQR,
    AccuracyError,
    DiffusionICPQR,
    ICPQRClassifier,
    KernelICPQR,
    actual_distortion,
    icpqr,
)
from reference import distances, max_distortion

N = np.random.default_rng(0).standard_normal((50, 6))


def few_values(seed, n, m):
    return np.random.default_rng(seed).integers(-1, 2, (n, m)).astype(float)


def halves(seed, n, m):
    X = np.ones((3, m))
    X[1, : m // 2] = 3.0
    X[2, 0] = 7.0
    return X


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("m", [40, 300, 1000, 4000, 100_000])
@pytest.mark.parametrize("data", [few_values, halves])
def test_wide_rows_of_few_values_whose_roundings_do_not_cancel(data, m, dtype):
    for seed in range(3):
        X = data(seed, 4, m).astype(dtype)
        model = ICPQR(0.0, center=False, threshold="strict").fit(X)
        assert max_distortion(X, model.embedding_) <= model.certificate_.distortion_bound
        assert (model.predict(X) == 1).all()
        lower, upper = model.distance_bounds(X)
        true = distances(X)
        assert ((lower <= true) & (true <= upper)).all()


@pytest.mark.parametrize("kernel", ["rbf", "exponential", "laplacian", "matern32"])
def test_kernel_fitted_on_dense_rows_and_asked_with_sparse_ones(kernel):
    X = N + 5
    model = KernelICPQR(0.05, kernel=kernel).fit(X)
    np.testing.assert_allclose(
        model.distortion_rate(sparse.csr_matrix(X)), model.distortion_rate(X), atol=1e-12
    )
    assert (model.predict(sparse.csr_matrix(X)) == 1).all()


def test_sparse_wide_float32_far_from_the_origin():
    X = (np.random.default_rng(0).standard_normal((15, 300)) + 1e6).astype(np.float32)
    model = ICPQR(0.0).fit(sparse.csr_matrix(X))
    assert max_distortion(X, model.embedding_) <= model.certificate_.distortion_bound
    assert (model.predict(sparse.csr_matrix(X)) == 1).all()


def test_float32_from_inner_products_keeps_training_rows_normal():
    wide = sparse.random(35, 300, 0.3, format="csr", random_state=0, dtype=np.float32)
    model = ICPQR(".1%", threshold="strict").fit(wide)
    assert (model.predict(wide) == 1).all()
    X = np.random.default_rng(0).standard_normal((51, 5)).astype(np.float32)
    for kernel in ("rbf", "linear", "laplacian", "exponential", "matern32", "cosine"):
        for mu in (0.0, "1%"):
            model = KernelICPQR(mu, kernel=kernel, threshold="strict").fit(X)
            assert (model.predict(X) == 1).all(), (kernel, mu)
            shorter = model.truncate(n_components=2)
            assert (shorter.predict(X) == 1).all(), (kernel, mu)


def test_intervals_for_new_points_far_out_with_a_linear_kernel():
    for seed in range(20):
        rng = np.random.default_rng(seed)
        Z = rng.standard_normal((8, 2)) + 10.0 ** rng.uniform(1, 6)
        far = Z + 30 * np.abs(Z).max() * rng.standard_normal(Z.shape)
        lower, upper = KernelICPQR(0.0, kernel="linear").fit(Z).distance_bounds(Z, far)
        true = distances(Z, far)
        assert ((lower <= true) & (true <= upper)).all()


@pytest.mark.parametrize("scale", [1e-200, 1e-160, 1e160, 1e200])
def test_cosine_and_linear_kernels_at_any_scale(scale):
    for kernel in ("cosine", "linear"):
        plain = KernelICPQR("5%", kernel=kernel).fit(N + 5)
        model = KernelICPQR("5%", kernel=kernel).fit((N + 5) * scale)
        np.testing.assert_array_equal(model.dictionary_indices_, plain.dictionary_indices_)
        unit = scale if kernel == "linear" else 1.0
        np.testing.assert_allclose(
            model.distortion_rate((N + 5) * scale) / unit,
            plain.distortion_rate(N + 5),
            atol=2 * plain.certificate_.accuracy_floor,
        )
        assert (model.truncate(n_components=1).predict((N + 5) * scale) == 1).all()


def test_what_a_callable_returns_is_its_own():
    store = {}

    def remembering(A, B):
        key = (A.tobytes(), B.tobytes())
        if key not in store:
            store[key] = np.exp(-((A[:, None] - B[None, :]) ** 2).sum(-1))
        return store[key]

    first = KernelICPQR(0.1, kernel=remembering).fit(N)
    second = KernelICPQR(0.1, kernel=remembering).fit(N)
    np.testing.assert_array_equal(first.embedding_, second.embedding_)
    constant = KernelICPQR(0.1, kernel=lambda A, B: np.broadcast_to(1.0, (len(A), len(B)))).fit(N)
    assert constant.n_components_ == 1


def test_precomputed_kernel_with_varying_diagonal_in_daily_use():
    K = N @ N.T
    model = KernelICPQR("1%", kernel="precomputed")
    assert (model.fit_predict(K) == 1).all()
    model.calibrate(K, 0.1, diagonal=K.diagonal())
    assert model.calibration_.n_samples == 50
    refitted = KernelICPQR(0.1).fit(N).set_params(kernel="precomputed", mu="1%").fit(K)
    assert not hasattr(refitted, "dictionary_")


def test_actual_distortion_with_residuals_sees_what_rounding_did():
    X = np.full((38, 40), 1234567.1, np.float32)
    result = icpqr(X, 0.0)
    exact = actual_distortion(X, result.coordinates)
    assert actual_distortion(X, result.coordinates, result.residuals) == exact
    close = np.array([[0.0], [1e-7], [1e10]])
    assert actual_distortion(close, np.array([[0.0], [0.0], [1e10]])) == 1e-7


@pytest.mark.parametrize(("shift", "scale"), [(1e9, 1.0), (0.0, 1e200), (0.0, 1e-200)])
def test_nearest_members_far_from_the_origin_and_at_any_scale(shift, scale):
    X = (N + shift) * scale
    model = ICPQR("30%").fit(X)
    explanation = model.explain(X[:3])
    true = np.sort(distances(X[:3], model.dictionary_), axis=1)[:, :5].astype(float)
    np.testing.assert_allclose(explanation.neighbor_distances, true, rtol=1e-6)


def test_mu_beyond_every_norm_and_beyond_every_float():
    for estimator in (ICPQR(1e200), KernelICPQR(1e200)):
        assert estimator.fit(N).n_components_ == 0
    for mu in ("1e400%", 10**400):
        with pytest.raises(ValueError, match="allowed are a finite number"):
            ICPQR(mu).fit(N)
    with pytest.raises(ValueError, match="allowed are"):
        ICPQR(threshold=10**400).fit(N)
    with pytest.raises(ValueError, match="squared distances are floats; divide"):
        KernelICPQR("5%").fit(N * 1e200)
    with pytest.raises(ValueError, match="no correct digit"):
        KernelICPQR(epsilon=1e-320).fit(N)
    with pytest.raises(ValueError, match="divide the data by a constant"):
        icpqr(np.diag([1.5e308, -1.5e308, 1.5e308]), n_components=1)
    with pytest.raises(ValueError, match="divide the data by a constant"):
        actual_distortion(np.array([[1.7e308], [-1.7e308]]), np.zeros((2, 1)))


def test_truncated_kernel_keeps_training_rows_normal():
    Z = np.linspace(0, 1, 40)[:, None]
    model = KernelICPQR(0.0).fit(Z)
    for k in range(1, model.n_components_ + 1):
        assert (model.truncate(n_components=k).predict(Z) == 1).all()


def test_sparse_rows_of_very_different_columns_are_no_kernel():
    rng = np.random.default_rng(648)
    X = rng.standard_normal((6, 40)) * np.geomspace(1e-8, 1e8, 40)
    for dtype in (np.float32, np.float64):
        model = ICPQR(0.0).fit(sparse.csr_matrix(X.astype(dtype)))
        worst = max_distortion(X.astype(dtype), model.embedding_)
        assert worst <= model.certificate_.distortion_bound


def test_arrays_of_two_libraries_are_refused_clearly(monkeypatch):
    strict = pytest.importorskip("array_api_strict")
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    with sklearn.config_context(array_api_dispatch=True):
        model = ICPQR(relaxation=0.5).fit(strict.asarray(N))
        assert model.path_.shape[1] == 2
        with pytest.raises(TypeError, match="arrays of one library; convert X"):
            model.predict(N)
        kernel = KernelICPQR().fit(strict.asarray(N))
        assert type(kernel.embedding_) is np.ndarray


@pytest.mark.parametrize(
    "params", [{"gamma": 0}, {"degree": None}, {"coef0": None}, {"degree": 2 + 1j}], ids=repr
)
def test_polynomial_parameters_that_make_no_kernel(params):
    with pytest.raises(ValueError, match="integer degree >= 1, gamma > 0"):
        KernelICPQR(kernel="polynomial", kernel_params=params).fit(N)


def test_odd_arguments_are_refused_clearly():
    with pytest.raises(ValueError, match="got kernel=array"):
        KernelICPQR(kernel=np.eye(3)).fit(N)
    with pytest.raises(ValueError, match="residuals >= 0"):
        actual_distortion(N, N, [-1.0] * 50)
    with pytest.raises(ValueError, match="fill or drop"):
        ICPQR().fit(np.ma.masked_less(N, 0.0))
    with pytest.raises(AttributeError, match="call fit first"):
        ICPQR().components_
    assert actual_distortion(N, N, [0.0] * 50) == 0.0


def twice_the_last_vertex(n, offset, apart):
    """A simplex far from the origin, its last vertex twice, so far apart along an own axis."""
    X = np.zeros((n, n + 3))
    X[:, : n - 1] = (np.eye(n - 1) - 1 / (n - 1))[[*range(n - 1), n - 2]]
    X[-2:, -1] = apart / 2, -apart / 2
    return X + offset


@pytest.mark.parametrize("apart", [1e-5, 1.26e-3, 1e-2])
@pytest.mark.parametrize("n", [30, 60, 200])
def test_the_rounding_of_a_mean_that_all_inner_products_share(n, apart):
    X = twice_the_last_vertex(n, 9.9748894221029, apart)
    rows = sparse.csr_array(X)
    model = ICPQR(0.0).fit(rows)
    assert model.certificate_.route == "cholesky"
    assert max_distortion(X, model.embedding_) <= model.certificate_.distortion_bound
    lower, upper = model.distance_bounds(rows)
    true = distances(X)
    assert ((lower <= true) & (true <= upper)).all()
    assert (model.predict(rows) == 1).all()
    with pytest.raises(AccuracyError):
        ICPQR(model.certificate_.accuracy_floor / 10).fit(rows)
    dense = ICPQR(model.certificate_.accuracy_floor / 10).fit(X)  # a basis has digits to spare
    assert max_distortion(X, dense.embedding_) <= dense.certificate_.distortion_bound


def test_counts_keep_the_floor_that_they_had():
    X = sparse.random_array((400, 2000), density=0.02, rng=np.random.default_rng(0), format="csr")
    with_mean = ICPQR(None, 50).fit(X).certificate_.accuracy_floor
    without = ICPQR(None, 50, center=False).fit(X).certificate_.accuracy_floor
    assert without <= with_mean <= 3 * without


@pytest.mark.parametrize("estimator", [KernelICPQR, DiffusionICPQR])
def test_laplacian_kernel_leaves_the_order_of_sparse_entries_alone(estimator):
    X = np.random.default_rng(0).standard_normal((30, 4))
    parts = (X[:, ::-1].ravel().copy(), np.tile([3, 2, 1, 0], 30), np.arange(0, 121, 4))
    rows = sparse.csr_matrix(parts, shape=X.shape)
    model = estimator(0.1, kernel="laplacian").fit(rows)
    np.testing.assert_array_equal(rows.data, parts[0])
    np.testing.assert_array_equal(rows.indices, parts[1])
    # Inner products have half of the digits.
    close = np.sqrt(np.finfo(float).eps) * 4
    np.testing.assert_allclose(model.transform(rows), model.embedding_, atol=close)
    np.testing.assert_allclose(model.distortion_rate(X), model.distortion_rate(rows), atol=close)
    assert (model.predict(rows) == 1).all()


@pytest.mark.parametrize("seed", range(0, 400, 25))
def test_diffusion_intervals_allow_for_the_rounding_of_the_kernel(seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((30, 5))
    X[0] += 10.0 ** rng.uniform(0, 3)
    model = DiffusionICPQR("5%", method="dense").fit(X)
    Y = X.astype(np.longdouble)
    K = np.exp(-((Y[:, None] - Y[None]) ** 2).sum(axis=2) / np.longdouble(model.epsilon_))
    d = K.sum(axis=1)
    Z = np.sqrt(d.sum()) * K / d[:, None] / np.sqrt(d)
    true = np.sqrt(((Z[:, None] - Z[None]) ** 2).sum(axis=2))
    lower, upper = model.distance_bounds(X)
    assert ((lower <= true) & (true <= upper)).all()


@pytest.mark.parametrize("seed", range(8))
def test_truncated_float32_sparse_rows_stay_normal(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.choice([10, 30, 60]))
    X = rng.standard_normal((n, 120)).astype(np.float32)
    X = X[rng.integers(0, n // 3, n)] + np.float32(1e-6) * X
    rows = sparse.csr_array(X)
    model = ICPQR(0.0).fit(rows)
    for k in range(1, model.n_components_ + 1):
        assert (model.truncate(n_components=k).predict(rows) == 1).all()


@pytest.mark.parametrize("scale", [1e-320, 1e-310, 1e-160, 1.0, 1e160, 1e300])
def test_slopes_of_the_linear_kernel_do_not_depend_on_the_unit(scale):
    X = N * scale
    slopes = KernelICPQR("5%", kernel="linear").fit(X).explain(X).contributions
    assert np.isfinite(slopes).all()
    assert np.linalg.norm(slopes, axis=1).max() <= 1.0 + 1e-6  # a rate grows as fast as its point
    if scale > 1e-300:
        plain = KernelICPQR("5%", kernel="linear").fit(N).explain(N).contributions
        np.testing.assert_allclose(slopes, plain, atol=1e-6)


@pytest.mark.parametrize(("scale", "dtype"), [(1e-40, np.float32), (1e-320, np.float64)])
def test_intervals_of_the_smallest_numbers(scale, dtype):
    X = (N * scale).astype(dtype)
    wide = X.astype(np.longdouble)
    true = np.sqrt(((wide[:, None] - wide[None]) ** 2).sum(axis=2))
    lower, upper = ICPQR(None, 3).fit(X).distance_bounds(X)
    assert ((lower <= true) & (true <= upper)).all()


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("damage", ["index", "negative", "pointer", "order"])
def test_sparse_rows_that_point_outside_are_refused(damage, wide):
    shape = (20, 400) if wide else (400, 20)
    X = sparse.random_array(shape, density=0.5, rng=np.random.default_rng(0), format="csr")
    model = ICPQR().fit(X)
    if damage == "pointer":
        X.indptr[5] = 10**9
    elif damage == "order":
        X.indptr[5] = X.indptr[4] - 1
    else:
        X.indices[3] = 10**8 if damage == "index" else -(10**8)
    for read in (icpqr, ICPQR().fit, model.transform, KernelICPQR().fit):
        with pytest.raises(ValueError, match="got a sparse matrix whose indices or row pointers"):
            read(X, 1.0) if read is icpqr else read(X)


def test_what_is_no_number_is_refused():
    with pytest.raises(ValueError, match=r"got an array of datetime64\[D\]; allowed are numbers"):
        ICPQR().fit(np.array([["2026-01-01"], ["2026-01-02"]], dtype="datetime64[D]"))
    with pytest.raises(TypeError, match="got center='yes' of type str"):
        icpqr(N, 1.0, center="yes")
    for labels, kinds in ((["a", None] * 25, "NoneType, str"), (["a", 1] * 25, "int, str")):
        with pytest.raises(TypeError, match=f"got labels of the types {kinds}"):
            ICPQRClassifier().fit(N, np.array(labels, dtype=object))


def test_explaining_named_columns_warns_of_nothing():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(N, columns=list("abcdef"))
    DiffusionICPQR().fit(frame).explain(frame.iloc[:2])  # a warning is an error here
