"""Data sets come from the folder, else from scikit-learn, else with an error naming both ways."""

import os
from pathlib import Path
from types import SimpleNamespace
from urllib.error import URLError

import numpy as np
import pytest
import sklearn.datasets

from isopivot.datasets import (
    ISOLET_PARTS,
    KDD99_FAMILIES,
    LETTERS,
    load_isolet,
    load_kdd99,
)

needs_data = [
    pytest.mark.data,
    pytest.mark.skipif("ISOPIVOT_DATA" not in os.environ, reason="ISOPIVOT_DATA is not set"),
]
LOADERS = [(load_isolet, "isolet", "fetch_openml"), (load_kdd99, "kdd99", "fetch_kddcup99")]


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object, **kwargs: object) -> None:
        raise URLError("no network")

    for _, _, fetcher in LOADERS:
        monkeypatch.setattr(sklearn.datasets, fetcher, fail)


# -- the folder -------------------------------------------------------------------------------


def write_isolet(folder: Path) -> np.ndarray:
    """Two training rows and one test row as the folder keeps them; returns the true values."""
    values = np.array([[0.1234, -1.0], [0.3333, 0.0007], [-0.4567, 1.0]])
    (folder / "isolet").mkdir()
    np.savez(
        folder / "isolet" / "isolet.npz",
        X_train=values[:2].astype(np.float32),
        y_train=np.array([1, 26], np.uint8),
        group_train=np.array([1, 4], np.uint8),
        X_test=values[2:].astype(np.float32),
        y_test=np.array([13], np.uint8),
    )
    return values


def test_isolet_in_single_precision_comes_back_exactly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_network: None
) -> None:
    values = write_isolet(tmp_path)
    monkeypatch.setenv("ISOPIVOT_DATA", str(tmp_path))
    X_train, y_train, groups, X_test, y_test = load_isolet()
    assert X_train.dtype == X_test.dtype == np.float64
    assert np.array_equal(np.vstack([X_train, X_test]), values)
    assert [*y_train, *y_test] == ["A", "Z", "M"]
    assert groups is not None
    assert groups.tolist() == [1, 4]


def test_kdd99_of_the_folder_has_both_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_network: None
) -> None:
    (tmp_path / "kdd99").mkdir()
    np.savez(
        tmp_path / "kdd99" / "kdd99.npz",
        feature_names=np.array(["duration", "src_bytes"]),
        label_names=np.array(["neptune", "normal"]),
        X_train10=np.array([[0.0, 181.0], [0.0, 0.0]]),
        label_train10=np.array([1, 0], np.uint8),
        X_test=np.array([[3.0, 5.0]]),
        label_test=np.array([1], np.uint8),
    )
    monkeypatch.setenv("ISOPIVOT_DATA", str(tmp_path))
    data = load_kdd99()
    assert data.feature_names == ("duration", "src_bytes")
    assert data.y_train10.tolist() == ["normal", "neptune"]
    assert data.X_test is not None
    assert data.y_test is not None
    assert data.X_test.tolist() == [[3.0, 5.0]]
    assert data.y_test.tolist() == ["normal"]


