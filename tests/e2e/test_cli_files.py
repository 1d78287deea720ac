"""Tables in, models and tables out: the installed command on files of every kind."""

import csv
import io
import json
import os
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from sklearn.preprocessing import StandardScaler

from command_line import COMMAND, ENVIRONMENT, Commands, isopivot
from isopivot import ICPQR, KernelICPQR, load
from isopivot.cli import _checks
from isopivot.data import read_table, write_table
from isopivot.persistence import ModelError, read_model, write_model

pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")
pytest.importorskip("typer")
pytest.importorskip("plotly")

PAGE = Path(__file__).resolve().parents[2] / "docs" / "command-line.md"
NAMES = ["a", "b", "c", "d", "e"]
EPS = float(np.finfo(np.float64).eps)


def make_tables(folder):
    """A flat cloud of two classes, normal rows beside it, and rows of which some stick out."""
    rng = np.random.default_rng(0)
    axes = np.diag([9.0, 5.0, 3.0, 0.2, 0.1])

    def table(n, start):
        X = rng.standard_normal((n, 5)) @ axes
        kinds = rng.integers(0, 2, n)
        X[:, 0] += 20.0 * kinds
        frame = pd.DataFrame(X, columns=NAMES)
        frame.insert(0, "name", [f"{i:04d}" for i in range(start, start + n)])
        frame["kind"] = np.array(["left", "right"])[kinds]
        return frame

    train, normal, new = table(200, 0), table(150, 1000), table(40, 2000)
    new.loc[:4, "e"] += 30.0
    for name, frame in (("train", train), ("normal", normal), ("new", new)):
        frame.to_csv(folder / f"{name}.csv", index=False)
    shuffled = new[["e", "kind", "c", "a", "name", "d", "b"]].assign(more="text")
    shuffled.to_csv(folder / "shuffled.csv", index=False)
    new[NAMES].to_csv(folder / "nameless.csv", index=False)
    far = train.assign(e=train["e"] + 50.0 * rng.standard_normal(200))
    far.to_csv(folder / "far.csv", index=False)


