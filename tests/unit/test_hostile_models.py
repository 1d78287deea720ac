"""Model files that are sound but for what they mean: a refusal, or a model without NaN."""

import os
import pickle
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse

from isopivot import load
from isopivot.persistence import ModelError, read_model, write_model
from model_files import refusal
from saved_models import fitted

FIXTURES = Path(__file__).parent.parent / "fixtures" / "format1"


@pytest.fixture(autouse=True, scope="module")
def _no_waiting_for_the_disk():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", lambda handle: None)
        yield


NAMES = [path.stem for path in sorted(FIXTURES.glob("*.isopivot"))]
TREES = {name: read_model(FIXTURES / f"{name}.isopivot") for name in NAMES}
QUERIES = {name: fitted(name)[1][:4] for name in NAMES}


def places(tree, at=()):
    """The paths of all entries of a tree."""
    yield at
    items = enumerate(tree) if isinstance(tree, list) else ()
    for key, value in tree.items() if isinstance(tree, dict) else items:
        yield from places(value, (*at, key))


def found(tree, at):
    for key in at:
        tree = tree[key]
    return tree


def changed(tree, at, value):
    """The tree with another value at one place."""
    if not at:
        return value
    copy = dict(tree) if isinstance(tree, dict) else list(tree)
    copy[at[0]] = changed(tree[at[0]], at[1:], value)
    return copy


scalars = st.sampled_from(
    [None, True, False, 0, 1, -1, 2, 10**6, 10**30, -(10**30), 10**39, 0.0, -0.0, 0.5, 1e308,
     -1e308, 5e-324, "", "mu", "auto", "rbf", "linear", "precomputed", "float32", "float64",
     "1e999%", "cholesky", "orthonormal", "diffusion-dense", "KernelICPQR", [], {},
     [1], {"a": 1}, [[]]]
)  # fmt: skip
NUMBERS = np.array([0.0, -1.0, np.nan, np.inf, -np.inf, 1e308, 5e-324, 1e-160, 3.0])


def numbers(dtype):
    """Such numbers in a format; in a short one some of them are infinite, or 0."""
    with np.errstate(all="ignore"):
        return st.sampled_from(NUMBERS.astype(dtype))


@st.composite
def other_arrays(draw, array):
    """An array like the given one, but for values, shape or type."""
    way = draw(st.sampled_from(["value", "fill", "shape", "cut", "dtype", "sparse", "transpose"]))
    array = array.toarray() if sparse.issparse(array) else array
    if way == "value" and array.size and array.dtype.kind == "f":
        array = array.copy()
        array.flat[draw(st.integers(0, array.size - 1))] = draw(numbers(array.dtype))
    elif way == "fill" and array.dtype.kind == "f":
        array = np.full_like(array, draw(numbers(array.dtype)))
    elif way == "shape":
        array = array.reshape(draw(st.sampled_from([(-1,), (1, -1), (-1, 1)])))
    elif way == "cut":
        array = array[draw(st.integers(0, 2)) :, ...]
    elif way == "dtype":
        with np.errstate(all="ignore"):
            array = array.astype(draw(st.sampled_from(["f8", "f4", "i8", "i4"])))
    elif way == "sparse" and array.ndim == 2 and array.dtype.kind == "f":
        return sparse.csr_array(array)
    return array.T if way == "transpose" else array


@settings(max_examples=400, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_changed_trees_give_a_refusal_or_a_model_without_nan(data):
    name = data.draw(st.sampled_from(NAMES))
    tree = TREES[name]
    for _ in range(data.draw(st.integers(1, 2))):
        at = data.draw(st.sampled_from(sorted(places(tree), key=str)))
        value = found(tree, at)
        if isinstance(value, np.ndarray) or sparse.issparse(value):
            tree = changed(tree, at, data.draw(other_arrays(value) | scalars))
        elif isinstance(value, dict) and data.draw(st.booleans()):
            key = data.draw(st.sampled_from(["new", *value]))
            tree = changed(tree, at, {k: v for k, v in (value | {"new": 1}).items() if k != key})
        else:
            tree = changed(tree, at, data.draw(scalars))
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "m")
        write_model(path, tree)
        try:
            model = load(path)
        except ModelError as error:
            assert "\n" not in str(error)  # noqa: PT017
            return
    check_answers(model, QUERIES[name])


def check_answers(model, queries):
    """No method answers NaN; an error that says so is fine."""
    names = ("transform", "distortion_rate", "decision_function", "predict", "distance_bounds",
             "distortion_rates", "predict_proba")  # fmt: skip
    for name in names:
        if not hasattr(model, name):
            continue
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            try:
                answer = getattr(model, name)(queries)
            except (ValueError, TypeError):
                continue
        for part in answer if isinstance(answer, tuple) else (answer,):
            if np.asarray(part).dtype.kind == "f":
                assert not np.isnan(part).any(), name


