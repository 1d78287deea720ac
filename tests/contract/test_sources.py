"""Every source passes one suite: the same dictionary, the same residuals, no copy of X."""

import tracemalloc

import array_api_strict
import numpy as np
import pytest
from scipy import sparse

from isopivot import ICPQR, icpqr

EPS = np.finfo(float).eps


def as_torch(X, tmp_path):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    return torch.from_numpy(X.copy())


def as_memmap(X, tmp_path):
    np.save(tmp_path / "X.npy", X)
    return np.load(tmp_path / "X.npy", mmap_mode="r")


def as_read_only(X, tmp_path):
    X = X.copy()
    X.flags.writeable = False
    return X


SOURCES = {
    "C order": lambda X, _: X.copy(),
    "Fortran order": lambda X, _: np.asfortranarray(X),
    "every other row": lambda X, _: np.repeat(X, 2, axis=0)[::2],
    "read-only": as_read_only,
    "memory-mapped": as_memmap,
    "list of lists": lambda X, _: X.tolist(),
    "csr_array": lambda X, _: sparse.csr_array(X),
    "csc_matrix": lambda X, _: sparse.csc_matrix(X),
    "array-api-strict": lambda X, _: array_api_strict.asarray(X),
    "torch": as_torch,
}


def points(dtype=np.float64):
    rng = np.random.default_rng(11)
    X = rng.standard_normal((700, 30)) * np.geomspace(1, 1e-2, 30)
    X[rng.random(X.shape) < 0.3] = 0.0
    return X.astype(dtype)


def numpy_of(values):
    return np.asarray(values) if not hasattr(values, "__dlpack__") else np.from_dlpack(values)


@pytest.mark.parametrize("center", [False, True], ids=["origin", "centred"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("source", SOURCES)
def test_every_source_gives_the_same_factorization(source, dtype, center, tmp_path):
    X = points(dtype)
    expected = icpqr(X, "5%", center=center)
    given = SOURCES[source](X, tmp_path)
    result = icpqr(given, "5%", center=center)
    floor = expected.certificate.accuracy_floor + result.certificate.accuracy_floor
    np.testing.assert_array_equal(numpy_of(result.pivots), expected.pivots)
    np.testing.assert_allclose(numpy_of(result.residuals), expected.residuals, atol=floor)
    np.testing.assert_allclose(numpy_of(result.coordinates), expected.coordinates, atol=2 * floor)
    assert result.certificate.stopped_by == "mu"
    if source in ("array-api-strict", "torch"):
        assert type(result.coordinates) is type(given)
        assert result.coordinates.dtype == given.dtype
        assert type(result.residuals) is type(given)


def test_integers_become_float64():
    X = np.arange(60).reshape(20, 3) % 7
    for given in (X, X.astype(np.int16), array_api_strict.asarray(X)):
        result = icpqr(given, "10%")
        assert result.certificate.dtype == "float64"
        np.testing.assert_array_equal(numpy_of(result.pivots), icpqr(X.astype(float), "10%").pivots)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("center", [False, True], ids=["origin", "centred"])
def test_no_copy_of_dense_data(order, center):
    X = np.asarray(np.random.default_rng(0).standard_normal((20_000, 200)), order=order)
    s = 10
    tracemalloc.start()
    try:
        model = ICPQR(None, s, center=center).fit(X)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    kept = sum(
        a.nbytes for a in (model.embedding_, model.components_, model.residuals_, model.dictionary_)
    )
    # What is left is panels, one block of rows and a few vectors of n numbers.
    assert peak - kept < 0.5 * X.nbytes


@pytest.mark.parametrize("center", [False, True], ids=["origin", "centred"])
@pytest.mark.parametrize("shape", [(4000, 3000), (1500, 6000)], ids=["basis", "inner products"])
def test_sparse_data_is_never_densified(shape, center):
    X = sparse.random(*shape, density=0.002, format="csr", random_state=1)
    tracemalloc.start()
    try:
        result = icpqr(X, n_components=20, center=center)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert result.certificate.n_components == 20
    assert peak < 0.25 * 8 * shape[0] * shape[1]


def test_the_input_is_left_alone():
    X = points()
    before = X.copy()
    S = sparse.csr_array(X)
    icpqr(X, "1%", center=True)
    icpqr(S, "1%", center=True)
    np.testing.assert_array_equal(X, before)
    np.testing.assert_array_equal(S.toarray(), before)


@pytest.mark.parametrize("scale", [5e-324, 1e-300, 1e-155, 1e153, 1e300])
@pytest.mark.parametrize("sparsity", [False, True], ids=["dense", "sparse"])
def test_any_finite_scale_gives_the_same_dictionary(scale, sparsity):
    X = np.round(points() * 1000)
    given = X * scale
    if scale == 5e-324:
        assert given.max() > 0  # multiples of the smallest subnormal number
    model = ICPQR("5%").fit(sparse.csr_array(given) if sparsity else given)
    plain = ICPQR("5%").fit(X)
    np.testing.assert_array_equal(model.dictionary_indices_, plain.dictionary_indices_)
    np.testing.assert_allclose(
        model.mu_strict_ / scale,
        plain.mu_strict_,
        atol=2 * plain.certificate_.accuracy_floor + 60
        if scale == 5e-324
        else 2 * plain.certificate_.accuracy_floor,
    )
    rates = model.distortion_rate(given)
    assert np.isfinite(rates).all()
    assert (model.predict(given) == 1).all()


def test_extreme_sparse_wide_scale():
    X = sparse.random(30, 200, density=0.1, format="csr", random_state=0)
    plain = ICPQR("20%").fit(X)
    for scale in (1e-200, 1e200):
        model = ICPQR("20%").fit(X * scale)
        np.testing.assert_array_equal(model.dictionary_indices_, plain.dictionary_indices_)
        np.testing.assert_allclose(
            model.distortion_rate(X * scale) / scale,
            plain.distortion_rate(X),
            atol=2 * plain.certificate_.accuracy_floor,
        )
        assert (model.predict(X * scale) == 1).all()