FITS = {
    "linear": ["--mu", "1", "--drop", "kind"],
    "kernel": ["--kernel", "rbf", "--mu", "0.2", "--drop", "kind", "--standardize"],
    "diffusion": ["--diffusion", "--mu", "20%", "--label", "kind", "--t", "2"],
    "classes": ["--label", "kind"],
    "kernel-classes": ["--label", "kind", "--kernel", "rbf", "--mu", "0.3", "--unit-box"],
    "rotated": ["-n", "2", "--drop", "kind", "--rotate", "--no-center", "--embedding"],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    make_tables(folder)
    return folder


@pytest.fixture(scope="module")
def each(folder, tmp_path_factory):
    with Commands(tmp_path_factory.mktemp("logs")) as run:
        yield lambda commands, cwd=folder: run(commands, cwd)


@pytest.fixture(scope="module")
def fits(folder, each):
    commands = [
        ["fit", "train.csv", "--id", "name", "-m", name, *options, "--json"]
        for name, options in FITS.items()
    ]
    done = each(commands)
    return {name: one.json for name, one in zip(FITS, done, strict=True)}


def features(frame):
    """Return the rows as the preparation lays them out: sums depend on the order."""
    return np.ascontiguousarray(frame[NAMES].to_numpy())


def table(path):
    return pd.read_csv(path, dtype={"name": str})


# -- fit ----------------------------------------------------------------------------------


def test_fit_gives_the_model_that_python_gives(folder, fits):
    X = features(table(folder / "train.csv"))
    model = ICPQR(mu=1.0).fit(X)
    saved = load(folder / "linear")
    assert fits["linear"]["certificate"] == model.certificate_.to_dict()
    assert saved.estimator.dictionary_indices_.tolist() == model.dictionary_indices_.tolist()
    names = table(folder / "train.csv")["name"][model.dictionary_indices_]
    assert saved.dictionary_ids == (tuple(names),)
    assert saved.estimator.feature_names_in_.tolist() == NAMES
    scaled = KernelICPQR(mu=0.2).fit(StandardScaler().fit_transform(X))
    # Two ways to compute a deviation: the last digit.
    expected = scaled.certificate_.distortion_bound
    assert fits["kernel"]["certificate"]["distortion_bound"] == pytest.approx(expected, rel=1e-6)


def test_fit_takes_the_options_to_the_estimator(folder, fits):
    parameters = {name: load(folder / name).estimator.get_params() for name in FITS}
    assert parameters["rotated"]["n_components"] == 2
    assert parameters["rotated"]["mu"] is None
    assert parameters["rotated"]["rotate"] is True
    assert parameters["rotated"]["center"] is False
    assert parameters["diffusion"]["t"] == 2
    assert parameters["kernel-classes"]["kernel"] == "rbf"
    assert parameters["classes"]["mu"] == "auto"
    assert load(folder / "rotated").estimator.embedding_.shape == (200, 2)
    with pytest.raises(AttributeError, match="was not saved"):
        _ = load(folder / "linear").estimator.embedding_


def test_fit_says_what_it_promises_and_where_the_model_is(each):
    words, short, empty = each(
        [
            ["fit", "train.csv", "--id", "name", "--drop", "kind", "--mu", "1", "-m", "words"],
            ["fit", "train.csv", "--drop", "kind,name", "--mu", "0.1", "-n", "2", "-m", "short"],
            ["fit", "train.csv", "--columns", "a,b", "--mu", "1e9", "-m", "empty"],
        ]
    )
    assert "ICPQR fitted to 200 rows of 5 features from train.csv." in words.stdout
    assert re.search(r"Kept 3 of 5 dimensions: no distance .* by more than 1\.\d+", words.stdout)
    assert re.search(r"Model: words \(\d+ kB\)", words.stdout)
    assert words.stderr == ""
    assert "The mu asked for was not reached" in short.stdout
    assert "Nothing was kept" in empty.stdout


@pytest.mark.usefixtures("fits")
@pytest.mark.parametrize(
    ("name", "ids"),
    [
        ("linear", None),
        ("linear", ["0001"]),
        ("linear", [["0001"]]),
        ("linear", [[None, [], {}]]),
        ("classes", [["0001"]]),
    ],
)
def test_ids_that_do_not_fit_the_dictionary_are_refused(folder, tmp_path, name, ids):
    tree = read_model(folder / name)
    write_model(tmp_path / "m", tree | {"dictionary_ids": ids})
    with pytest.raises(ModelError, match=r"as model\.dictionary_ids; allowed is a list"):
        load(tmp_path / "m")


# -- transform, score, classify -----------------------------------------------------------


FORMATS = ["csv", "tsv", "csv.gz", "tsv.gz", "parquet", "feather", "npz", "npy"]


@pytest.mark.usefixtures("fits")
def test_every_format_goes_in_and_comes_out(folder, each):
    new = table(folder / "new.csv")
    for kind in FORMATS:
        # NPY has no names: they are x0, x1, ... there.
        columns = new[NAMES] if kind == "npy" else new[["name", *NAMES]]
        write_table(folder / f"in.{kind}", columns, id_name=None if kind == "npy" else "name")
    new[NAMES].to_csv(folder / "bare.csv", index=False, header=[f"x{j}" for j in range(5)])
    bare = table(folder / "train.csv")[NAMES].to_numpy()
    np.save(folder / "bare.npy", bare)
    done = each(
        [["fit", "bare.npy", "--mu", "1", "-m", "bare"]]
        + [
            ["transform", "bare" if kind == "npy" else "linear", f"in.{kind}", "-o", f"out.{kind}"]
            for kind in FORMATS
        ]
        + [["transform", "linear", "in.csv", "-o", "out-sparse.npz", "--to", "sparse"]]
    )
    assert [one.returncode for one in done] == [0] * (len(FORMATS) + 2), done
    F = load(folder / "linear").estimator.transform(new[NAMES])
    for kind in FORMATS:
        result = read_table(folder / f"out.{kind}", text=["name"])
        numbers = result.values
        if kind != "npy":
            assert result.columns == ("name", "icpqr0", "icpqr1", "icpqr2")
            assert result.values["name"].tolist() == new["name"].tolist()
            numbers = result.values.drop(columns="name")
        assert np.array_equal(numbers.to_numpy(), F), kind
    written = sparse.load_npz(folder / "out-sparse.npz").toarray()
    assert np.array_equal(written, F)


@pytest.mark.usefixtures("fits")
def test_sparse_tables(folder, each):
    X = sparse.random_array((300, 40), density=0.1, rng=0).tocsr()
    sparse.save_npz(folder / "sparse.npz", X)
    fitted, placed, checked = each(
        [
            ["fit", "sparse.npz", "--mu", "40%", "-m", "sparse"],
            ["transform", "sparse", "sparse.npz", "-o", "sparse.csv"],
            ["certify", "sparse", "sparse.npz", "--json"],
        ]
    )
    assert fitted.returncode == placed.returncode == 0
    F = pd.read_csv(folder / "sparse.csv").drop(columns="row").to_numpy()
    expected = ICPQR("40%").fit(X).transform(X)
    assert np.abs(F - expected).max() <= 64 * EPS * np.sqrt(X.power(2).sum(axis=1).max())
    assert checked.json["holds"]


@pytest.mark.usefixtures("fits")
def test_columns_may_come_in_any_order_with_others_among_them(folder, each):
    scored = each(
        [
            ["score", "kernel", "new.csv", "-o", "scores.csv"],
            ["score", "kernel", "shuffled.csv", "-o", "shuffled-scores.csv"],
            ["score", "kernel", "nameless.csv", "-o", "nameless-scores.csv"],
        ]
    )
    assert [one.returncode for one in scored] == [0, 0, 0]
    assert scored[0].stderr == ""
    assert "note: shuffled.csv: ignored, as the model has no 'more'" in scored[1].stderr
    assert "no id column 'name'; rows are numbered from 0" in scored[2].stderr
    plain = (folder / "scores.csv").read_text()
    assert (folder / "shuffled-scores.csv").read_text() == plain
    numbered = pd.read_csv(folder / "nameless-scores.csv")
    assert list(numbered.columns) == ["row", "distortion_rate", "anomaly"]
    assert numbered["row"].tolist() == list(range(40))


@pytest.mark.usefixtures("fits")
def test_scores_and_the_conformal_threshold(folder, each):
    calibrated = ["--false-alarm-rate", "1%", "--calibrate", "normal.csv"]
    plain, set_by, shown = each(
        [
            ["score", "linear", "new.csv", "-o", "plain.csv", "--json"],
            ["score", "linear", "new.csv", "-o", "set.csv", "--json", *calibrated],
            ["score", "linear", "new.csv", *calibrated],
        ]
    )
    model = load(folder / "linear").estimator
    new, normal = (table(folder / f"{name}.csv")[NAMES] for name in ("new", "normal"))
    assert plain.json["threshold"] == model.threshold_
    scores = table(folder / "set.csv")
    assert np.array_equal(scores["distortion_rate"], model.distortion_rate(new))
    model.calibrate(normal, 0.01)
    assert set_by.json["threshold"] == model.threshold_ != plain.json["threshold"]
    assert set_by.json["false_alarm_rate"] == 0.01
    assert scores["anomaly"].tolist() == (model.predict(new) == -1).astype(int).tolist()
    assert scores["anomaly"][:5].all()
    assert set_by.json["anomalies"] == scores["anomaly"].sum() < 20
    assert shown.stdout == (folder / "set.csv").read_text()
    assert "rows are anomalies" in shown.stderr
    assert "set to give 1% of normal rows a false alarm" in shown.stderr
    assert shown.stderr.splitlines()[-1].startswith("Only this run has this threshold")


@pytest.mark.usefixtures("fits")
@pytest.mark.parametrize("name", ["linear", "rotated"])
def test_a_calibrated_model_is_kept(folder, each, name):
    first = load(folder / name)
    target = f"calibrated-{name}"
    calibrated = ["--false-alarm-rate", "1%", "--calibrate", "normal.csv"]
    first.save(folder / target, embedding=hasattr(first.estimator, "embedding_"))
    scored, again, why, page = each(
        [
            ["score", target, "new.csv", "-o", "kept.csv", *calibrated, "--save-model", target],
            ["score", target, "new.csv", "-o", "again.csv", "--json"],
            ["explain", target, "new.csv", "--row", "2003", "--json"],
            ["report", target, "new.csv", "-o", "kept.html"],
        ]
    )
    assert scored.stdout.splitlines()[-1] == f"Model with this threshold: {target}"
    normal = table(folder / "normal.csv")[NAMES]
    threshold = first.estimator.calibrate(normal, 0.01).threshold_
    kept = load(folder / target)
    assert again.json["threshold"] == why.json["threshold"] == kept.estimator.threshold_
    assert kept.estimator.threshold_ == threshold
    assert again.json["false_alarm_rate"] == 0.01
    assert (folder / "again.csv").read_text() == (folder / "kept.csv").read_text()
    assert kept.dictionary_ids == first.dictionary_ids
    assert hasattr(kept.estimator, "embedding_") == (name == "rotated")
    assert page.returncode == 0
    assert f'"thresholdText":"{threshold:.6g}"' in (folder / "kept.html").read_text()


@pytest.mark.usefixtures("fits")
def test_other_rows_in_the_number_of_the_fitted_ones_calibrate(folder, each):
    frame = table(folder / "train.csv")
    flat = frame.assign(**{name: frame[name] / 2 for name in NAMES})
    flat.to_csv(folder / "half.csv", index=False)
    asked = ["--false-alarm-rate", "5%", "--calibrate"]
    done = each(
        [
            ["fit", "train.csv", "--id", "name", "--drop", "kind", "--mu", "1e9", "-m", "none"],
            ["score", "none", "new.csv", "-o", "n.csv", *asked, "half.csv"],
            ["score", "none", "new.csv", "-o", "n.csv", *asked, "train.csv"],
            ["score", "kernel", "new.csv", "-o", "n.csv", *asked, "train.csv"],
            ["score", "diffusion", "new.csv", "-o", "n.csv", *asked, "train.csv"],
        ]
    )
    assert [one.returncode for one in done] == [0, 0, 2, 2, 2]


def test_one_row_and_equal_rows_are_called_what_they_are(folder, each):
    (folder / "one.csv").write_text("a,b\n1,2\n")
    (folder / "equal.csv").write_text("a,b\n1,2\n1,2\n")
    one, checked, equal, piped = each(
        [
            ["fit", "one.csv", "-m", "one"],
            ["certify", "one", "one.csv"],
            ["fit", "equal.csv", "-m", "equal"],
            ["score", "equal", "one.csv", "-o", "scores.csv"],
        ]
    )
    assert "fitted to 1 row of 2 features" in one.stdout
    assert "One row has no distances to keep" in one.stdout
    assert "smaller --mu" not in one.stdout + equal.stdout
    assert "1 fitted row has no pairs, so there was nothing to measure." in checked.stdout
    assert "Nothing was kept, because all rows are equal." in equal.stdout
    assert piped.stdout.startswith("None of 1 rows is an anomaly: no distortion rate exceeds")


def test_a_model_of_a_table_shows_its_sizes(folder, fits):
    kept = fits["linear"]["certificate"]["n_components"]
    assert repr(load(folder / "linear")) == (
        f"TableModel(ICPQR, dictionary rows: {kept}, features: 5)"
    )
    classes = load(folder / "classes")
    kept = sum(part.n_components_ for part in classes.estimator.estimators_)
    assert repr(classes).startswith(f"TableModel(ICPQRClassifier, dictionary rows: {kept},")


@pytest.mark.usefixtures("fits")
@pytest.mark.parametrize("name", ["classes", "kernel-classes"])
def test_classes(folder, each, name):
    told, blind = each(
        [
            ["classify", name, "new.csv", "-o", "classes.csv", "--json"],
            ["classify", name, "nameless.csv", "-o", "blind.csv", "--json"],
        ]
    )
    found, new = table(folder / "classes.csv"), table(folder / "new.csv")
    assert list(found.columns) == ["name", "label", "rate_left", "rate_right"]
    assert found["name"].tolist() == new["name"].tolist()
    assert told.json["accuracy"] == np.mean(found["label"] == new["kind"]) > 0.7
    smallest = np.where(found["rate_left"] <= found["rate_right"], "left", "right")
    assert found["label"].tolist() == smallest.tolist()
    assert blind.json["accuracy"] is None
    assert pd.read_csv(folder / "blind.csv")["label"].tolist() == found["label"].tolist()


@pytest.mark.usefixtures("fits")
def test_new_rows_may_have_an_empty_label_column(folder, each):
    new = table(folder / "new.csv")
    new.assign(kind="").to_csv(folder / "unlabelled.csv", index=False)
    done, checked = each(
        [
            ["classify", "classes", "unlabelled.csv", "-o", "c.csv", "--json"],
            ["certify", "classes", "unlabelled.csv"],
        ]
    )
    assert done.json["accuracy"] is None
    assert "has no label in column 'kind'" in done.json["notices"][0]
    assert checked.returncode == 3
    assert "promises distances within each class" in checked.stderr


# -- explain, landmarks, certify, report --------------------------------------------------


@pytest.mark.usefixtures("fits")
def test_explanations_name_features_and_rows(each):
    done = each(
        [["explain", name, "new.csv", "--row", "2003", "--json"] for name in FITS]
        + [["explain", "linear", "new.csv", "--row", "2003", "--top", "1"]]
    )
    answers = {name: one.json for name, one in zip(FITS, done[:-1], strict=True)}
    linear = answers["linear"]
    assert linear["row"] == "2003"
    assert linear["anomaly"] is True
    assert linear["contributions"][0]["feature"] == "e"
    sizes = [part["contribution"] for part in linear["contributions"]]
    assert [abs(size) for size in sizes] == sorted(map(abs, sizes), reverse=True)
    # Two routes to one length of about 30.
    assert np.hypot.reduce(sizes) == pytest.approx(linear["distortion_rate"], rel=1e-12)
    for answer in answers.values():
        assert all(re.fullmatch("0[0-9]{3}", part["id"]) for part in answer["neighbors"])
    assert len(answers["kernel"]["neighbors"]) == 5
    assert answers["diffusion"]["contributions"] is None
    rates = answers["classes"]["rates"]
    assert answers["classes"]["label"] == min(rates, key=rates.get)
    assert "Row 2003: distortion rate" in done[-1].stdout
    assert "and 4 more (--top)" in done[-1].stdout


@pytest.mark.usefixtures("fits")
def test_landmarks(folder, each):
    options = ["train.csv", "--id", "name", "--label", "kind"]
    shown, saved, told, kernel = each(
        [
            ["landmarks", *options, "-n", "3"],
            ["landmarks", *options, "--mu", "1", "-o", "marks.parquet"],
            ["landmarks", *options, "-n", "3", "--json"],
            ["landmarks", *options, "-n", "7", "--kernel", "rbf", "--standardize"],
        ]
    )
    frame = table(folder / "train.csv")
    model = ICPQR(mu=None, n_components=3).fit(features(frame))
    rows = list(csv.DictReader(io.StringIO(shown.stdout)))
    assert list(rows[0]) == ["name", "residual", "remaining"]
    assert [row["name"] for row in rows] == frame["name"][model.dictionary_indices_].tolist()
    assert [float(row["residual"]) for row in rows] == model.pivot_residuals_.tolist()
    assert [float(row["remaining"]) for row in rows] == model.path_[1:, 0].tolist()
    assert saved.returncode == 0
    assert pd.read_parquet(folder / "marks.parquet")["name"].tolist() == [r["name"] for r in rows]
    assert [mark["name"] for mark in told.json["landmarks"]] == [row["name"] for row in rows]
    assert len(kernel.stdout.splitlines()) == 8


@pytest.mark.usefixtures("fits")
def test_promises_are_checked(each):
    names = list(FITS)
    done = each(
        [["certify", name, "train.csv", "--json"] for name in names]
        + [["certify", name, "new.csv", "--json"] for name in names]
    )
    for one in done[: len(names)]:
        assert one.returncode == 0
        for part in one.json["checks"]:
            assert part["fitted_rows"]
            assert part["bound_from"] == "certificate of the model"
            assert 0 <= part["actual"] <= part["bound"] + part["rounding"]
            assert part["rows_measured"] == part["rows"]
            assert all(re.fullmatch("0[0-9]{3}", row) for row in part["worst_pair"])
    for one in done[len(names) :]:
        assert one.returncode == 0
        for part in one.json["checks"]:
            assert part["bound_from"] == "rates of these rows"
            assert part["actual"] <= part["bound"] + part["rounding"]


@pytest.mark.usefixtures("fits")
def test_the_worst_pair_is_the_worst(folder, each):
    (done,) = each([["certify", "linear", "train.csv", "--json"]])
    (part,) = done.json["checks"]
    frame, model = table(folder / "train.csv"), load(folder / "linear").estimator
    X, F = features(frame), model.transform(frame[NAMES])
    d, e = (np.linalg.norm(M[:, None] - M[None], axis=2) for M in (X, F))
    change = np.abs(d - e)
    i, j = (frame["name"].tolist().index(name) for name in part["worst_pair"])
    scale = EPS * np.linalg.norm(X, axis=1).max()
    assert part["actual"] == pytest.approx(change.max(), abs=32 * scale)
    assert change[i, j] == pytest.approx(change.max(), abs=32 * scale)


def test_feature_space_is_searched_for_the_worst_pair(monkeypatch):
    X = np.random.default_rng(0).standard_normal((1200, 3))
    model = KernelICPQR(mu=0.3, epsilon=2.0).fit(X)
    done = _checks.check(model, X, lambda done, most: None)
    K = np.exp(-((X[:, None] - X[None]) ** 2).sum(axis=2) / 2.0)
    F = model.transform(X)
    d, e = np.sqrt(2.0 - 2.0 * K), np.linalg.norm(F[:, None] - F[None], axis=2)
    change = np.abs(d - e)
    # A squared distance is off by a few roundings, its root by the root of them near 0.
    assert done.actual == pytest.approx(change.max(), abs=np.sqrt(16 * EPS))
    assert change[done.pair] == pytest.approx(change.max(), abs=np.sqrt(16 * EPS))
    assert done.holds
    assert (done.measured, done.own_bound, done.beyond) == (1200, False, 0)
    monkeypatch.setattr(_checks, "MOST_KERNEL", 100)
    some = _checks.check(model, X, lambda done, most: None)
    assert some.measured == 100
    assert 0 < some.actual <= done.actual + np.sqrt(16 * EPS)


@pytest.mark.usefixtures("fits")
def test_a_false_promise_is_found(folder, each):
    model = load(folder / "linear")
    honest = model.estimator.certificate_
    # As small as a residual may be beside the others: only the bound tells a lie.
    model.estimator.certificate_ = replace(honest, distortion_bound=honest.distortion_bound / 100)
    model.save(folder / "liar")
    lied, drifted, strict, said, words, walks = each(
        [
            ["certify", "liar", "train.csv", "--json"],
            ["certify", "linear", "far.csv"],
            ["certify", "linear", "far.csv", "--strict", "--json"],
            ["certify", "linear", "far.csv", "--strict"],
            ["certify", "liar", "train.csv"],
            ["certify", "diffusion", "train.csv"],
        ]
    )
    assert lied.returncode == words.returncode == 1
    assert lied.json["holds"] is False
    assert "The promise does NOT hold." in words.stdout
    assert drifted.returncode == 0
    assert re.search(r"\d+ rows are farther from the dictionary than mu", drifted.stdout)
    assert strict.returncode == 1
    assert strict.json["checks"][0]["rows_beyond_mu"] > 100
    assert "--strict holds them to it" in drifted.stdout
    assert "they are held to it here" in said.stdout
    assert "diffusion distances, which the model's route computes exactly" in walks.stdout


def test_a_model_that_sees_no_anomalies_says_so(folder, each):
    (folder / "plane.csv").write_text("a,b\n1,2\n3,5\n4,4\n")
    (folder / "off.csv").write_text("a,b\n1e6,-1e6\n")
    fitted, scored, other = each(
        [
            ["fit", "plane.csv", "-m", "plane"],
            ["score", "plane", "off.csv"],
            ["fit", "plane.csv", "-m", "curved", "--kernel", "rbf"],
        ]
    )
    note = "note: the dictionary spans all 2 features, so every rate is rounding and score finds no"
    assert note in fitted.stderr
    assert note in scored.stderr
    assert "spans all" not in other.stderr


@pytest.mark.usefixtures("fits")
def test_reports(folder, each):
    done = each(
        [
            ["report", "linear", "train.csv", "-o", "linear.html", "--json"],
            ["report", "diffusion", "train.csv", "-o", "diffusion.html", "--title", "A <title>"],
        ]
    )
    assert done[0].json["rows"] == 200
    assert done[1].returncode == 0
    assert done[1].stderr == ""
    page = (folder / "linear.html").read_text(encoding="utf-8")
    assert "0007" in page
    assert "<h1>A &lt;title&gt;</h1>" in (folder / "diffusion.html").read_text(encoding="utf-8")


# -- odds and ends of tables --------------------------------------------------------------


def test_preparation_is_part_of_the_model(tmp_path, each):
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"x": rng.standard_normal(60), "y": rng.standard_normal(60) * 9.0})
    frame["colour"] = np.array(["red", "green", "blue"])[rng.integers(0, 3, 60)]
    frame.loc[7, "y"] = np.nan
    frame.to_csv(tmp_path / "t.csv", index=False)
    pd.DataFrame({"y": [1.0], "colour": ["mauve"], "x": [None]}).to_csv(
        tmp_path / "n.csv", index=False
    )
    options = ["--impute", "median", "--one-hot", "--unit-box", "--mu", "0"]
    fitted, scored = each(
        [
            ["fit", "t.csv", "-m", "m", *options, "--json"],
            ["score", "m", "n.csv", "-o", "s.csv", "--json"],
        ],
        cwd=tmp_path,
    )
    assert fitted.json["features"] == 5
    assert fitted.json["notices"] == ["t.csv: 1 missing values filled by medians"]
    assert any("texts unknown to the model" in text for text in scored.json["notices"])
    assert scored.json["rows"] == 1


