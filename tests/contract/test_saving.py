"""A saved model comes back whole: every answer, every method, every parameter."""

import json
import pickle
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import sklearn
from scipy import sparse
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError

import isopivot
from isopivot import ICPQR, DiffusionICPQR, ICPQRClassifier, KernelICPQR, load
from isopivot.estimators import TableModel
from isopivot.persistence import ModelError
from saved_models import MODELS, fitted, gram, methods, points

FIXTURES = Path(__file__).parent.parent / "fixtures" / "format1"
DICTIONARIES = [name for name in MODELS if not name.startswith("classifier")]


def again(model, folder, **options):
    path = folder / "model.isopivot"
    model.save(path, **options)
    return load(path)


def assert_same(a, b):
    """Equal to the last bit, in type and in layout of what comes back."""
    if isinstance(a, tuple):
        for x, y in zip(a, b, strict=True):
            assert_same(x, y)
        return
    if sparse.issparse(a):
        assert type(a) is type(b)
        a, b = a.toarray(), b.toarray()
    a, b = np.asarray(a), np.asarray(b)
    assert a.dtype == b.dtype
    np.testing.assert_array_equal(a, b, strict=True)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("rows", [slice(None), slice(0, 1), slice(3, 10)], ids=str)
def test_answers_are_the_same_bit_for_bit(name, rows, tmp_path):
    model, queries = fitted(name)
    loaded = again(model, tmp_path)
    for method in methods(model):
        assert_same(getattr(model, method)(queries[rows]), getattr(loaded, method)(queries[rows]))


@pytest.mark.parametrize("name", DICTIONARIES)
def test_every_method_works_without_the_embedding(name, tmp_path):
    model, queries = fitted(name)
    loaded = again(model, tmp_path)
    assert not hasattr(loaded, "embedding_")
    if hasattr(model, "inverse_transform"):
        assert_same(model.components_, loaded.components_)
        F = model.transform(queries)
        assert_same(model.inverse_transform(F), loaded.inverse_transform(F))
    assert_same(model.get_feature_names_out(), loaded.get_feature_names_out())
    frame = loaded.set_output(transform="pandas").transform(queries)
    assert list(frame.columns) == list(model.get_feature_names_out())
    if model.n_components_:
        mine, theirs = model.explain(queries[:3], 2), loaded.explain(queries[:3], 2)
        assert_same(mine.rates, theirs.rates)
        assert_same(mine.neighbors, theirs.neighbors)
        assert_same(mine.neighbor_distances, theirs.neighbor_distances)
        if mine.contributions is not None:
            assert_same(mine.contributions, theirs.contributions)
    assert model.calibrate(queries, 0.2).threshold_ == loaded.calibrate(queries, 0.2).threshold_


@pytest.mark.parametrize("name", DICTIONARIES)
def test_fitted_attributes_survive(name, tmp_path):
    model, queries = fitted(name)
    model.calibrate(queries, 0.2)
    loaded = again(model, tmp_path, embedding=True)
    assert type(loaded) is type(model)
    assert vars(loaded).keys() == vars(model).keys()
    for key, value in vars(model).items():
        other = getattr(loaded, key)
        if isinstance(value, np.ndarray) or sparse.issparse(value):
            assert_same(value, other)
        elif not key.startswith("_"):
            assert value == other, key
            assert type(value) is type(other), key


@pytest.mark.parametrize("name", ["classifier", "classifier-rbf"])
def test_attributes_of_classifiers_survive(name, tmp_path):
    model, _ = fitted(name)
    loaded = again(model, tmp_path)
    assert vars(loaded).keys() == vars(model).keys()
    for key in ("mu_", "epsilon_", "epsilon_scale_", "n_features_in_"):
        assert getattr(loaded, key) == getattr(model, key), key
    assert_same(model.validation_, loaded.validation_)
    assert_same(tuple(model.dictionaries_), tuple(loaded.dictionaries_))
    pairs = zip(model.estimators_, loaded.estimators_, strict=True)
    assert all(mine.certificate_ == theirs.certificate_ for mine, theirs in pairs)


