"""Many rows at once, multiplied where they lie, give what few rows give."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from isopivot import ICPQR, KernelICPQR, _native, icpqr

N, M, S = 6000, 40, 15


@pytest.fixture
def rng():
    return np.random.default_rng(1)


@pytest.fixture(params=[np.float64, np.float32], ids=["double", "single"])
def dtype(request):
    return request.param


def fitted(rng, dtype, center=True):
    X = (rng.standard_normal((400, M)) + 2.0).astype(dtype)
    return X, ICPQR(mu=None, n_components=S, center=center).fit(X)


def one_by_one(method, X, size=50):
    return np.concatenate([method(X[lo : lo + size]) for lo in range(0, len(X), size)])


def rounding(model, X, scale=1.0):
    """Floor of each row: relative to its norm and that of the mean."""
    offset = 0.0 if model.mean_ is None else np.linalg.norm(model.mean_.astype(float) / scale)
    size = np.linalg.norm(X.astype(float) / scale, axis=1) + offset
    return model._relative_floor(S) * size * scale


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("scale", [1.0, 1e-12, 1e12])
def test_coordinates_and_rates(rng, dtype, center, scale):
    _, model = fitted(rng, dtype, center)
    X = ((rng.standard_normal((N, M)) + 2.0) * scale).astype(dtype)
    X[::7] = model.inverse_transform(model.transform(X[::7]))  # rows within the span
    X[::11] = model.dictionary_[0]
    room = rounding(model, X)
    assert model._extension.in_place(X) == _native.available(X)
    apart = np.abs(model.transform(X) - one_by_one(model.transform, X)).max(axis=1)
    assert (apart <= 2 * room).all()
    rates = model.distortion_rate(X)
    assert rates.dtype == dtype
    assert (np.abs(rates - one_by_one(model.distortion_rate, X)) <= 2 * room).all()
    assert (rates[::11] <= room[::11]).all()


@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1e160, 1e300])
def test_any_finite_scale(rng, scale):
    X = rng.standard_normal((N, M)) * scale
    model = ICPQR(mu=None, n_components=S).fit(X[:300])
    room = rounding(model, X, scale)
    rates = model.distortion_rate(X)
    assert (np.abs(rates - one_by_one(model.distortion_rate, X)) <= 2 * room).all()
    apart = np.abs(model.transform(X) - one_by_one(model.transform, X)).max(axis=1)
    assert (apart <= 2 * room).all()


def test_training_rows_are_normal_in_any_company(rng, dtype):
    X = (rng.standard_normal((N, M)) / np.arange(1, M + 1)).astype(dtype)
    model = ICPQR(mu="20%").fit(X)
    assert (model.predict(X) == 1).all()
    assert (one_by_one(model.predict, X[:500], size=1) == 1).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("fit", [icpqr, ICPQR().fit, KernelICPQR().fit])
def test_what_is_not_finite_is_refused(rng, bad, fit):
    X = rng.standard_normal((N, M))
    X[N - 3, 5] = bad
    options = {"mu": 1.0} if fit is icpqr else {}
    with pytest.raises(ValueError, match=r"contains (NaN|infinity)[\s\S]*Remedy"):
        fit(X, **options)


@pytest.mark.parametrize("method", ["transform", "distortion_rate", "predict"])
def test_new_rows_that_are_not_finite_are_refused(rng, method):
    _, model = fitted(rng, np.float64)
    X = rng.standard_normal((N, M))
    X[17, 3] = np.nan
    with pytest.raises(ValueError, match=r"ICPQR does not accept missing[\s\S]*Remedy: impute"):
        getattr(model, method)(X)
    for infinity in (np.inf, -np.inf):
        X[17, 3] = infinity
        with pytest.raises(ValueError, match=r"contains infinity[\s\S]*Remedy"):
            getattr(model, method)(X)


def test_a_result_in_the_order_of_rows(rng):
    _, model = fitted(rng, np.float64)
    X = rng.standard_normal((N, M))
    assert model.transform(X).flags.c_contiguous
    assert_allclose(model.transform(X[::-1])[::-1], model.transform(X), atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("fit", [lambda X: icpqr(X, "5%"), lambda X: ICPQR().fit(X)])
def test_numbers_that_are_not_are_found_in_the_first_reading(dtype, bad, fit):
    X = np.random.default_rng(0).standard_normal((2000, 50)).astype(dtype)
    X[1234, 17] = bad
    with pytest.raises(ValueError, match=r"(?s)Input X contains (NaN|infinity).*Remedy"):
        fit(X)


def test_numbers_whose_squares_overflow_are_no_infinities():
    X = np.random.default_rng(0).standard_normal((2000, 50)) * 1e200
    assert np.isfinite(icpqr(X, n_components=3).certificate.distortion_bound)
