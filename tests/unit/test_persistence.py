"""Model files: what is refused, and that nothing but a refusal comes of it."""

import errno
import gzip
import hashlib
import io
import json
import os
import pickle
import stat
import struct
import tempfile
import zipfile
from pathlib import Path

import joblib
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from isopivot import ICPQR, load, persistence
from isopivot._files import atomic_path
from isopivot.persistence import BODY_AT, DIGEST_AT, MAGIC, ModelError, read_model, write_model
from model_files import HEAD, npy, refusal, sealed, zipped


@pytest.fixture(autouse=True, scope="module")
def _no_waiting_for_the_disk():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", lambda handle: None)
        yield


# -- trees --------------------------------------------------------------------------------

ARRAYS = [
    np.arange(12.0).reshape(3, 4),
    np.asfortranarray(np.arange(12.0).reshape(3, 4)),
    np.arange(24.0).reshape(4, 6)[:3, :4],
    np.arange(24.0).reshape(4, 6).T[:3, :4],
    np.arange(24.0).reshape(4, 6)[::-1, ::2],
    np.arange(5, dtype=np.int64)[::2],
    np.arange(5, dtype=np.int32),
    np.array([np.nan, np.inf, -0.0, 5e-324], dtype=np.float64),
    np.ones((1, 3), dtype=np.float32),
    np.ones((0, 3)),
    np.ones((3, 0), dtype=np.float32),
    np.zeros(0),
    np.arange(4, dtype=">f8"),
]


@pytest.mark.parametrize("array", ARRAYS, ids=lambda a: f"{a.dtype}{a.shape}{a.strides}")
def test_arrays_keep_values_and_memory_order(array, tmp_path):
    write_model(tmp_path / "m", {"a": array})
    back = read_model(tmp_path / "m")["a"]
    np.testing.assert_array_equal(back, array)
    assert back.dtype == array.dtype.newbyteorder("=")
    assert back.flags.writeable
    assert back.flags.aligned
    if array.ndim == 2 and min(array.shape) > 1:
        rows = abs(array.strides[0]) > abs(array.strides[1])
        assert back.flags.c_contiguous == rows
        assert back.flags.f_contiguous != rows


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csr_matrix])
def test_sparse_matrices_keep_kind_and_order_of_entries(kind, tmp_path):
    matrix = kind(([1.0, 2.0, 3.0], [2, 0, 1], [0, 2, 2, 3]), shape=(3, 4))
    write_model(tmp_path / "m", {"a": [matrix, kind((0, 5))]})
    back, empty = read_model(tmp_path / "m")["a"]
    assert type(back) is type(matrix)
    np.testing.assert_array_equal(back.indices, [2, 0, 1])
    np.testing.assert_array_equal(back.toarray(), matrix.toarray())
    assert empty.shape == (0, 5)


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("$ab\n"), inner),
    max_leaves=12,
)


@given(json_values)
def test_json_values_come_back_as_they_were(value):
    with tempfile.TemporaryDirectory() as folder:
        write_model(os.path.join(folder, "m"), {"value": value})
        assert read_model(os.path.join(folder, "m")) == {"value": value}


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (np.array([object()]), TypeError, "allowed are one or two axes"),
        (np.array(["text"]), TypeError, "allowed are one or two axes"),
        (np.zeros((2, 2, 2)), TypeError, "allowed are one or two axes"),
        (np.zeros(2, dtype=complex), TypeError, "allowed are one or two axes"),
        (sparse.coo_array((2, 2)), TypeError, "allowed is CSR"),
        ({1: 2}, TypeError, "allowed are strings"),
        (float("nan"), ValueError, "not JSON compliant"),
        ("\ud800", ValueError, "UTF-8"),
        ({"\ud800": 1}, ValueError, "UTF-8"),
        (object(), TypeError, "not JSON serializable"),
    ],
    ids=repr,
)
def test_what_a_file_cannot_hold_is_refused_before_anything_is_written(
    value, error, message, tmp_path
):
    with pytest.raises(error, match=message):
        write_model(tmp_path / "m", {"value": value})
    assert list(tmp_path.iterdir()) == []


def test_models_beyond_the_limits_are_neither_written_nor_read(tmp_path, monkeypatch):
    path = tmp_path / "m"
    write_model(path, {"a": np.zeros(1000)})
    monkeypatch.setattr(persistence, "MOST_BYTES", 5000)
    assert "has 8" in refusal(path)
    with pytest.raises(ValueError, match="allowed are 5000 bytes"):
        write_model(tmp_path / "n", {"a": np.zeros(1000)})
    monkeypatch.undo()
    monkeypatch.setattr(persistence, "MOST_JSON", 5)
    assert "model.json of 18 bytes" in refusal(path)
    monkeypatch.undo()
    monkeypatch.setattr(persistence, "MOST_MEMBERS", 1)
    assert "directory of 2 members" in refusal(path)