@pytest.mark.parametrize(
    "name", [n for n in DICTIONARIES if n not in ("linear-empty", "linear-one-row")]
)
def test_with_the_embedding_truncation_works(name, tmp_path):
    model, queries = fitted(name)
    keep = model.n_components_ - 1
    short = model.truncate(n_components=keep)
    loaded = again(model, tmp_path, embedding=True).truncate(n_components=keep)
    twice = again(short, tmp_path)  # parts of larger arrays, in neither memory order
    for method in methods(model):
        assert_same(getattr(short, method)(queries), getattr(loaded, method)(queries))
        for rows in (slice(None), slice(0, 1)):
            expected = getattr(short, method)(queries[rows])
            assert_same(expected, getattr(twice, method)(queries[rows]))


def test_what_was_not_kept_is_named_with_its_remedy(tmp_path):
    loaded = again(fitted("linear")[0], tmp_path)
    for name in ("embedding_", "residuals_"):
        with pytest.raises(AttributeError, match=f"{name} was not saved.*embedding=True"):
            getattr(loaded, name)
        with pytest.raises(AttributeError, match=f"{name} is there after fit"):
            getattr(ICPQR(), name)
    with pytest.raises(ValueError, match="truncate needs; save it with embedding=True"):
        loaded.truncate(n_components=1)
    with pytest.raises(ValueError, match="without its embedding"):
        loaded.save(tmp_path / "second", embedding=True)


@pytest.mark.parametrize("name", MODELS)
def test_the_same_model_gives_the_same_bytes_however_often(name, tmp_path):
    model, _ = fitted(name)
    for embedding in (False, True):
        first, second, third = (tmp_path / f"{embedding}{k}" for k in range(3))
        model.save(first, embedding=embedding)
        model.save(second, embedding=embedding)
        load(first).save(third, embedding=embedding)
        assert first.read_bytes() == second.read_bytes() == third.read_bytes()


@pytest.mark.parametrize("name", MODELS)
def test_parameters_and_clones_survive(name, tmp_path):
    model, _ = fitted(name)
    loaded = again(model, tmp_path)
    assert loaded.get_params() == model.get_params()
    assert repr(loaded) == repr(model)
    _, X, _ = MODELS[name]
    if name in DICTIONARIES:
        refitted = clone(loaded).fit(X)
        assert_same(refitted.dictionary_indices_, model.dictionary_indices_)
    copy = pickle.loads(pickle.dumps(loaded))
    assert copy.get_params() == model.get_params()


def test_numpy_parameters_become_plain_ones(tmp_path):
    X = points()
    model = ICPQR(np.float32(0.5), np.int64(2), center=np.bool_(True), relaxation=Fraction(1, 2))
    params = again(model.fit(X), tmp_path).get_params()
    assert params["mu"] == 0.5
    assert [type(params[k]) for k in ("mu", "n_components", "center", "relaxation")] == [
        float,
        int,
        bool,
        float,
    ]
    scales = again(
        ICPQRClassifier(0.5, kernel="rbf", epsilon_scale=np.array([0.5, 1.0])).fit(
            X, np.arange(40) % 2
        ),
        tmp_path,
    )
    assert scales.epsilon_scale == [0.5, 1.0]


@pytest.mark.parametrize(
    "labels",
    [[0, 1], [-1.0, 2.0], [False, True], ["", "ü\n"], np.array(["a", "b"], dtype=object),
     np.array([3, 200], dtype=np.uint8)],
    ids=repr,
)  # fmt: skip
def test_labels_keep_their_type(labels, tmp_path):
    y = np.asarray(labels)[np.arange(40) % 2]
    model = ICPQRClassifier(1.0).fit(points(), y)
    loaded = again(model, tmp_path)
    assert loaded.classes_.dtype == model.classes_.dtype
    assert_same(model.predict(points()), loaded.predict(points()))


