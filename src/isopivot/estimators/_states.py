"""The fitted state of each estimator as a tree, and back; docs/model-format.md lists it.

`pack_...` gives the tree of a fitted estimator. `restore_...` assigns the attributes of a
fresh one, whose parameters are set, from the entries of such a tree.
"""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Any, get_args

import numpy as np
from scipy import sparse

from isopivot._arrays import times_power_of_two, to_numpy
from isopivot._factors import Factorization
from isopivot._gram import Frame
from isopivot._trees import Tree
from isopivot.certificate import Certificate, Route, StoppedBy
from isopivot.diffusion import DenseGeometry, Gate, Geometry, LowRankGeometry
from isopivot.estimators._results import Calibration
from isopivot.estimators._schema import Fields
from isopivot.estimators.diffusion import LogKernel, Walk
from isopivot.kernels import RADIAL, InnerKernel, Kernel, RadialKernel
from isopivot.persistence import ModelError

_MOST = 1 << 40  # points, features, kernel evaluations
_MOST_STEPS = 100_000  # of a walk in low rank, whose cost grows with them
_FLOATS = ("float64", "float32")


def portable(values: Any) -> Any:
    """Return an array as NumPy's, a sparse one as CSR, None as None."""
    if values is None:
        return None
    return values.tocsr() if sparse.issparse(values) else to_numpy(values)


# -- what all estimators with a dictionary share ------------------------------------------


def pack_dictionary(model: Any, embedding: bool) -> dict[str, Tree]:
    """Return what every estimator with one dictionary has."""
    calibration = model.calibration_
    training = {
        "embedding": portable(model.embedding_),
        "residuals": portable(model.residuals_),
    } if embedding else None  # fmt: skip
    return {
        **pack_features(model),
        "certificate": model.certificate_.to_dict(),
        "indices": to_numpy(model.dictionary_indices_).astype(np.int64, copy=False),
        "dictionary": portable(getattr(model, "dictionary_", None)),
        "pivot_residuals": portable(model.pivot_residuals_),
        "path": model.path_,
        "rotation": portable(model._rotation),
        "threshold": float(model.threshold_),
        "calibration": None if calibration is None else asdict(calibration),
        "training": training,
    }


def restore_dictionary(model: Any, state: Fields) -> None:
    """Assign what every estimator with one dictionary has."""
    restore_features(model, state)
    certificate = model.certificate_ = _certificate(state.fields("certificate"))
    s, n, dtype = certificate.n_components, certificate.n_samples, (certificate.dtype,)
    model.n_components_, model.mu_, model.mu_strict_ = s, certificate.mu, certificate.mu_strict
    model.dictionary_indices_ = state.indices("indices", s, n)
    if getattr(model, "_precomputed", False):
        if state.take("dictionary") is not None or model.n_features_in_ != n:
            raise ModelError("has a precomputed kernel of another size; save the model again")
    else:
        model.dictionary_ = state.rows("dictionary", (s, model.n_features_in_), dtype)
    model.pivot_residuals_ = state.array("pivot_residuals", (s,), _FLOATS, low=0.0)
    model.path_ = state.array("path", (s + 1, 2), low=0.0)
    model._rotation = state.axes("rotation", (s, s), dtype, optional=True)
    model._set_threshold(float(state.number("threshold")))
    model.calibration_ = _calibration(state.fields("calibration", optional=True))
    training = state.fields("training", optional=True)
    if training is not None:
        with training:
            model.embedding_ = training.array("embedding", (n, s), dtype)
            model.residuals_ = training.array("residuals", (n,), _FLOATS, low=0.0)


def pack_features(model: Any) -> dict[str, Tree]:
    """Return the number of features and their names."""
    names = getattr(model, "feature_names_in_", None)
    return {
        "n_features": int(model.n_features_in_),
        "feature_names": None if names is None else [str(name) for name in names],
    }


def restore_features(model: Any, state: Fields) -> None:
    """Assign the number of features and their names."""
    model.n_features_in_ = state.integer("n_features", 1, _MOST)
    names = state.texts("feature_names", model.n_features_in_, optional=True)
    if names is not None:
        model.feature_names_in_ = np.array(names, dtype=object)


def _certificate(state: Fields) -> Certificate:
    with state:
        values: dict[str, Any] = {
            name: float(state.number(name, 0.0))
            for name in ("mu", "mu_strict", "distortion_bound", "accuracy_floor", "route_error")
        }
        return Certificate(
            **values,
            n_samples=state.integer("n_samples", 1, _MOST),
            n_components=state.integer("n_components", 0, _MOST),
            dtype=state.choice("dtype", _FLOATS),
            route=state.choice("route", get_args(Route)),
            passes=state.integer("passes", 0, _MOST),
            kernel_evaluations=state.integer("kernel_evaluations", 0, 1 << 80, optional=True),
            stopped_by=state.choice("stopped_by", get_args(StoppedBy)),
            certified=state.flag("certified"),
        )


