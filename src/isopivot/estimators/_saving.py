"""Saving and loading: which estimator a tree belongs to, with which parameters."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from isopivot._trees import Tree
from isopivot._validation import check_mu, check_relaxation, check_threshold
from isopivot.estimators import _states
from isopivot.estimators._savable import check_embedding
from isopivot.estimators._schema import Fields
from isopivot.estimators.classifier import ICPQRClassifier, as_list, check_reject_label
from isopivot.estimators.diffusion import DiffusionICPQR, check_walk
from isopivot.estimators.kernel import KernelICPQR, check_epsilon
from isopivot.estimators.linear import ICPQR
from isopivot.estimators.table import TableModel
from isopivot.kernels import check_kernel
from isopivot.persistence import ModelError, read_model, refusals_name, write_model

_MOST_CLASSES = 1 << 20
_NUMBERS = {f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)}
_NUMBERS |= {"bool", "float32", "float64"}


def save(model: Any, path: str | os.PathLike[str], *, embedding: bool = False) -> None:
    """Write a fitted estimator or a `TableModel`; see `Savable.save`."""
    if isinstance(model, TableModel):
        estimator = pack(model.estimator, embedding)
        preparation = model.preparation.to_state()
        tree = {"content": "table", "preparation": preparation, "estimator": estimator}
        if model.dictionary_ids is not None:
            tree["dictionary_ids"] = [list(ids) for ids in model.dictionary_ids]
    else:
        tree = {"content": "estimator", "estimator": pack(model, embedding)}
    try:
        unpack(tree["estimator"])  # nothing is written that could not be read
    except ModelError as error:
        raise ValueError(f"got a model that {error}, after fitting it again") from error
    write_model(path, tree)


def load(path: str | os.PathLike[str]) -> Any:
    """Return the estimator that `save` wrote.

    Parameters
    ----------
    path : str or path-like
        A file that `estimator.save` wrote.

    Returns
    -------
    estimator or TableModel
        It answers bit for bit as the saved one did, on the same machine and libraries.

    Raises
    ------
    ModelError
        A ValueError: where the file is missing, damaged, of a newer format, or no model.

    Notes
    -----
    Files are never unpickled: one from a stranger can be wrong, but cannot run code.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> import isopivot
    >>> path = os.path.join(tempfile.mkdtemp(), "model.isopivot")
    >>> isopivot.ICPQR(mu=1.0).fit(np.diag([3.0, 2.0, 0.5])).save(path)
    >>> isopivot.load(path)
    ICPQR(mu=1.0)
    """
    tree = read_model(path)
    with refusals_name(path), Fields(tree) as content:
        if content.choice("content", ("estimator", "table")) == "estimator":
            return unpack(content.take("estimator"))
        preparation = _preparation(content.take("preparation"))
        estimator = unpack(content.take("estimator"))
        # Tables saved from Python need not have ids.
        ids = _dictionary_ids(content, estimator) if "dictionary_ids" in tree else None
        model = TableModel(preparation, estimator, ids)
        if len(model.preparation.feature_names) != model.estimator.n_features_in_:
            raise ModelError("has a preparation for another estimator; save the model again")
        return model


def _dictionary_ids(content: Fields, estimator: Any) -> tuple[tuple[Any, ...], ...]:
    """Return the ids of the dictionary: one for every row of it."""
    groups = content.items("dictionary_ids")
    owners = getattr(estimator, "estimators_", [estimator])
    sizes = [int(owner.n_components_) for owner in owners]
    sound = all(isinstance(ids, list) for ids in groups) and sizes == [len(ids) for ids in groups]
    if not sound or not all(isinstance(i, str | int | float) for ids in groups for i in ids):
        allowed = "a list of numbers or texts for each dictionary, one for every row"
        raise content.refuse("dictionary_ids", groups, allowed)
    return tuple(tuple(ids) for ids in groups)


def _preparation(tree: Tree) -> Any:
    from isopivot.data import Preparation

    try:
        return Preparation.from_state(tree)
    except (ValueError, TypeError, LookupError, ArithmeticError) as error:
        reason = " ".join(str(error).split())[:200]
        raise ModelError(
            f"has a preparation that does not fit: {reason}; save the model again"
        ) from error


# -- estimators ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Kind:
    """How one class of estimators becomes a tree and comes back."""

    cls: type[Any]
    pack: Callable[[Any, bool], dict[str, Tree]]
    restore: Callable[[Any, Fields], None]


def pack(model: Any, embedding: bool) -> dict[str, Tree]:
    """Return the tree of a fitted estimator."""
    kind = KINDS.get(type(model).__name__)
    if kind is None or type(model) is not kind.cls:
        raise TypeError(
            f"got a {type(model).__name__}; allowed are {', '.join(KINDS)}; save one of these"
        )
    check_is_fitted(model)
    if embedding and not isinstance(model, ICPQRClassifier):
        check_embedding(model, "embedding=True")
    params = {name: plain(name, value) for name, value in model.get_params(deep=False).items()}
    return {
        "estimator": type(model).__name__,
        "params": params,
        "fitted": kind.pack(model, embedding),
    }


def unpack(tree: Tree, allowed: tuple[str, ...] = ()) -> Any:
    """Return the fitted estimator of a tree; raise `ModelError` where it makes none."""
    with Fields(tree, "estimator") as entries:
        kind = KINDS[entries.choice("estimator", allowed or tuple(KINDS))]
        model = kind.cls()
        with entries.fields("params") as params:
            model.set_params(**{name: params.take(name) for name in model.get_params(deep=False)})
        check_params(model)
        with entries.fields("fitted") as state, np.errstate(all="ignore"):
            kind.restore(model, state)
    return model


def plain(name: str, value: Any) -> Tree:
    """Return a parameter as a value of JSON."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"got {name}={value}; allowed are finite numbers; set one and fit again")
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple | np.ndarray):
        return [plain(name, item) for item in value]
    if isinstance(value, dict):
        return {str(key): plain(name, item) for key, item in value.items()}
    if isinstance(value, Integral | Real):
        return int(value) if isinstance(value, Integral) else float(value)
    what = "a callable" if callable(value) else f"a {type(value).__name__}"
    raise ValueError(
        f"got {name}={what}; allowed in a file are numbers, strings and lists of them; set one of "
        "these (a kernel by its name, random_state as an integer) and fit again"
    )