def test_names_of_features_survive(tmp_path):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(points(), columns=["$price", "größe", "a b", "x\ty", "5", "-"])
    for model in (ICPQR(), KernelICPQR(), DiffusionICPQR("20%")):
        loaded = again(model.fit(frame), tmp_path)
        assert list(loaded.feature_names_in_) == list(frame.columns)
        assert loaded.feature_names_in_.dtype == object
        assert_same(model.predict(frame), loaded.predict(frame))
        with pytest.raises(ValueError, match="feature names should match"):
            loaded.predict(frame.rename(columns={"5": "6"}))


@pytest.mark.parametrize("library", ["array_api_strict", "torch"])
def test_models_of_other_libraries_come_back_as_numpy(library, tmp_path, monkeypatch):
    xp = pytest.importorskip(library)
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    X = points()
    with sklearn.config_context(array_api_dispatch=True):
        model = ICPQR("10%", rotate=True).fit(xp.asarray(X))
        loaded = again(model, tmp_path, embedding=True)
        with pytest.raises(TypeError, match="convert X"):
            loaded.predict(xp.asarray(X))
    assert type(loaded.embedding_) is type(loaded.components_) is np.ndarray
    floor = 2 * model.certificate_.accuracy_floor
    np.testing.assert_allclose(loaded.transform(X), np.asarray(model.embedding_), atol=floor)
    assert loaded.predict(X).tolist() == [1] * len(X)


def linear_kernel(X, Y):
    return X @ Y.T