def _calibration(state: Fields | None) -> Calibration | None:
    if state is None:
        return None
    with state:
        n = state.integer("n_samples", 1, _MOST)
        return Calibration(
            false_alarm_rate=float(state.positive("false_alarm_rate")),
            n_samples=n,
            rank=state.integer("rank", 1, n),
            threshold=float(state.number("threshold")),
        )


def _factorization(model: Any, basis: Any, mean: Any, triangle: Any) -> Factorization:
    """Return what places new points; coordinates of the training points are not needed."""
    return Factorization(
        pivots=model.dictionary_indices_,
        coordinates=None,
        residuals=None,
        pivot_residuals=model.pivot_residuals_,
        basis=basis,
        mean=mean,
        certificate=model.certificate_,
        triangle=triangle,
    )


def _refuse_route(model: Any) -> ModelError:
    return ModelError(
        f"has the route {model.certificate_.route} with other parts than it needs; save the model "
        "again"
    )


# -- ICPQR --------------------------------------------------------------------------------


def pack_linear(model: Any, embedding: bool) -> dict[str, Tree]:
    """Return the fitted state of an ICPQR."""
    s = model.n_components_
    return pack_dictionary(model, embedding) | {
        "mean": portable(model.mean_),
        "basis": portable(model._basis_of(s)),
        "triangle": model._triangle_of(s),
    }


def restore_linear(model: Any, state: Fields) -> None:
    """Assign the fitted state of an ICPQR."""
    restore_dictionary(model, state)
    s, m, route = model.n_components_, model.n_features_in_, model.certificate_.route
    mean = state.array("mean", (m,), _FLOATS, optional=True)
    basis = triangle = None
    if route == "orthonormal" and state.take("triangle") is None:
        basis = state.axes("basis", (s, m), (model.certificate_.dtype,))
    elif route == "cholesky" and state.take("basis") is None and sparse.issparse(model.dictionary_):
        triangle = state.triangle("triangle", s)
    else:
        raise _refuse_route(model)
    result = _factorization(model, basis, mean, triangle)
    model._extension = model._extension_of(model.dictionary_, result)


# -- kernels ------------------------------------------------------------------------------


def _pack_kernel(model: Any) -> dict[str, Tree]:
    if model._precomputed:
        return {"kernel": None, "frame": None}
    kernel, frame = model._kernel, model._frame
    if not isinstance(kernel, RadialKernel | InnerKernel) or kernel.name != model.kernel:
        raise ValueError(
            "got a kernel that is a callable or was changed after fit; allowed in a file is the "
            'name of the fitted one; fit with one of the named kernels, or kernel="precomputed"'
        )
    return {"kernel": asdict(kernel), "frame": {"mean": frame.mean, "exponent": frame.exponent}}


def _restore_kernel(model: Any, state: Fields) -> None:
    """Set what evaluates the kernel, as `_source` does in fit."""
    kernel = state.fields("kernel", optional=model._precomputed)
    frame = state.fields("frame", optional=model._precomputed)
    model.epsilon_ = model.mean_ = None
    if kernel is None or frame is None:
        if kernel is not frame:
            raise _refuse_route(model)
        return
    with frame:
        mean = frame.array("mean", (model.n_features_in_,), optional=True)
        # No float has an exponent outside of this range.
        model._frame = Frame(mean, frame.integer("exponent", -1074, 1023))
    model.mean_ = mean
    model._kernel = _kernel(kernel, model.kernel)
    if isinstance(model._kernel, RadialKernel):
        epsilon = np.float64(model._kernel.epsilon)
        model.epsilon_ = float(times_power_of_two(epsilon, 2 * model._frame.exponent))


def _kernel(state: Fields, name: Any) -> Kernel:
    with state:
        state.choice("name", [str(name)])
        if name in RADIAL:
            return RadialKernel(name, float(state.positive("epsilon")))
        degree, gamma = float(state.number("degree", 1.0)), float(state.positive("gamma"))
        return InnerKernel(name, degree, gamma, float(state.number("coef0", 0.0)))


def pack_kernel(model: Any, embedding: bool) -> dict[str, Tree]:
    """Return the fitted state of a KernelICPQR."""
    return (
        pack_dictionary(model, embedding)
        | _pack_kernel(model)
        | {
            "roundings": model._roundings,
            "diagonal": model._diagonal,
            "triangle": model._triangle_of(model.n_components_),
        }
    )


