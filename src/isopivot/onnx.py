"""Fitted models as ONNX graphs: the answers of isopivot where there is no Python."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from isopivot._arrays import to_numpy
from isopivot._onnx_extension import placed
from isopivot._onnx_graph import Graph, Output
from isopivot.estimators import ICPQR, ICPQRClassifier, KernelICPQR, TableModel

if TYPE_CHECKING:
    from onnx import ModelProto

LARGEST_BYTES = 1 << 30  # one ONNX file ends at 2 GiB
KERNELS = ("rbf", "linear", "laplacian")


def to_onnx(model: Any) -> ModelProto:
    """Return a fitted model as an ONNX graph that any ONNX runtime can run.

    Parameters
    ----------
    model : ICPQR, KernelICPQR or ICPQRClassifier
        Fitted. Kernels: `rbf`, `linear`, `laplacian`.

    Returns
    -------
    onnx.ModelProto
        Input `X` of shape (n, n_features_in_), in the float type of the training data; n is
        free. Outputs of an estimator: `embedding` (n, n_components_), `distortion_rate`
        (n,), `label` (n,), which is +1 or -1 as in `predict`. Outputs of a classifier:
        `label` (n,), int64 or string, `distortion_rates` and `probabilities` (n, n_classes).
        The metadata hold mu, the threshold, the certificate and the names of the features.

    Raises
    ------
    ImportError
        Without the package onnx.
    ValueError
        For models, kernels and labels that have no graph, and where one would be too large.

    Notes
    -----
    Results equal those of Python up to rounding: docs/onnx.md derives by how much. A graph
    cannot raise: where Python refuses a row (NaN, infinity, overflow) the rate is NaN or
    infinite and the label of an estimator is -1.

    Examples
    --------
    >>> import numpy as np
    >>> from onnxruntime import InferenceSession
    >>> from sklearn.datasets import load_digits
    >>> from isopivot import ICPQR
    >>> from isopivot.onnx import to_onnx
    >>> X = load_digits().data
    >>> model = ICPQR(mu=20.0).fit(X)
    >>> session = InferenceSession(to_onnx(model).SerializeToString())
    >>> embedding, rates, labels = session.run(None, {"X": X})
    >>> bool(np.allclose(embedding, model.transform(X))), bool((labels == 1).all())
    (True, True)
    """
    estimators = _estimators_of(model)
    _check_kernel(estimators[0])
    _check_size(estimators)
    graph = Graph(estimators[0].certificate_.dtype)
    if isinstance(model, ICPQRClassifier):
        outputs = _classifier(graph, model)
    else:
        outputs = _estimator(graph, model)
    return graph.finished(outputs, model.n_features_in_, _properties(model, estimators))


# -- what can be exported -----------------------------------------------------------------


def _estimators_of(model: Any) -> list[Any]:
    """Return the estimators that the graph is made of; raise for other models."""
    if isinstance(model, TableModel):
        raise ValueError(
            "got a TableModel; allowed are ICPQR, KernelICPQR and ICPQRClassifier; pass "
            "model.estimator, and prepare its input with model.preparation outside of the graph"
        )
    if not isinstance(model, ICPQR | KernelICPQR | ICPQRClassifier):
        raise ValueError(
            f"got a {type(model).__name__}; allowed are ICPQR, KernelICPQR and ICPQRClassifier; "
            "export one of these, and prepare its input outside of the graph"
        )
    check_is_fitted(model)
    return list(model.estimators_) if isinstance(model, ICPQRClassifier) else [model]


def _check_kernel(estimator: Any) -> None:
    kernel = getattr(estimator, "kernel", "linear")
    if not isinstance(kernel, str) or kernel not in KERNELS:
        raise ValueError(
            f"got kernel={kernel!r}; allowed are {', '.join(KERNELS)}; fit with one of these to "
            "export, or save the model and answer in Python"
        )


def _check_size(estimators: list[Any]) -> None:
    m = int(estimators[0].n_features_in_)
    size = sum(8 * int(e.n_components_) * (m + int(e.n_components_)) for e in estimators)
    if size > LARGEST_BYTES:
        raise ValueError(
            f"got dictionaries that take {size / 2**30:.2f} GiB as dense matrices; allowed is "
            f"{LARGEST_BYTES / 2**30:.0f} GiB in one ONNX file; keep fewer members with "
            "truncate or a larger mu, or fit on fewer features"
        )


# -- estimators ---------------------------------------------------------------------------


def _estimator(graph: Graph, model: Any) -> list[Output]:
    F, rates = _parts(graph, model)
    threshold = graph.constant(np.array(model.threshold_, dtype=graph.dtype))
    F = graph("Cast", F, name="embedding", to=graph.code(graph.dtype))
    rates = graph("Identity", rates, name="distortion_rate")
    normal = graph("LessOrEqual", rates, threshold)
    graph("Where", normal, graph.integers(1), graph.integers(-1), name="label")
    return [
        ("embedding", graph.dtype, [int(model.n_components_)]),
        ("distortion_rate", graph.dtype, []),
        ("label", np.dtype(np.int64), []),
    ]


def _parts(graph: Graph, model: Any) -> tuple[str, str]:
    """Return coordinates and rates of one estimator, the rates in the type of the input."""
    F, rates, work = placed(graph, model._extension)
    if model._rotation is not None and model.n_components_:
        F = graph("Gemm", F, graph.constant(to_numpy(model._rotation).astype(work)))
    return F, graph("Cast", rates, to=graph.code(graph.dtype))


# -- classifier ---------------------------------------------------------------------------


def _classifier(graph: Graph, model: ICPQRClassifier) -> list[Output]:
    columns = [
        graph("Unsqueeze", _parts(graph, estimator)[1], graph.integers([1]))
        for estimator in model.estimators_
    ]
    rates = graph("Concat", *columns, axis=1, name="distortion_rates")
    wide = graph("Cast", rates, to=graph.code(np.float64))
    graph("Softmax", graph("Neg", wide), axis=1, name="probabilities")
    answer = graph("ArgMin", rates, axis=1, keepdims=0)
    labels = _labels(model)
    if model.reject:
        limits = np.array([estimator.threshold_ for estimator in model.estimators_])
        normal = graph("LessOrEqual", wide, graph.constant(limits))
        votes = graph("Cast", normal, to=graph.code(np.int64))
        count = graph("ReduceSum", votes, graph.integers([1]), keepdims=0)
        known = graph("Greater", count, graph.integers(0))
        answer = graph("Where", known, answer, graph.integers(len(columns)))
    graph("Gather", graph.constant(labels), answer, name="label")
    return [
        ("label", labels.dtype, []),
        ("distortion_rates", graph.dtype, [len(columns)]),
        ("probabilities", np.dtype(np.float64), [len(columns)]),
    ]


def _labels(model: ICPQRClassifier) -> npt.NDArray[Any]:
    """Return the labels as int64 or strings, the one for rejected points last."""
    labels = model.classes_.tolist() + ([model.reject_label] if model.reject else [])
    if all(isinstance(label, str) for label in labels):
        return np.array(labels, dtype=object)
    whole = all(isinstance(label, int | np.integer) for label in labels)
    if not whole or any(isinstance(label, bool) or abs(int(label)) >= 2**63 for label in labels):
        raise ValueError(
            f"got labels such as {labels[0]!r} and {labels[-1]!r}; allowed are strings or whole "
            "numbers of 64 bits; convert y (and reject_label) before fitting"
        )
    return np.array(labels, dtype=np.int64)


# -- metadata -----------------------------------------------------------------------------


def _properties(model: Any, estimators: Sequence[Any]) -> dict[str, str]:
    """Return what the file says about itself; lists have one entry per class."""
    single = not isinstance(model, ICPQRClassifier)

    def told(values: list[Any]) -> str:
        return json.dumps(values[0] if single else values, allow_nan=False)

    certificates = [estimator.certificate_.to_dict() for estimator in estimators]
    properties = {"model": type(model).__name__}
    for name in ("mu", "mu_strict", "distortion_bound", "accuracy_floor", "certified"):
        properties[name] = told([certificate[name] for certificate in certificates])
    properties["threshold"] = told([float(estimator.threshold_) for estimator in estimators])
    properties["certificate"] = told(certificates)
    if hasattr(model, "feature_names_in_"):
        properties["feature_names"] = json.dumps([str(name) for name in model.feature_names_in_])
    if not single:
        properties["classes"] = json.dumps([str(label) for label in model.classes_])
    return properties