@pytest.mark.parametrize("name", NAMES)
def test_every_entry_is_needed_and_no_other_is_known(name, tmp_path):
    tree, path = TREES[name], tmp_path / "m"
    objects = [at for at in places(tree) if isinstance(found(tree, at), dict)]
    assert len(objects) >= 4
    for at in objects:
        value = found(tree, at)
        if at[-1:] == ("kernel_params",):
            continue
        write_model(path, changed(tree, at, value | {"another": 1}))
        refusal(path)
        for key in value:
            write_model(path, changed(tree, at, {k: v for k, v in value.items() if k != key}))
            assert "lacks the entry" in refusal(path)


@pytest.mark.parametrize("name", NAMES)
def test_numbers_that_are_not_finite_are_refused_in_every_array(name, tmp_path):
    tree, path = TREES[name], tmp_path / "m"
    for at in places(tree):
        array = found(tree, at)
        if not isinstance(array, np.ndarray) or array.dtype.kind != "f" or not array.size:
            continue
        for number in (np.nan, np.inf):
            spoilt = array.copy()
            spoilt.flat[-1] = number
            write_model(path, changed(tree, at, spoilt))
            assert "finite" in refusal(path)


@pytest.mark.parametrize(
    ("name", "at", "value", "words"),
    [
        ("linear", "params.mu", "lots", "parameter out of range"),
        ("linear", "params.center", 1, "allowed is true or false"),
        ("linear", "params.n_components", 0, "allowed is an integer"),
        ("linear", "estimator", "os.system", "allowed is one of ICPQR, KernelICPQR"),
        ("linear", "fitted.n_features", 5, "allowed is 3 x 5"),
        ("linear", "fitted.n_features", 10**12, "allowed is 3 x"),
        ("linear", "fitted.n_features", 10**30, "an integer from 1"),
        ("linear", "fitted.certificate.n_components", 10**12, "1000000000000"),
        ("linear", "fitted.certificate.route", "cholesky", "with other parts than it needs"),
        ("linear", "fitted.certificate.dtype", "float32", "of float32"),
        ("linear", "fitted.feature_names", ["a"], "a list of 6 strings"),
        ("rbf", "params.kernel", "laplacian", "allowed is one of laplacian"),
        ("rbf", "params.kernel", "isopivot.load", "parameter out of range"),
        ("rbf", "fitted.kernel.epsilon", 0.0, "allowed is a finite number > 0"),
        ("rbf", "fitted.frame.exponent", 5000, "an integer from -1074 to 1023"),
        ("diffusion", "params.t", 0, "parameter out of range"),
        ("diffusion-low-rank", "fitted.geometry.t", 10**9, "an integer from 1 to 100000"),
        ("classifier", "fitted.classes.labels", ["b", "a", "c"], "a sorted list"),
        ("classifier", "fitted.classes.labels", [], "with their type"),
        ("classifier", "fitted.classes.dtype", "int64", "with their type"),
        ("classifier", "fitted.estimators", [], "do not fit its dictionaries"),
        ("classifier", "fitted.estimators.0.estimator", "ICPQRClassifier", "one of ICPQR;"),
        ("classifier-rbf", "params.reject_label", "ant", "which is also a class"),
        ("classifier", "params.reject_label", [1], "a number or a string"),
        ("classifier", "params.validation_fraction", 2, "between 0 and 1"),
    ],
)
def test_refusals_say_what_is_wrong(name, at, value, words, tmp_path):
    keys = ("estimator", *(int(key) if key.isdigit() else key for key in at.split(".")))
    write_model(tmp_path / "m", changed(TREES[name], keys, value))
    assert words in refusal(tmp_path / "m")


def test_triangles_that_cannot_be_solved_with_are_refused(tmp_path):
    tree, at = TREES["rbf"], ("estimator", "fitted", "triangle")
    for i, j, value in ((1, 1, 0.0), (0, 0, -1.0), (0, 1, 1e-9)):
        T = found(tree, at).copy()
        T[i, j] = value
        write_model(tmp_path / "m", changed(tree, at, T))
        assert "lower triangle" in refusal(tmp_path / "m")


def test_preparations_of_strangers_are_refused(tmp_path):
    pytest.importorskip("isopivot.data")
    estimator = TREES["linear"]["estimator"]
    for preparation in (None, {}, [], {"columns": ["a"]}, np.zeros(3)):
        tree = {"content": "table", "preparation": preparation, "estimator": estimator}
        write_model(tmp_path / "m", tree)
        refusal(tmp_path / "m")


def test_loading_runs_no_code(tmp_path, monkeypatch):
    """Nothing on the way may unpickle or evaluate."""

    def never(*args, **kwargs):
        raise AssertionError("code could run here")

    for module, name in ((pickle, "load"), (pickle, "loads"), (pickle, "Unpickler"), (np, "load")):
        monkeypatch.setattr(module, name, never)
    monkeypatch.setattr("ast.literal_eval", never)
    for name in NAMES:
        load(FIXTURES / f"{name}.isopivot")