def test_files_beyond_4_gib_use_zip64(tmp_path, monkeypatch):
    """A small file, written as if a ZIP's numbers ended at 1000."""
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 1000)
    array = np.arange(500.0)
    write_model(tmp_path / "m", {"a": array, "b": array[:2]})
    monkeypatch.undo()
    content = (tmp_path / "m").read_bytes()
    assert b"PK\x06\x06" in content
    np.testing.assert_array_equal(read_model(tmp_path / "m")["a"], array)


# -- damage -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    path = tmp_path_factory.mktemp("small") / "model.isopivot"
    ICPQR(mu=1.0).fit(np.diag([3.0, 2.0, 0.5])).save(path)
    return path.read_bytes()


def test_every_changed_byte_is_refused(small, tmp_path):
    path = tmp_path / "m"
    for position in range(len(small)):
        damaged = bytearray(small)
        damaged[position] ^= 1 << (position % 8)
        path.write_bytes(damaged)
        with pytest.raises(ModelError):
            load(path)


def test_every_missing_or_added_byte_is_refused(small, tmp_path):
    path = tmp_path / "m"
    for cut in (*range(60), *range(60, len(small), 7), len(small) - 1):
        path.write_bytes(small[:cut])
        with pytest.raises(ModelError):
            load(path)
    for position in (0, 1, 14, 16, 47, 48, 49, len(small) // 2, len(small) - 1, len(small)):
        path.write_bytes(small[:position] + b"\0" + small[position:])
        refusal(path)
        path.write_bytes(small[:position] + small[position + 1 :])
        if position < len(small):
            refusal(path)


def test_a_newer_format_has_its_own_message(small, tmp_path):
    path = tmp_path / "m"
    path.write_bytes(sealed(small[BODY_AT:], MAGIC + struct.pack("<H", 7)))
    assert "is of format 7; this isopivot reads up to format 1; upgrade" in refusal(path)
    path.write_bytes(sealed(small[BODY_AT:], MAGIC + struct.pack("<H", 0)))
    assert "is of format 0, which there never was" in refusal(path)


def test_other_files_are_told_for_what_they_are(tmp_path):
    path = tmp_path / "m"
    archive = io.BytesIO()
    np.savez(archive, a=np.zeros(3))
    joblib.dump([1, 2], tmp_path / "joblib")
    joblib.dump([1, 2], tmp_path / "packed", compress=3)
    contents = {
        b"": "is empty",
        pickle.dumps(ICPQR()): "is a pickle",
        pickle.dumps({}, protocol=2): "is a pickle",
        (tmp_path / "joblib").read_bytes(): "is a pickle",
        (tmp_path / "packed").read_bytes(): "is a compressed file",
        gzip.compress(b"x"): "is a compressed file",
        zipped([("a.txt", b"x")], 0): "is an ordinary ZIP or NPZ",
        archive.getvalue(): "is an ordinary ZIP or NPZ",
        npy(np.zeros(3)): "is a NumPy array",
        b"a,b\n1,2\n": "is a text file",
        b"\xff\xfe\0\1": "is no model file",
        MAGIC[:9]: "whose header was changed",
        MAGIC.replace(b"\r\n", b"\n") + bytes(99): "whose header was changed",
        HEAD: "is cut short",
        sealed(b""): "has no ZIP directory",
    }
    for content, words in contents.items():
        path.write_bytes(content)
        assert words in refusal(path)


def test_what_is_no_file_is_refused(tmp_path):
    assert "is a folder" in refusal(tmp_path)
    assert "is not there" in refusal(tmp_path / "none")
    with pytest.raises(FileNotFoundError, match="is not there"):
        load(tmp_path / "none")
    os.mkfifo(tmp_path / "pipe")
    assert "no ordinary file" in refusal(tmp_path / "pipe")
    assert "cannot be opened" in refusal(tmp_path / ("x" * 300))
    with pytest.raises(TypeError, match="int"):
        load(0)


# -- hostile files with the right digest --------------------------------------------------

MODEL = b'{"a":{"$array":0}}'
ZEROS = npy(np.zeros((2, 3)))


def hostile_bodies():
    yield "no json", zipped([("0.npy", ZEROS)])
    yield "other name", zipped([("model.json", MODEL), ("../../etc/x.npy", ZEROS)])
    yield "twice", zipped([("model.json", b"{}"), ("0.npy", ZEROS), ("0.npy", ZEROS)])
    yield "unused", zipped([("model.json", b"{}"), ("0.npy", ZEROS)])
    yield "missing", zipped([("model.json", MODEL)])
    yield "used twice", zipped([("model.json", b'{"a":[{"$array":0},{"$array":0}]}'),
                                ("0.npy", ZEROS)])  # fmt: skip
    packed = io.BytesIO(bytes(BODY_AT))
    packed.seek(BODY_AT)
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("model.json", MODEL)
        archive.writestr("0.npy", npy(np.zeros(10**6)))
    yield "zip bomb", packed.getvalue()[BODY_AT:]
    yield "comment", zipped([("model.json", b"{}")])[:-2] + b"\1\0x"
    yield "directory beyond the end", zipped([("model.json", b"{}")])[:-6] + b"\xff\xff\0\0\0\0"
    for text in (
        b"", b"[]", b"1", b"nonsense", b'{"a":NaN}', b'{"a":1e999}', b'{"a":-Infinity}',
        b'{"a":1,"a":2}', b'{"a":"\\ud800"}', b'{"\\udfff":1}', b'{"a":"\xff"}', b'{"$new":1}',
        b'{"a":{"$array":-1}}', b'{"a":{"$array":"0"}}', b'{"a":{"$array":true}}',
        b'{"a":{"$array":1e300}}', b'{"a":' + b"9" * 5000 + b"}", b'{"a":' + b"9" * 50 + b"}",
        b"[" * 100_000, b'{"a":' * 100_000, b'{"a":' + b"[" * 70 + b"]" * 70 + b"}",
        b'{"a":{"$csr":1}}', b'{"a":{"$csr":{}}}', b'{"a":{"$csr":[1,2]}}',
    ):  # fmt: skip
        yield f"json {text[:30]!r}", zipped([("model.json", text)])
    yield from hostile_arrays()
    yield from hostile_sparse()


def hostile_arrays():
    objects = io.BytesIO()
    np.lib.format.write_array(objects, np.array([print, None]), allow_pickle=True)
    newer = io.BytesIO()
    np.lib.format.write_array(newer, np.zeros((2, 3)), version=(2, 0))
    size = b"(2, 3)"
    arrays = {
        "pickled objects": objects.getvalue(),
        "other version": newer.getvalue(),
        "bool": npy(np.zeros(2, dtype=bool)),
        "complex": npy(np.zeros(2, dtype=complex)),
        "text": npy(np.array(["a"])),
        "record": npy(np.zeros(2, dtype=[("a", "f8")])),
        "three axes": npy(np.zeros((1, 2, 3))),
        "scalar": npy(np.array(1.0)),
        "empty": b"",
        "cut": ZEROS[:-1],
        "longer": ZEROS + b"\0",
        "another shape": ZEROS.replace(size, b"(3, 3)"),
        "huge": ZEROS.replace(size, b"(9999999999, 9999999999)"),
        "beyond all": ZEROS.replace(size, b"(" + b"9" * 40 + b", 0)"),
        "negative": ZEROS.replace(size, b"(-2, -3)"),
        "expression": ZEROS.replace(size, b"(2 * 3,)"),
        "magic": b"\x93numpy" + ZEROS[6:],
    }
    for name, content in arrays.items():
        yield f"array {name}", zipped([("model.json", MODEL), ("0.npy", content)])


def hostile_sparse():
    def body(shape=(2, 3), data=(1.0,), indices=(0,), indptr=(0, 1, 1), matrix=True, ints="i4"):
        head = {"shape": list(shape), "matrix": matrix}
        marks = {name: {"$array": k} for k, name in enumerate(("data", "indices", "indptr"))}
        parts = (np.array(data), np.array(indices, ints), np.array(indptr, ints))
        members = [(f"{k}.npy", npy(part)) for k, part in enumerate(parts)]
        text = json.dumps({"a": {"$csr": head | marks}}).encode()
        return zipped([("model.json", text), *members])

    yield "sparse beyond its columns", body(indices=[3])
    yield "sparse before its columns", body(indices=[-1])
    yield "sparse rows that run back", body(indptr=[0, 2, 1])
    yield "sparse rows beyond", body(indptr=[0, 1, 9])
    yield "sparse rows that overflow", body((3, 3), indptr=[0, 2**31 - 1, -(2**31), 1])
    yield "sparse rows from below", body(indptr=[-1, 0, 1])
    yield "sparse of other lengths", body(data=[1.0, 2.0])
    yield "sparse of other shape", body(shape=[5, 3])
    yield "sparse of three axes", body(shape=[2, 3, 4])
    yield "sparse of no shape", body(shape=["2", 3])
    yield "sparse integers", body(data=np.array([1]))
    yield "sparse without kind", body(matrix=1)
    yield "sparse matrix of columns", body(data=[[1.0]])


HOSTILE = dict(hostile_bodies())


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_containers_are_refused(name, tmp_path):
    path = tmp_path / "m"
    path.write_bytes(sealed(HOSTILE[name]))
    with pytest.raises(ModelError) as caught:
        read_model(path)
    assert "\n" not in str(caught.value)


def test_overlapping_members_are_refused(tmp_path):
    """Two entries of the directory on the same bytes: the way to a bomb without compression."""
    body = zipped([("model.json", MODEL), ("0.npy", ZEROS), ("1.npy", ZEROS)])
    entry = body.rindex(b"PK\x01\x02")
    first = body.index(b"PK\x01\x02", body.index(b"PK\x01\x02") + 1)
    overlapping = body[: entry + 42] + body[first + 42 : first + 46] + body[entry + 46 :]
    (tmp_path / "m").write_bytes(sealed(overlapping))
    assert "not stored side by side" in refusal(tmp_path / "m")


@settings(max_examples=300)
@given(st.data())
def test_changed_bytes_under_a_right_digest_give_a_refusal_or_a_model(small, data):
    """Of the ZIP and of its members; a member's own checksum tells most of them."""
    body = bytearray(small[BODY_AT:])
    for _ in range(data.draw(st.integers(1, 4))):
        position = data.draw(st.integers(0, len(body) - 1))
        body[position] = data.draw(st.integers(0, 255))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m"
        path.write_bytes(sealed(bytes(body)))
        try:
            model = load(path)
        except ModelError:
            return
        assert np.isfinite(model.distortion_rate(np.eye(3))).all()


# -- writing whole or not at all ----------------------------------------------------------


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path, model = tmp_path / "m", ICPQR(mu=1.0).fit(np.diag([3.0, 2.0, 0.5]))
    model.save(path)
    before = path.read_bytes()

    def full(*args, **kwargs):
        raise OSError(errno.ENOSPC, "No space left on device")

    for target in ("isopivot.persistence.write_array", "os.fsync", "os.replace", "os.chmod"):
        with monkeypatch.context() as patch:
            patch.setattr(target, full)
            with pytest.raises(OSError, match="No space left"):
                model.save(path)
            with pytest.raises(OSError, match="No space left"):
                model.save(tmp_path / "new")
        assert [entry.name for entry in tmp_path.iterdir()] == ["m"]
        assert path.read_bytes() == before


def test_an_interrupted_write_leaves_nothing(tmp_path):
    def interrupted():
        with atomic_path(tmp_path / "m") as temporary:
            temporary.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list(tmp_path.iterdir()) == []


def test_permissions_follow_the_umask_or_the_old_file(tmp_path):
    path = tmp_path / "m"
    mask = os.umask(0o027)
    try:
        write_model(path, {})
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
        path.chmod(0o604)
        write_model(path, {"a": 1})
        assert stat.S_IMODE(path.stat().st_mode) == 0o604
    finally:
        os.umask(mask)
    assert read_model(path) == {"a": 1}


def test_links_are_followed(tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "there" / "m")
    write_model(tmp_path / "link", {"a": 1})
    assert (tmp_path / "link").is_symlink()
    assert read_model(tmp_path / "there" / "m") == {"a": 1}


def test_places_that_cannot_be_written_raise_os_errors(tmp_path, monkeypatch):
    with pytest.raises(IsADirectoryError, match="allowed is a file"):
        write_model(tmp_path, {})
    with pytest.raises(FileNotFoundError, match=r"none/m'$"):
        write_model(tmp_path / "none" / "m", {})

    def denied(*args, **kwargs):
        raise PermissionError(errno.EACCES, "Permission denied", "/somewhere/.m.tmp")

    monkeypatch.setattr(tempfile, "mkstemp", denied)
    with pytest.raises(PermissionError, match=r"Permission denied: '.*m'$"):
        write_model(tmp_path / "m", {})


def test_the_header_is_where_the_format_says(small):
    assert small.startswith(MAGIC)
    assert len(MAGIC) == 14
    assert small[14:16] == b"\1\0"
    assert small[DIGEST_AT:BODY_AT] == hashlib.sha256(small[:16] + small[48:]).digest()
    with zipfile.ZipFile(io.BytesIO(small)) as archive:  # other tools can look inside
        assert archive.namelist()[0] == "model.json"
        assert archive.testzip() is None
        assert json.loads(archive.read("model.json"))["estimator"]["estimator"] == "ICPQR"
        with archive.open("0.npy") as member:
            assert np.load(member, allow_pickle=False).ndim == 1


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_a_pipe_is_not_replaced_by_a_file(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OSError, match="got the device or pipe"), atomic_path(pipe):
        pass
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert list(tmp_path.iterdir()) == [pipe]