def check_params(model: Any) -> None:
    """Raise `ModelError` unless the parameters are what `fit` would take."""
    params = model.get_params(deep=False)
    try:
        _check_params(params)
    except ModelError:
        raise
    except (ValueError, TypeError, ArithmeticError) as error:
        raise ModelError(f"has a parameter out of range: {error}") from error


def _check_params(params: dict[str, Any]) -> None:
    classifies = "reject" in params
    if not (classifies and params["mu"] == "auto"):
        check_mu(params["mu"])
    check_threshold(params["threshold"])
    check_relaxation(params.get("relaxation", 1.0))
    scale = params.get("epsilon_scale", 1.0)
    for each in as_list(scale) if classifies else [scale]:
        check_epsilon(params.get("epsilon", "median"), each)
    if not (classifies and params["kernel"] is None):
        check_kernel(params.get("kernel", "linear"), params.get("kernel_params"))
    if "t" in params:
        check_walk(params["t"], params["alpha"], params["method"], params["far_quantile"])
    own = Fields(_SIMPLE | params, "params")
    for name in ("center", "rotate", "reject"):
        own.flag(name)
    own.integer("n_components", 1, 1 << 40, optional=True)
    own.integer("n_jobs", -(1 << 31), 1 << 31, optional=True)
    own.integer("random_state", 0, (1 << 32) - 1, optional=True)
    if not 0.0 < (fraction := own.number("validation_fraction")) < 1.0:
        raise own.refuse("validation_fraction", fraction, "a number between 0 and 1")
    if not isinstance(label := own.take("reject_label"), int | float | str | None):
        raise own.refuse("reject_label", label, "a number or a string")