def test_the_index_of_pandas_is_no_column(tmp_path, each):
    frame = pd.DataFrame({"x": [1.0, 2.0, 4.0], "y": [0.0, 1.0, 1.0]}, index=["a", "b", "c"])
    frame.to_parquet(tmp_path / "t.parquet")
    frame.rename_axis("key").to_feather(tmp_path / "t.feather")
    done = each(
        [
            ["fit", f"t.{kind}", "--mu", "0", "-m", kind, "--json"]
            for kind in ("parquet", "feather")
        ],
        cwd=tmp_path,
    )
    assert [one.json["features"] for one in done] == [2, 2]


def test_formulas_are_not_handed_to_spreadsheets(tmp_path, each):
    ids = ["=1+1", "+cmd", "-2+3", "@sum", "plain", "it's"]
    labels = ["=evil()", "=evil()", "=evil()", "good", "good", "good"]
    rows = np.random.default_rng(0).standard_normal((6, 2))
    frame = pd.DataFrame({"id": ids, "x": rows[:, 0], "y": rows[:, 1], "kind": labels})
    frame.to_parquet(tmp_path / "t.parquet")
    done = each(
        [
            ["fit", "t.parquet", "--id", "id", "--label", "kind", "-m", "m"],
            ["classify", "m", "t.parquet"],
            ["classify", "m", "t.parquet", "-o", "out.parquet"],
        ],
        cwd=tmp_path,
    )
    header, *cells = list(csv.reader(io.StringIO(done[1].stdout)))
    assert header == ["id", "label", "rate_=evil()", "rate_good"]
    assert [row[0] for row in cells] == ["'=1+1", "'+cmd", "'-2+3", "'@sum", "plain", "it's"]
    assert {row[1] for row in cells} <= {"'=evil()", "good"}
    assert pd.read_parquet(tmp_path / "out.parquet")["id"].tolist() == ids