@pytest.mark.parametrize(("load", "name", "fetcher"), LOADERS)
@pytest.mark.parametrize("content", [b"", b"not an archive", None])
def test_a_broken_file_is_named_and_not_replaced_by_a_download(
    load, name, fetcher, content, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unwanted(*args: object, **kwargs: object) -> None:
        raise AssertionError("the fetcher was called")

    monkeypatch.setattr(sklearn.datasets, fetcher, unwanted)
    (tmp_path / name).mkdir()
    path = tmp_path / name / f"{name}.npz"
    if content is None:  # an archive of something else
        np.savez(path, X=np.zeros(3))
    else:
        path.write_bytes(content)
    monkeypatch.setenv("ISOPIVOT_DATA", str(tmp_path))
    with pytest.raises(OSError, match=rf"{name}\.npz, which is not .*unset ISOPIVOT_DATA"):
        load()


# -- the fetchers -----------------------------------------------------------------------------


def openml_table(codes: np.ndarray, quote: str = "") -> SimpleNamespace:
    """What fetch_openml returns for dense data with as_frame=False: floats, labels as text."""
    rng = np.random.default_rng(0)
    target = np.array([f"{quote}{code}{quote}" for code in codes], dtype=object)
    return SimpleNamespace(data=rng.uniform(-1, 1, (len(codes), 3)), target=target)


def original_order() -> np.ndarray:
    """Letters as in the five original files: every speaker says each letter twice."""
    parts = [list(np.repeat(np.arange(1, 27), 2)) * 30 for _ in range(5)]
    for code, part, absent in ((6, 3, 2), (13, 4, 1)):  # two F and one M were lost
        for _ in range(absent):
            parts[part].remove(code)
    return np.concatenate(parts)


@pytest.mark.parametrize("quote", ["", "'"])
def test_openml_rows_are_split_like_the_original_files(
    quote: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    codes = original_order()
    table = openml_table(codes, quote)
    asked = {}

    def fetch(name: str, **options: object) -> SimpleNamespace:
        asked.update(options, name=name)
        return table

    monkeypatch.delenv("ISOPIVOT_DATA", raising=False)
    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fetch)
    data = load_isolet()
    assert (asked["name"], asked["version"], asked["as_frame"]) == ("isolet", 1, False)
    assert data.X_train.shape == (6238, 3)
    assert data.X_test.shape == (1559, 3)
    assert np.array_equal(np.vstack([data.X_train, data.X_test]), np.round(table.data, 4))
    assert np.array_equal(np.r_[data.y_train, data.y_test], LETTERS[codes - 1])
    assert data.groups_train is not None
    assert np.bincount(data.groups_train).tolist() == [0, *ISOLET_PARTS]


def test_groups_are_none_where_the_order_does_not_tell_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    codes = original_order()
    codes[:6238] = np.sort(codes[:6238])
    monkeypatch.delenv("ISOPIVOT_DATA", raising=False)
    monkeypatch.setattr(sklearn.datasets, "fetch_openml", lambda *_, **__: openml_table(codes))
    assert load_isolet().groups_train is None


def test_openml_rows_in_an_unknown_order_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    codes = np.random.default_rng(0).permutation(original_order())
    monkeypatch.delenv("ISOPIVOT_DATA", raising=False)
    monkeypatch.setattr(sklearn.datasets, "fetch_openml", lambda *_, **__: openml_table(codes))
    with pytest.raises(FileNotFoundError, match="order of the original files"):
        load_isolet()


def test_kddcup99_loses_its_words_and_its_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    table = SimpleNamespace(
        data=np.array(
            [[0, b"tcp", b"http", b"SF", 181, 0.5], [2, b"udp", b"other", b"S0", 0, 1.0]],
            dtype=object,
        ),
        target=np.array([b"normal.", b"buffer_overflow."], dtype=object),
        feature_names=["duration", "protocol_type", "service", "flag", "src_bytes", "serror_rate"],
    )
    monkeypatch.delenv("ISOPIVOT_DATA", raising=False)
    monkeypatch.setattr(sklearn.datasets, "fetch_kddcup99", lambda **_: table)
    data = load_kdd99()
    assert data.feature_names == ("duration", "src_bytes", "serror_rate")
    assert data.X_train10.dtype == np.float64
    assert data.X_train10.tolist() == [[0.0, 181.0, 0.5], [2.0, 0.0, 1.0]]
    assert data.y_train10.tolist() == ["normal", "buffer_overflow"]
    assert data.X_test is None
    assert data.y_test is None


# -- neither ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("load", "name", "fetcher"), LOADERS)
@pytest.mark.parametrize("folder", [True, False])
def test_without_data_the_error_names_both_ways(
    load, name, fetcher, folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_network: None
) -> None:
    monkeypatch.delenv("ISOPIVOT_DATA", raising=False)
    if folder:
        monkeypatch.setenv("ISOPIVOT_DATA", str(tmp_path))
    way = rf"{fetcher}.*no network.*ISOPIVOT_DATA to a folder that holds {name}/{name}\.npz"
    with pytest.raises(FileNotFoundError, match=way):
        load()


def test_no_attack_is_in_two_families() -> None:
    attacks = [attack for family in KDD99_FAMILIES.values() for attack in family]
    assert len(attacks) == len(set(attacks)) == 39
    assert "normal" not in attacks


# -- the real sets ----------------------------------------------------------------------------


class TestRealData:
    """The sets of the folder are the published ones."""

    pytestmark = needs_data

    def test_isolet(self) -> None:
        data = load_isolet()
        assert data.X_train.shape == (6238, 617)
        assert data.X_test.shape == (1559, 617)
        assert np.abs(data.X_train).max() == 1.0
        assert np.array_equal(np.round(data.X_train, 4), data.X_train)
        letters, counts = np.unique(data.y_train, return_counts=True)
        assert letters.tolist() == LETTERS.tolist()
        assert dict(zip(letters, counts, strict=True)) == dict.fromkeys(LETTERS, 240) | {"F": 238}
        assert data.groups_train is not None
        assert np.bincount(data.groups_train).tolist() == [0, *ISOLET_PARTS]

    def test_kdd99(self) -> None:
        data = load_kdd99()
        assert data.X_train10.shape == (494021, len(data.feature_names)) == (494021, 38)
        assert data.X_test is not None
        assert data.y_test is not None
        assert data.X_test.shape == (311029, 38)
        assert np.count_nonzero(data.y_train10 == "normal") == 97278
        assert np.count_nonzero(data.y_test == "normal") == 60593
        known = {attack for family in KDD99_FAMILIES.values() for attack in family}
        assert set(data.y_train10) | set(data.y_test) == known | {"normal"}