# What an estimator without such a parameter has, so to speak.
_SIMPLE = {
    **dict.fromkeys(("center", "rotate", "reject"), False),
    **dict.fromkeys(("n_components", "n_jobs", "random_state", "reject_label")),
    "validation_fraction": 0.5,
}


# -- the classifier: some estimators and a few attributes ---------------------------------


def _pack_classifier(model: Any, embedding: bool) -> dict[str, Tree]:
    validation = model.validation_
    if validation is not None:
        # Without a kernel there is no scale: a column of NaN, which no file holds.
        scales = None if np.isnan(validation[:, 0]).any() else validation[:, 0].copy()
        validation = {"scales": scales, "scores": validation[:, 1:].copy()}
    return {
        **_states.pack_features(model),
        "classes": {"dtype": model.classes_.dtype.name, "labels": model.classes_.tolist()},
        "estimators": [pack(own, embedding) for own in model.estimators_],
        "epsilon_scale": model.epsilon_scale_,
        "validation": validation,
    }


def _restore_classifier(model: Any, state: Fields) -> None:
    _states.restore_features(model, state)
    with state.fields("classes") as classes:
        model.classes_ = _labels(classes)
    own = ("ICPQR",) if model.kernel is None else ("KernelICPQR",)
    estimators = [unpack(tree, own) for tree in state.items("estimators")]
    same = all(each.n_features_in_ == model.n_features_in_ for each in estimators)
    if not same or len(estimators) != len(model.classes_) or model.kernel == "precomputed":
        raise ModelError("has classes that do not fit its dictionaries; save the model again")
    model._assign(estimators, state.number("epsilon_scale", 0.0, optional=True))
    model.validation_ = None
    validation = state.fields("validation", optional=True)
    if validation is not None:
        with validation:
            scores = validation.array("scores", (None, 2))
            scales = validation.array("scales", (len(scores),), optional=True)
        blank = np.full(len(scores), math.nan) if scales is None else scales
        model.validation_ = np.column_stack([blank, scores])
    if model.reject:
        _check_reject_label(model)


def _check_reject_label(model: Any) -> None:
    try:
        check_reject_label(model.reject_label, model.classes_)
    except ValueError as error:
        raise ModelError(f"has a parameter out of range: {error}") from error


def _labels(state: Fields) -> Any:
    """Return the labels, sorted and different, in the type they had."""
    dtype, labels = state.take("dtype"), state.items("labels")
    if not isinstance(dtype, str):
        raise state.refuse("dtype", dtype, "the name of a type")
    textual = dtype == "object" or dtype.startswith("str")
    numeric = {bool} if dtype == "bool" else {int, float}
    kinds = {str} if textual else numeric if dtype in _NUMBERS else set()
    if not 1 <= len(labels) <= _MOST_CLASSES or not {type(label) for label in labels} <= kinds:
        raise state.refuse("labels", labels, "a list of numbers or of strings, with their type")
    try:
        values = np.array(labels, dtype=dtype if not textual or dtype == "object" else None)
    except (ValueError, OverflowError) as error:
        raise state.refuse("labels", labels, f"a list of {dtype}") from error
    if values.tolist() != sorted(set(labels)):
        raise state.refuse("labels", labels, "a sorted list of different labels")
    return values


KINDS = {
    "ICPQR": Kind(ICPQR, _states.pack_linear, _states.restore_linear),
    "KernelICPQR": Kind(KernelICPQR, _states.pack_kernel, _states.restore_kernel),
    "DiffusionICPQR": Kind(DiffusionICPQR, _states.pack_diffusion, _states.restore_diffusion),
    "ICPQRClassifier": Kind(ICPQRClassifier, _pack_classifier, _restore_classifier),
}
