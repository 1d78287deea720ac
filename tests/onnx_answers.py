"""Running ONNX graphs, and what their answers may differ by from those of Python."""

import numpy as np
import pytest

from isopivot import KernelICPQR
from isopivot.onnx import to_onnx
from tolerances import eps_of, length_slack

__all__ = ["EPS", "answers", "assert_same", "rate_slack", "session", "well_apart"]

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

EPS = np.finfo(np.float64).eps


def session(model):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    proto = model if isinstance(model, onnx.ModelProto) else to_onnx(model)
    return onnxruntime.InferenceSession(proto.SerializeToString(), options)


def answers(model, rows):
    return session(model).run(None, {"X": rows})


def kernel_errors(model, Z, F, rates):
    """What two evaluations of T f = k(x, P) may differ by: coordinates, squared rates.

    A kernel entry carries `_roundings` roundings, a substitution s more per entry of T; |T^-1|
    carries both into the coordinates. A squared rate below the noise counts as 0 or does not.
    """
    extension = model._extension
    T, unit = extension.T, np.ldexp(1.0, extension.exponent)
    K, k_xx = extension.values(Z, None)
    largest = np.sqrt(k_xx * (T**2).sum(axis=1).max(initial=0.0))[:, None]
    size = np.abs(F.astype(np.float64) / unit) @ np.abs(T).T
    moved = EPS * (model._roundings * largest + len(T) * size)
    dF = 2.0 * moved @ np.abs(np.linalg.inv(T)).T if len(T) else np.zeros_like(K)
    size2 = 2.0 * (np.abs(F / unit) * dF).sum(axis=1) + (dF**2).sum(axis=1)
    d2 = 2.0 * extension.noise2 * k_xx + size2
    if model._rotation is not None:
        dF = np.linalg.norm(dF, axis=1, keepdims=True)
    return unit * dF, unit**2 * d2


def assert_same(model, Z, graph=None):
    """Assert that a graph and Python agree on the rows Z up to rounding; return its labels."""
    F, rates, labels = (graph or session(model)).run(None, {"X": Z})
    expected_F, expected = model.transform(Z), model.distortion_rate(Z)
    assert F.shape == expected_F.shape
    assert F.dtype == rates.dtype == Z.dtype
    assert rates.shape == labels.shape == (len(Z),)
    assert labels.dtype == np.int64
    F, rates, expected_F, expected = (np.float64(v) for v in (F, rates, expected_F, expected))
    last = eps_of(Z)  # results are rounded to the type of the data
    if isinstance(model, KernelICPQR):
        dF, d2 = kernel_errors(model, Z, expected_F, expected)
        assert np.all(np.abs(F - expected_F) <= dF + 2 * last * np.abs(expected_F))
        allowed2 = d2 + 4 * last * expected**2
        assert np.all(np.abs(rates**2 - expected**2) <= allowed2)
        slack = np.sqrt(allowed2)
    else:
        slack = 2 * length_slack(model.dictionary_, Z, model.mean_[None] if model.center else Z)
        assert np.all(np.abs(F - expected_F) <= slack)
        assert np.all(np.abs(rates - expected) <= slack)
    decided = np.abs(expected - model.threshold_) > slack
    assert np.array_equal(labels[decided], model.predict(Z)[decided])
    return labels


def rate_slack(model, Z):
    parts = []
    for estimator in model.estimators_:
        F, rates = estimator.transform(Z), np.float64(estimator.distortion_rate(Z))
        d2 = kernel_errors(estimator, Z, F, rates)[1] + 4 * eps_of(Z) * rates**2
        parts.append(np.minimum(np.sqrt(d2), d2 / np.maximum(rates, 1e-300)))
    return np.column_stack(parts)


def well_apart(model, rates, slack):
    """Rows whose two smallest rates, and rates and thresholds, differ by more than rounding."""
    limits = np.array([estimator.threshold_ for estimator in model.estimators_])
    two = np.sort(rates, axis=1)[:, :2]
    apart = two[:, 1] - two[:, 0] > 2 * np.max(slack)
    return apart & (np.abs(rates - limits) > slack).all(axis=1)