@pytest.mark.parametrize(
    "model", [KernelICPQR("5%", kernel=linear_kernel), ICPQRClassifier(kernel=linear_kernel)]
)
def test_callables_are_refused_with_a_remedy(model, tmp_path):
    model.fit(points(), np.arange(40) % 2)
    with pytest.raises(ValueError, match=r"kernel=a callable.*by its name"):
        model.save(tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_saved_is_refused(tmp_path):
    class Own(ICPQR):
        pass

    X, path = points(), tmp_path / "model"
    for model in (ICPQR(), KernelICPQR(), DiffusionICPQR(), ICPQRClassifier()):
        with pytest.raises(NotFittedError):
            model.save(path)
    with pytest.raises(TypeError, match="got a Own; allowed are ICPQR"):
        Own().fit(X).save(path)
    with pytest.raises(ValueError, match=r"random_state=a RandomState.*as an integer"):
        ICPQRClassifier(random_state=np.random.RandomState(0)).fit(
            X, np.arange(40) % 2
        ).save(path)  # fmt: skip
    with pytest.raises(ValueError, match="was changed after fit"):
        KernelICPQR().fit(X).set_params(kernel="laplacian").save(path)
    with pytest.raises(ValueError, match=r"got a model that has .*mu='much'.*fitting it again"):
        ICPQR().fit(X).set_params(mu="much").save(path)
    assert list(tmp_path.iterdir()) == []


def test_a_saved_model_holds_no_training_row_but_its_dictionary(tmp_path):
    """Looks for the bytes of every row; diffusion needs all of them and says so."""
    X = np.random.default_rng(5).standard_normal((60, 4))
    for model in (ICPQR(mu=2.0, center=False), KernelICPQR(0.8, kernel="polynomial")):
        model.fit(X).save(tmp_path / "model")
        content = (tmp_path / "model").read_bytes()
        found = {i for i, row in enumerate(X) if row.tobytes() in content}
        assert found == set(model.dictionary_indices_.tolist()) != set(range(60))
    diffusion = DiffusionICPQR("20%", kernel="polynomial").fit(np.abs(X))
    diffusion.save(tmp_path / "model")
    content = (tmp_path / "model").read_bytes()
    assert all(row.tobytes() in content for row in np.abs(X))
    assert "training row" in DiffusionICPQR.save.__doc__


def test_varying_diagonals_survive(tmp_path):
    X, Q = points() / 10.0, points(seed=1) / 10.0
    model = KernelICPQR("5%", kernel="precomputed").fit(X @ X.T)
    loaded = again(model, tmp_path)
    diagonal = (Q**2).sum(axis=1)
    assert_same(model.predict(Q @ X.T, diagonal), loaded.predict(Q @ X.T, diagonal))
    with pytest.raises(ValueError, match="got no diagonal"):
        loaded.predict(Q @ X.T)
    dense = DiffusionICPQR("20%", kernel="polynomial").fit(np.abs(X))
    assert_same(dense.predict(np.abs(Q)), again(dense, tmp_path).predict(np.abs(Q)))
    walk = DiffusionICPQR("20%", kernel="precomputed").fit(gram(X, X))
    assert_same(walk.predict(gram(Q, X)), again(walk, tmp_path).predict(gram(Q, X)))


def test_table_models_hold_preparation_and_estimator(tmp_path):
    pd = pytest.importorskip("pandas")
    data = pytest.importorskip("isopivot.data")
    frame = pd.DataFrame(points(), columns=[f"c{j}" for j in range(6)])
    table = data.Table(frame, tuple(frame.columns))
    preparation = data.Preparation.learn(table, data.PreparationOptions(scale="standardize"))
    X = preparation.apply(table).X
    model = TableModel(preparation, ICPQR("20%").fit(X))
    loaded = again(model, tmp_path)
    assert isinstance(loaded, TableModel)
    assert loaded.preparation == preparation
    assert_same(loaded.preparation.apply(table).X, X)
    assert_same(loaded.estimator.transform(X), model.estimator.transform(X))
    with pytest.raises(NotFittedError):
        TableModel(preparation, ICPQR()).save(tmp_path / "other")
    TableModel(preparation, ICPQR().fit(X[:, :3])).save(tmp_path / "other")
    with pytest.raises(ModelError, match="preparation for another estimator"):
        load(tmp_path / "other")


@pytest.mark.parametrize("path", sorted(FIXTURES.glob("*.isopivot")), ids=lambda path: path.stem)
def test_files_of_format_1_load_and_answer_as_when_they_were_written(path):
    """The files are committed: whatever this version writes, it still reads these."""
    model = load(path)
    with np.load(FIXTURES / "expected.npz", allow_pickle=False) as stored:
        expected = {k.split("/")[1]: stored[k] for k in stored if k.startswith(f"{path.stem}/")}
    answers = json.loads((FIXTURES / "expected.json").read_text())[path.stem]
    assert repr(model) == answers["repr"]
    queries = expected.pop("queries")
    assert expected
    for method, values in expected.items():
        got = np.asarray(getattr(model, method)(queries))
        if values.dtype.kind != "f":
            np.testing.assert_array_equal(got, values)
            continue
        # Another BLAS rounds otherwise: a length by the floor of the certificate, here and
        # there; an interval has two ends, a distance two points.
        rtol = 1000 * float(np.finfo(values.dtype).eps)
        np.testing.assert_allclose(got, values, rtol=rtol, atol=8 * answers["floor"])


def test_there_is_a_committed_file_of_every_estimator():
    kinds = {type(load(path)).__name__ for path in FIXTURES.glob("*.isopivot")}
    assert kinds == {"ICPQR", "KernelICPQR", "DiffusionICPQR", "ICPQRClassifier"}
    assert all(path.stat().st_size < 30_000 for path in FIXTURES.iterdir())


def test_every_estimator_of_the_package_can_be_saved():
    public = [getattr(isopivot, name) for name in isopivot.__all__]
    estimators = [c for c in public if isinstance(c, type) and issubclass(c, BaseEstimator)]
    assert len(estimators) == 4
    assert all(callable(estimator.save) for estimator in estimators)