def restore_kernel(model: Any, state: Fields) -> None:
    """Assign the fitted state of a KernelICPQR."""
    restore_dictionary(model, state)
    if model.certificate_.route != "cholesky":
        raise _refuse_route(model)
    _restore_kernel(model, state)
    model._roundings = state.number("roundings", 0.0)
    model._diagonal = state.number("diagonal", 0.0, optional=True)
    triangle = state.triangle("triangle", model.n_components_)
    result = _factorization(model, None, None, triangle)
    model._extension = model._extension_of(getattr(model, "dictionary_", None), result)


# -- diffusion ----------------------------------------------------------------------------


def pack_diffusion(model: Any, embedding: bool) -> dict[str, Tree]:
    """Return the fitted state of a DiffusionICPQR, its training rows among it."""
    walk = model._walk
    return (
        pack_dictionary(model, embedding)
        | _pack_kernel(model)
        | {
            "geometry": _entries(walk.geometry),
            "gate": _entries(walk.gate),
            "rows": portable(walk.log_kernel.training),
            "diagonal": walk.log_kernel.constant,
            "basis": model._extension.projection.basis,
            "members": model._members,
            "median_norm": model._median_norm,
            "certifiable": model._certifiable,
        }
    )


def _entries(part: Any) -> dict[str, Tree]:
    """Return the fields of a frozen part, without copies."""
    return {field.name: getattr(part, field.name) for field in fields(part)}


def restore_diffusion(model: Any, state: Fields) -> None:
    """Assign the fitted state of a DiffusionICPQR."""
    restore_dictionary(model, state)
    _restore_kernel(model, state)
    s, n = model.n_components_, model.certificate_.n_samples
    geometry = _geometry(state.fields("geometry"), model)
    log_kernel = _log_kernel(model, state)
    model._walk = Walk(geometry, log_kernel, _gate(state.fields("gate"), n))
    model.degrees_, model._route_errors = geometry.degrees, geometry.error
    model._members = state.array("members", (s, s), (model.certificate_.dtype,))
    model._median_norm = state.number("median_norm", 0.0)
    model._certifiable = state.flag("certifiable")
    width = n if isinstance(geometry, DenseGeometry) else len(geometry.spectrum)
    basis = state.axes("basis", (s, width), ("float64",))
    model._extension = model._extension_of(None, _factorization(model, basis, None, None))


def _log_kernel(model: Any, state: Fields) -> LogKernel:
    n, m = model.certificate_.n_samples, model.n_features_in_
    constant = state.number("diagonal", 0.0, optional=True)
    if model._precomputed:
        if state.take("rows") is not None:
            raise _refuse_route(model)
        return LogKernel(None, None, None, constant)
    rows = state.rows("rows", (n, m), ("float64",))
    return LogKernel(model._kernel, model._frame, rows, constant)


def _geometry(state: Fields, model: Any) -> Geometry:
    n, route = model.certificate_.n_samples, model.certificate_.route
    if route not in ("diffusion-dense", "diffusion-low_rank"):
        raise _refuse_route(model)
    with state:
        degrees = state.positive_array("degrees", (n,))
        weights = state.positive_array("weights", (n,))
        if route == "diffusion-dense":
            slack = state.number("slack", 0.0)
            propagator = state.array("propagator", (n, n), optional=True)
            return DenseGeometry(degrees, weights, propagator, slack)
        spectrum = state.array("spectrum", (None,), low=0.0)
        r = len(spectrum)
        numbers = {
            name: float(state.number(name, 0.0))
            for name in ("rho", "eta", "roots", "leak", "rounding")
        }
        return LowRankGeometry(
            degrees=degrees,
            weights=weights,
            spectrum=spectrum,
            norms=state.array("norms", (n,), low=0.0),
            error=state.array("error", (n,), low=0.0),
            turn=state.axes("turn", (r, r), ("float64",)),
            mass=state.array("mass", (r,)),
            t=state.integer("t", 1, _MOST_STEPS),
            pivots=state.indices("pivots", r, n),
            T=state.triangle("T", r),
            **numbers,
        )


def _gate(state: Fields, n: int) -> Gate:
    with state:
        return Gate(
            log_quantile=float(state.number("log_quantile")),
            log_degrees=state.array("log_degrees", (n,)),
            diagonal=state.array("diagonal", (n,), low=0.0, optional=True),
            ceiling=float(state.number("ceiling", 0.0)),
        )