def test_a_first_line_of_numbers_is_data(tmp_path):
    rows = b"1,2\n3,4\n7,5\n"
    done = isopivot("fit", "-", "--mu", "0", "-m", "m", cwd=tmp_path, stdin=rows)
    assert "fitted to 3 rows of 2 features" in done.stdout
    assert "the first line holds only numbers and was read as data" in done.stderr


@pytest.mark.usefixtures("fits")
def test_pipes(folder):
    script = 'cat new.csv | "$0" transform linear - --to tsv | "$0" landmarks - -n 2 --id name'
    done = isopivot(start=["bash", "-c", script, COMMAND], cwd=folder)
    header, *marks = done.stdout.splitlines()
    assert header == "name,residual,remaining"
    assert [re.match("20[0-9]{2},", mark) is not None for mark in marks] == [True, True]


def test_a_model_saved_from_python(tmp_path, each):
    X = np.random.default_rng(0).standard_normal((50, 3))
    frame = pd.DataFrame(X, columns=["u", "v", "w"], copy=False)
    frame.assign(z=1.0)[["w", "z", "v", "u"]].to_csv(tmp_path / "t.csv", index=False)
    np.save(tmp_path / "t.npy", X)
    ICPQR(n_components=2).fit(frame).save(tmp_path / "named")
    ICPQR(n_components=2).fit(X).save(tmp_path / "bare")
    named, bare, wrong = each(
        [
            ["transform", "named", "t.csv", "-o", "named.npy"],
            ["transform", "bare", "t.npy", "-o", "bare.npy"],
            ["transform", "bare", "t.csv"],
        ],
        cwd=tmp_path,
    )
    assert named.returncode == bare.returncode == 0
    assert np.array_equal(np.load(tmp_path / "named.npy"), np.load(tmp_path / "bare.npy"))
    assert wrong.returncode == 3
    assert "has 4 columns where the model has 3 features" in wrong.stderr


# -- the page -----------------------------------------------------------------------------


def test_the_page_tells_the_truth(tmp_path):
    """Run the page's commands one after another; what it shows is what they print."""
    blocks = re.findall(r"```(sh|text|python)\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    assert [kind for kind, _ in blocks] == ["sh", "text"] * 5 + ["python"]
    path = f"{COMMAND.parent}{os.pathsep}{ENVIRONMENT['PATH']}"
    shown = [content for kind, content in blocks if kind == "text"]
    for (_, script), expected in zip(blocks[:10:2], shown, strict=True):
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=tmp_path,
            env=ENVIRONMENT | {"PATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode in (0, 141), done.stderr  # head leaves early
        assert rounded(done.stdout) == rounded(expected)
    assert json.loads((tmp_path / "done.json").read_text())["rows"] == 65
    start = [str(COMMAND.with_name("python")), "-c", blocks[-1][1]]
    assert isopivot(start=start, cwd=tmp_path).returncode == 0
    assert (tmp_path / "from-python.html").stat().st_size > 1e6


def rounded(text):
    """Return text with long decimals cut: their last digits differ between machines."""
    return re.sub(r"(\d\.\d{9})\d+", r"\1", text)
