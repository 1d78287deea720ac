"""Tables go to every format and come back; files that are no tables say so in one line."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import pickle
import struct
import subprocess
import sys
import zipfile

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse

from isopivot.data import FileError, Table, _table, read_table, write_table

FRAME = pd.DataFrame({"name": ["a", "b", "c"], "x": [1.5, -2.0, 1e-300], "n": [1, 2, 3]})
FRAME_ENDINGS = [".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet", ".feather", ".pq", ".npz"]


def write(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def refusal(path, **options):
    """Read a bad file; return the message, which must be one readable line."""
    with pytest.raises(FileError, match=r".+") as caught:
        read_table(path, **options)
    message = str(caught.value)
    assert message.isprintable()
    assert ";" in message, "what was found and the remedy are set apart by a semicolon"
    return message


# There and back


@pytest.mark.parametrize("ending", FRAME_ENDINGS)
def test_a_table_survives_writing_and_reading(tmp_path, ending):
    path = tmp_path / f"table{ending}"
    write_table(path, FRAME)
    table = read_table(path)
    assert table.columns == ("name", "x", "n")
    assert table.name == path.name
    for column in table.columns:
        assert table.values[column].tolist() == FRAME[column].tolist()
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name], "no temporary file stays"


@pytest.mark.parametrize("ending", FRAME_ENDINGS)
def test_the_frames_index_is_not_written(tmp_path, ending):
    path = tmp_path / f"table{ending}"
    write_table(path, FRAME.set_index(pd.Index([7, 8, 9], name="index")))
    assert set(read_table(path).columns) == {"name", "x", "n"}


@given(
    values=hnp.arrays(
        np.float64,
        hnp.array_shapes(min_dims=2, max_dims=2, max_side=6),
        elements=st.floats(allow_nan=False, allow_infinity=False),
    ),
    ending=st.sampled_from([*FRAME_ENDINGS, ".npy"]),
)
def test_every_float_comes_back_bit_by_bit(tmp_path_factory, values, ending):
    path = tmp_path_factory.mktemp("floats") / f"table{ending}"
    write_table(path, pd.DataFrame(values, columns=[f"x{j}" for j in range(values.shape[1])]))
    back = read_table(path).values.to_numpy(dtype=np.float64)
    np.testing.assert_array_equal(back, values)
    np.testing.assert_array_equal(np.signbit(back[values != 0]), np.signbit(values[values != 0]))


CELLS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)


@given(
    texts=st.lists(CELLS, min_size=1, max_size=6),
    ending=st.sampled_from([".parquet", ".feather"]),
)
def test_any_text_comes_back_from_columnar_files(tmp_path_factory, texts, ending):
    path = tmp_path_factory.mktemp("texts") / f"table{ending}"
    write_table(path, pd.DataFrame({"text": texts, "x": 0.5}))
    assert read_table(path).values["text"].tolist() == texts


@given(texts=st.lists(CELLS.map(lambda cell: f"t{cell}"), min_size=1, max_size=6))
@pytest.mark.parametrize("ending", [".csv", ".tsv", ".csv.gz", ".npz"])
def test_any_text_comes_back_from_text_files(tmp_path_factory, texts, ending):
    # A leading letter: missing values, numbers and formulas are spelled by others.
    path = tmp_path_factory.mktemp("texts") / f"table{ending}"
    write_table(path, pd.DataFrame({"text": texts, "x": 0.5}))
    table = read_table(path)
    assert table.values["text"].tolist() == texts
    assert table.values["x"].tolist() == [0.5] * len(texts)


@given(
    dense=hnp.arrays(
        np.float64,
        hnp.array_shapes(min_dims=2, max_dims=2, max_side=6),
        elements=st.sampled_from([0.0, 0.0, 1.5, -2.0]),
    ),
    layout=st.sampled_from(["csr", "csc", "coo", "bsr", "dia"]),
)
def test_sparse_matrices_of_every_layout_are_read(tmp_path_factory, dense, layout):
    path = tmp_path_factory.mktemp("sparse") / "matrix.npz"
    sparse.save_npz(path, sparse.csr_array(dense).asformat(layout))
    table = read_table(path)
    assert table.sparse
    assert isinstance(table.values, sparse.csr_array)
    assert table.columns == tuple(f"x{j}" for j in range(dense.shape[1]))
    np.testing.assert_array_equal(table.values.toarray(), dense)


@pytest.mark.parametrize(
    ("content", "options"),
    [
        (sparse.csr_array(np.eye(3)), {}),
        (sparse.coo_matrix(np.eye(3)), {}),
        (pd.DataFrame(np.eye(3)), {"format": "sparse"}),
    ],
)
def test_sparse_matrices_are_written(tmp_path, content, options):
    path = tmp_path / "matrix.npz"
    write_table(path, content, **options)
    np.testing.assert_array_equal(read_table(path).values.toarray(), np.eye(3))


def test_sparse_files_hold_only_numbers(tmp_path):
    with pytest.raises(FileError, match="numbers only; leave out 'name'"):
        write_table(tmp_path / "matrix.npz", FRAME, format="sparse")
    with pytest.raises(FileError, match=r"cannot be written as csv; write it as \.npz"):
        write_table(tmp_path / "matrix.csv", sparse.csr_array(np.eye(3)))


def test_npz_keeps_ids_and_names_apart_from_the_numbers(tmp_path):
    path = tmp_path / "table.npz"
    write_table(path, FRAME.assign(key=[10, 20, 30]), id_name="key")
    with np.load(path, allow_pickle=False) as arrays:
        assert arrays["X"].dtype == np.float64
        assert arrays["columns"].tolist() == ["x", "n"]
        assert arrays["ids"].tolist() == [10, 20, 30]
        assert str(arrays["id_name"]) == "key"
        assert arrays["text"].tolist() == [["a"], ["b"], ["c"]]
    assert read_table(path).columns == ("key", "name", "x", "n")


def test_npz_keeps_ids_of_text(tmp_path):
    path = tmp_path / "table.npz"
    write_table(path, FRAME, id_name="name")
    with np.load(path, allow_pickle=False) as arrays:
        assert set(arrays) == {"X", "columns", "ids", "id_name"}
        assert arrays["ids"].tolist() == ["a", "b", "c"]


def test_npy_holds_the_numeric_columns_only(tmp_path):
    path = tmp_path / "table.npy"
    write_table(path, FRAME.assign(key=[10, 20, 30]), id_name="key")
    np.testing.assert_array_equal(np.load(path), FRAME[["x", "n"]].to_numpy())
    with pytest.raises(FileError, match="no column is numeric"):
        write_table(path, FRAME[["name"]])


def test_formulas_are_disarmed_in_text_and_numbers_are_not(tmp_path):
    path = tmp_path / "table.csv"
    cells = ["=1+1", "+1", "-1", "@sum", "\tx", "\rx", "a=b", "'", ""]
    frame = pd.DataFrame({"=cell": cells, "x": -np.arange(9.0), "n": -np.arange(9)})
    write_table(path, frame)
    back = pd.read_csv(path, keep_default_na=False)
    assert back.columns.tolist() == ["'=cell", "x", "n"]
    assert back["'=cell"].tolist() == [f"'{cell}" for cell in cells[:6]] + cells[6:]
    assert back["x"].tolist() == frame["x"].tolist()
    assert back["n"].tolist() == frame["n"].tolist()


@pytest.mark.parametrize("dtype", ["category", object, "string"])
def test_formulas_are_disarmed_in_every_type_of_text(tmp_path, dtype):
    path = tmp_path / "table.csv"
    write_table(path, pd.DataFrame({"a": pd.Series(["=1", "b"], dtype=dtype)}))
    assert path.read_text() == "a\n'=1\nb\n"


def test_a_packed_file_has_the_same_bytes_every_time(tmp_path):
    for name in ("one.csv.gz", "two.csv.gz"):
        write_table(tmp_path / name, FRAME)
    assert (tmp_path / "one.csv.gz").read_bytes() == (tmp_path / "two.csv.gz").read_bytes()


# Text


@pytest.mark.parametrize(
    ("content", "columns", "values"),
    [
        ("a,b\n1,2\n", ("a", "b"), [[1, 2]]),
        ("a;b\n1;2\n", ("a", "b"), [[1, 2]]),
        ("a\tb\n1\t2\n", ("a", "b"), [[1, 2]]),
        ("\ufeffa,b\n1,2\n", ("a", "b"), [[1, 2]]),
        ("a,b\r\n1,2\r\n", ("a", "b"), [[1, 2]]),
        ("a,b\r1,2\r", ("a", "b"), [[1, 2]]),
        ("a,b\n1,2", ("a", "b"), [[1, 2]]),
        (' a , "b" \n1,2\n', ("a", '"b"'), [[1, 2]]),
        ("1,2\n3,4\n", ("x0", "x1"), [[1, 2], [3, 4]]),
        ("1.5e3;-2\n3;4\n", ("x0", "x1"), [[1500, -2], [3, 4]]),
        ("a\n1\n2\n", ("a",), [[1], [2]]),
        ("a;b\n1,5;2,5\n", ("a", "b"), [["1,5", "2,5"]]),
        ("1,5;2,5\n3,5;4,5\n", ("1,5", "2,5"), [["3,5", "4,5"]]),
        ("a,b\n9007199254740993,1\n", ("a", "b"), [[9007199254740993, 1]]),
        ("a,b\n\n1,2\n\n3,4\n\n", ("a", "b"), [[1, 2], [3, 4]]),
    ],
)
def test_text_is_read_as_a_person_would(tmp_path, content, columns, values):
    table = read_table(write(tmp_path / "table.csv", content))
    assert table.columns == columns
    assert table.values.to_numpy().tolist() == values


def test_a_first_line_of_numbers_is_noted_as_data(tmp_path):
    table = read_table(write(tmp_path / "table.csv", "1,2\n3,4\n"))
    assert table.notices == (
        "the first line holds only numbers and was read as data; the columns are called 'x0', 'x1'",
    )


def test_a_column_without_a_name_gets_one(tmp_path):
    path = tmp_path / "table.csv"
    FRAME.to_csv(path)
    table = read_table(path)
    assert table.columns == ("Unnamed: 0", "name", "x", "n")
    assert "--drop 'Unnamed: 0'" in table.notices[0]


def test_a_tsv_is_cut_at_tabs_only(tmp_path):
    table = read_table(write(tmp_path / "table.tsv", "a,b\tc\n1\t2\n"))
    assert table.columns == ("a,b", "c")


def test_columns_can_stay_text(tmp_path):
    path = write(tmp_path / "table.csv", "id,x\n007,1\n8,2\n")
    assert read_table(path, text=["id", "absent"]).values["id"].tolist() == ["007", "8"]


def test_lines_are_counted_through_quotes_and_blank_lines(tmp_path):
    path = write(tmp_path / "table.csv", 'a,b\n1,"x\ny"\n\n2,z\n3,w\n')
    table = read_table(path)
    assert [table.where(row) for row in range(3)] == [
        "row 1 (line 2 of the file)",
        "row 2 (line 5 of the file)",
        "row 3 (line 6 of the file)",
    ]


@pytest.mark.parametrize("ends", ["\n", "\r\n", "\n\n\n"])
@pytest.mark.parametrize(("header", "first"), [("a,b\n", 2), ("", 1)])
def test_lines_are_counted_in_plain_files(tmp_path, ends, header, first):
    table = read_table(write(tmp_path / "table.csv", f"{header}1,2\n3,4{ends}"))
    assert table.lines.tolist() == [first, first + 1]


@pytest.mark.parametrize("cells", [["", "a"], ["a", ""]])
def test_a_gap_in_a_lone_column_is_a_row(tmp_path, cells):
    path = tmp_path / "table.csv"
    write_table(path, pd.DataFrame({"a": [cell or None for cell in cells]}))
    table = read_table(path)
    assert table.values["a"].fillna("").tolist() == cells
    assert table.lines.tolist() == [2, 3]


def test_a_wide_header_is_read_whole(tmp_path):
    names = [f"a_rather_long_name_{j}" for j in range(20_000)]
    path = write(tmp_path / "t.csv", ",".join(names) + "\n" + ",".join(["1"] * 20_000) + "\n")
    assert read_table(path).columns == tuple(names)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "is empty; give a table"),
        (" \n \n", "is empty; give a table"),
        ("a,b\n", "has columns but no rows"),
        ("a,b\n1,2\n3\n", "line 3 has 1 cells where the first line has 2"),
        ("a,b\n1,2\n3,4,5\n", "line 3 has 3 cells where the first line has 2"),
        ("a,b\n1,2,3\n4,5,6\n", "line 2 has 3 cells where the first line has 2"),
        ("a,b\n0,2,3\n1,5,6\n", "line 2 has 3 cells where the first line has 2"),
        ("a,b\n1,2,\n4,5,\n", "line 2 has 3 cells where the first line has 2"),
        ("1,2\n3\n", "line 2 has 1 cells where the first line has 2"),
        ("1,2\n3,4,5\n", "line 2 has 3 cells where the first line has 2"),
        ('a,b\n"x\n",2\n\n3\n', "line 5 has 1 cells"),
        ("a,a\n1,2\n", "more than one column named 'a'"),
        ("a, a\n1,2\n", "more than one column named 'a'"),
        (b"a,b\n1,2\n\xff,3\n", "line 3 is not UTF-8"),
        (b"a\xff,b\n1,2\n", "line 1 is not UTF-8"),
        ("a,b\n1,2\n".encode("utf-16"), "not UTF-8 text"),
        (b"a,b\n1\0,2\n", "not UTF-8 text"),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "not UTF-8 text"),
        ('a,b\n"1,2\n3,4\n', "close every quotation mark|cells where"),
        ('a,b\n1,"' + "x" * 200_000 + "\n", "close every quotation mark|cannot be read"),
    ],
)
def test_text_that_is_no_table_is_refused(tmp_path, content, words):
    message = refusal(write(tmp_path / "bad.csv", content))
    assert any(word in message for word in words.split("|")), message


# Files that cannot be read


def test_missing_files_folders_and_unknown_endings_are_refused(tmp_path):
    assert "does not exist" in refusal(tmp_path / "absent.csv")
    assert "does not exist" in refusal(tmp_path / "absent.parquet")
    assert "is a folder" in refusal(tmp_path)
    folder = tmp_path / "folder.npz"
    folder.mkdir()
    assert "is a folder" in refusal(folder)
    assert "use one of .csv" in refusal(write(tmp_path / "table.xlsx", b"PK"))
    assert "use one of .csv" in refusal(write(tmp_path / "table.npy.gz", b"PK"))
    assert "choose one of csv, tsv" in refusal(tmp_path / "a.csv", format="json")


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may read everything")
def test_a_locked_file_is_refused(tmp_path):
    path = write(tmp_path / "table.csv", "a\n1\n")
    path.chmod(0)
    assert "permissions" in refusal(path)


@pytest.mark.parametrize("ending", [".csv.gz", ".parquet", ".feather", ".npy", ".npz"])
@pytest.mark.parametrize("cut", [0, 1, 7, -9, -1])
def test_files_that_were_cut_off_are_refused(tmp_path, ending, cut):
    path = tmp_path / f"table{ending}"
    write_table(path, FRAME.loc[:, ["x", "n"]])
    refusal(write(tmp_path / f"cut{ending}", path.read_bytes()[:cut]))


@pytest.mark.parametrize("ending", [".csv.gz", ".parquet", ".feather", ".npy", ".npz"])
def test_files_of_another_format_are_refused(tmp_path, ending):
    refusal(write(tmp_path / f"table{ending}", b"a,b\n1,2\n" * 20))
    refusal(write(tmp_path / f"noise{ending}", np.random.default_rng(0).bytes(500)))


@pytest.mark.parametrize("ending", [".csv.gz", ".parquet", ".feather", ".npy", ".npz", "-s.npz"])
def test_files_with_a_changed_byte_are_read_or_refused_never_worse(tmp_path, ending):
    path = tmp_path / f"table{ending}"
    content = sparse.csr_array(np.eye(4)) if ending == "-s.npz" else FRAME
    write_table(path, content)
    whole = bytearray(path.read_bytes())
    damaged = tmp_path / f"damaged{ending}"
    for position in np.random.default_rng(0).integers(0, len(whole), 120):
        changed = whole.copy()
        changed[position] ^= 0xFF
        with contextlib.suppress(FileError):
            assert isinstance(read_table(write(damaged, bytes(changed))), Table)


def test_pickles_are_never_loaded(tmp_path):
    class Bomb:
        def __reduce__(self):
            return (pytest.fail, ("a pickle was loaded",))

    objects = np.array([Bomb()], dtype=object)
    np.save(tmp_path / "objects.npy", objects, allow_pickle=True)
    np.savez(tmp_path / "objects.npz", X=objects)
    np.savez(tmp_path / "beside.npz", X=np.eye(2), ids=objects, columns=np.array(["a", "b"]))
    for name in ("objects.npy", "objects.npz", "beside.npz"):
        assert "never loaded" in refusal(tmp_path / name)
    for ending in (".npy", ".npz", ".parquet", ".csv"):
        refusal(write(tmp_path / f"disguised{ending}", pickle.dumps(Bomb())))


def header_only(shape, order="False"):
    text = f"{{'descr': '<f8', 'fortran_order': {order}, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode() + b"\0" * 64


@pytest.mark.parametrize(
    "shape",
    ["(10**4, 10**4)", "(100000000000, 50)", "(99999999999999999999, 9999)", "(-1, 3)", "(3,)*9"],
)
@pytest.mark.parametrize("ending", [".npy", ".npz"])
def test_declared_shapes_are_not_believed(tmp_path, shape, ending):
    content = header_only(shape)
    path = tmp_path / f"huge{ending}"
    if ending == ".npz":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("X.npy", content)
    else:
        write(path, content)
    refusal(path)


@pytest.mark.parametrize("shape", ["(0, 100000000000)", "(100000000000, 0)", "(0,)", "()"])
def test_empty_arrays_are_refused(tmp_path, shape):
    refusal(write(tmp_path / "empty.npy", header_only(shape)))


@pytest.mark.parametrize(
    "array",
    [
        np.eye(2) * 1j,
        np.array([["a", "b"]]),
        np.zeros((2, 2, 2)),
        np.array(1.0),
        np.zeros(2, dtype=[("a", "f8"), ("b", "f8")]),
        np.array(["2020-01-01"], dtype="datetime64[D]"),
    ],
    ids=["complex", "text", "cube", "scalar", "record", "date"],
)
@pytest.mark.parametrize("ending", [".npy", ".npz"])
def test_arrays_that_are_no_matrix_of_numbers_are_refused(tmp_path, array, ending):
    path = tmp_path / f"array{ending}"
    (np.save if ending == ".npy" else np.savez)(path, array)
    refusal(path)


@pytest.mark.parametrize("dtype", [">f8", "<f4", "<f2", "i1", "u8", "?"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_of_every_real_type_are_read(tmp_path, dtype, order):
    array = np.array([[0, 1], [1, 1], [0, 0]]).astype(dtype, order=order)
    np.save(tmp_path / "array.npy", array)
    table = read_table(tmp_path / "array.npy")
    np.testing.assert_array_equal(table.values.to_numpy(dtype=np.float64), array.astype(float))


def test_a_vector_is_one_column(tmp_path):
    np.save(tmp_path / "vector.npy", np.arange(3.0))
    table = read_table(tmp_path / "vector.npy")
    assert table.columns == ("x0",)
    assert table.values["x0"].tolist() == [0, 1, 2]


def test_npz_takes_the_only_array_or_the_one_named_x(tmp_path):
    for name in ("anything", "columns"):
        np.savez(tmp_path / f"{name}.npz", **{name: np.eye(2)})
        assert read_table(tmp_path / f"{name}.npz").columns == ("x0", "x1")
    np.savez(tmp_path / "two.npz", X=np.eye(3), y=np.ones(3))
    np.savez(tmp_path / "none.npz", left=np.eye(2), right=np.eye(2))
    table = read_table(tmp_path / "two.npz")
    assert table.values.shape == (3, 3)
    assert table.notices == ("only the array 'X' was read, not 'y'",)
    assert "the arrays 'left', 'right' and none is named 'X'" in refusal(tmp_path / "none.npz")


@pytest.mark.parametrize(
    "arrays",
    [
        {"X": np.eye(2), "columns": np.array(["a"])},
        {"X": np.eye(2), "columns": np.array(["a", "a"])},
        {"X": np.eye(2), "columns": np.array([1.0, 2.0])},
        {"X": np.eye(2), "columns": np.array(["a", "b"]), "ids": np.arange(2)},
        {"X": np.eye(2), "columns": np.array(["a", "b"]), "ids": np.arange(3), "id_name": "i"},
        {"X": np.eye(2), "columns": np.array(["a", "b"]), "ids": np.arange(2), "id_name": "a"},
        {"X": np.eye(2), "columns": np.array(["a", "b"]), "text_columns": np.array(["c"])},
        {"X": np.eye(2), "columns": np.array(["a", "b"]), "text": np.array([["c"], ["d"]])},
    ],
)
def test_npz_whose_arrays_do_not_fit_together_is_refused(tmp_path, arrays):
    np.savez(tmp_path / "odd.npz", **arrays)
    refusal(tmp_path / "odd.npz")


def sparse_members(**changes):
    members = {
        "format": np.array(b"csr"),
        "shape": np.array([2, 3]),
        "data": np.array([1.0, 2.0]),
        "indices": np.array([0, 2], dtype=np.int32),
        "indptr": np.array([0, 1, 2], dtype=np.int32),
    }
    return members | changes


@pytest.mark.parametrize(
    "changes",
    [
        {"indices": np.array([0, 10**6], dtype=np.int32)},
        {"indices": np.array([0, -1], dtype=np.int32)},
        {"indptr": np.array([0, 9, 2], dtype=np.int32)},
        {"indptr": np.array([0, 1], dtype=np.int32)},
        {"shape": np.array([10**12, 3])},
        {"shape": np.array([2, 10**12])},
        {"shape": np.array([0, 3]), "indptr": np.array([0], dtype=np.int32)},
        {"data": np.array([1j, 2j])},
        {"data": np.array(["a", "b"])},
        {"format": np.array(b"xyz")},
        {
            "format": np.array(b"coo"),
            "shape": np.array([10**12, 3]),
            "row": np.array([0, 1]),
            "col": np.array([0, 1]),
        },
        {"format": np.array(b"csc"), "shape": np.array([10**12, 2])},
    ],
)
def test_sparse_files_that_contradict_themselves_are_refused(tmp_path, changes):
    np.savez(tmp_path / "matrix.npz", **sparse_members())
    assert read_table(tmp_path / "matrix.npz").values.toarray()[1, 2] == 2.0
    np.savez(tmp_path / "odd.npz", **sparse_members(**changes))
    refusal(tmp_path / "odd.npz")


@pytest.mark.parametrize("ending", [".csv.gz", ".npz", ".parquet", ".feather"])
def test_files_that_explode_are_refused(tmp_path, monkeypatch, ending):
    path = tmp_path / f"bomb{ending}"
    zeros = pd.DataFrame({"text": ["x" * 2000] * 20_000, "x": 0.0})
    if ending == ".feather":
        zeros.to_feather(path, compression="zstd")
    else:
        write_table(path, zeros)
    assert len(read_table(path).values) == 20_000
    monkeypatch.setattr(_table, "SAFE_BYTES", 1 << 20)
    message = refusal(path)
    assert "far more than its size suggests" in message


def test_a_packed_file_is_unpacked_no_further_than_allowed(tmp_path, monkeypatch):
    path = tmp_path / "bomb.csv.gz"
    with gzip.open(path, "wb") as stream:
        for _ in range(64):
            stream.write(b"0" * (1 << 20))
    monkeypatch.setattr(_table, "SAFE_BYTES", 1 << 20)
    taken = []
    original = gzip.GzipFile.read
    monkeypatch.setattr(gzip.GzipFile, "read", lambda *a: taken.append(len(c := original(*a))) or c)
    refusal(path)
    assert sum(taken) < 16 << 20


# Parquet and Feather from elsewhere


def test_the_pandas_index_is_not_a_column(tmp_path):
    path = tmp_path / "table.parquet"
    FRAME.iloc[::-1].to_parquet(path)
    assert read_table(path).columns == ("name", "x", "n")
    assert read_table(path).notices == ()
    FRAME.set_index("name").to_parquet(path)
    table = read_table(path)
    assert table.columns == ("x", "n")
    assert "'name' is the pandas index" in table.notices[0]


def test_column_names_are_texts(tmp_path):
    pd.DataFrame({0: [1.0], 1: [2.0]}).to_parquet(tmp_path / "table.parquet")
    assert read_table(tmp_path / "table.parquet").columns == ("0", "1")


def test_columnar_files_without_rows_or_with_a_name_twice_are_refused(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import feather

    FRAME.iloc[:0].to_parquet(tmp_path / "empty.parquet")
    assert "no rows" in refusal(tmp_path / "empty.parquet")
    pd.DataFrame(index=range(3)).to_parquet(tmp_path / "none.parquet")
    assert "no columns" in refusal(tmp_path / "none.parquet")
    twice = pyarrow.table([pyarrow.array([1]), pyarrow.array([2])], names=["a", "a"])
    feather.write_feather(twice, tmp_path / "twice.feather", version=2)
    assert "more than one column named 'a'" in refusal(tmp_path / "twice.feather")


# Writing goes wrong


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = write(tmp_path / "table.csv", "old")

    def fail(*args, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pd.DataFrame, "to_csv", fail)
    with pytest.raises(FileError, match="No space left on device"):
        write_table(path, FRAME)
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["table.csv"]


def test_places_that_cannot_be_written_are_refused(tmp_path):
    with pytest.raises(FileError, match="does not exist; make it first"):
        write_table(tmp_path / "absent" / "table.csv", FRAME)
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(FileError, match="cannot be written"):
        write_table(tmp_path / "folder.csv", FRAME)
    with pytest.raises(FileError, match=r"use one of \.csv"):
        write_table(tmp_path / "table.xlsx", FRAME)


def test_tables_that_a_format_cannot_hold_are_refused(tmp_path):
    twice = pd.DataFrame([[1, 2]], columns=["a", "a"])
    with pytest.raises(FileError, match="more than one column named 'a'"):
        write_table(tmp_path / "table.csv", twice)
    mixed = pd.DataFrame({"a": pd.Series([1, "b"], dtype=object)})
    with pytest.raises(FileError, match="cannot be written as parquet"):
        write_table(tmp_path / "table.parquet", mixed)
    with pytest.raises(FileError, match="no UTF-8 form"):
        write_table(
            tmp_path / "table.csv", pd.DataFrame({"a": pd.Series(["\ud800"], dtype=object)})
        )
    with pytest.raises(FileError, match="has no column 'key' for the ids"):
        write_table(tmp_path / "table.npz", FRAME, id_name="key")
    with pytest.raises(TypeError, match="must be a DataFrame"):
        write_table(tmp_path / "table.csv", [[1, 2]])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not os.path.exists("/dev/null"), reason="no devices in the file system")
def test_a_device_is_written_to_and_not_replaced():
    write_table("/dev/null", FRAME, format="csv")
    assert not os.path.isfile("/dev/null")


# Standard streams


def test_standard_input_and_output_are_text(monkeypatch, capsysbinary):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a;b\n1;2\n")))
    table = read_table("-")
    assert (table.name, table.columns) == ("standard input", ("a", "b"))
    write_table("-", table.values)
    write_table("-", table.values, format="tsv")
    assert capsysbinary.readouterr().out == b"a,b\n1,2\na\tb\n1\t2\n"
    with pytest.raises(FileError, match="standard output is written as csv or tsv"):
        write_table("-", table.values, format="parquet")
    assert "standard input is read as csv or tsv" in refusal("-", format="npy")


@pytest.mark.parametrize("package", ["pandas", "pyarrow"])
def test_a_missing_package_is_named_with_the_remedy(tmp_path, package):
    FRAME.to_parquet(tmp_path / "table.parquet")
    code = (
        f"import sys; sys.modules[{package!r}] = None\n"
        "from isopivot.data import FileError, read_table\n"
        f"try: read_table({str(tmp_path / 'table.parquet')!r})\n"
        "except FileError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert f"needs {package}; pip install {package}" in done.stdout


def test_importing_needs_no_extra():
    code = "import sys; sys.modules.update(pandas=None, pyarrow=None); import isopivot.data"
    subprocess.run([sys.executable, "-c", code], check=True)
