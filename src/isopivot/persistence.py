"""Model files: a tree of JSON values and arrays in one file that cannot carry code.

    bytes 0-13    magic
    bytes 14-15   format version, little-endian
    bytes 16-47   SHA-256 of all other bytes, those before and those after
    bytes 48-     ZIP of stored members: `model.json`, `0.npy`, `1.npy`, ...

Nothing is unpickled, and nothing is larger in memory than it is in the file. The digest
tells damage, not origin: whoever can write a file can write its digest. So reading trusts
no byte, and what a tree means is checked where it is turned into an estimator.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import struct
import zipfile
from collections.abc import Iterator
from typing import IO, Any

import numpy.typing as npt

from isopivot._files import atomic_path
from isopivot._trees import DAMAGED, ModelError, Tree, decode, encode, read_array, write_array

__all__ = ["FORMAT", "ModelError", "read_model", "refusals_name", "write_model"]

MAGIC = b"\x89isopivot\r\n\x1a\n\x00"
FORMAT = 1
DIGEST_AT, BODY_AT = 16, 48

MOST_BYTES = 1 << 36  # of a file
MOST_JSON = 1 << 28  # bytes of model.json
MOST_MEMBERS = 65_000
_MOST_PER_ENTRY = 128  # bytes of the ZIP's directory
_CHUNK = 1 << 20


class UnreadableModelError(ModelError, OSError):
    """A model file cannot be opened."""


class MissingModelError(ModelError, FileNotFoundError):
    """There is no model file of that name."""


@contextlib.contextmanager
def refusals_name(path: str | os.PathLike[str]) -> Iterator[None]:
    """Put the name of the file before the message of a `ModelError`."""
    try:
        yield
    except ModelError as error:
        raise type(error)(f"{os.fspath(path)!r} {error}") from error.__cause__


# -- writing ------------------------------------------------------------------------------


def write_model(path: str | os.PathLike[str], tree: Tree) -> None:
    """Write a tree to one file, whole or not at all; the same tree gives the same bytes.

    Parameters
    ----------
    path : str or path-like
        The file to write or replace.
    tree : dict
        Of finite JSON values, NumPy arrays and SciPy CSR matrices, in dicts and lists.
        Arrays have one or two axes, of float32, float64, int32 or int64; their memory order
        is kept, because sums depend on it.
    """
    text, arrays = encode(tree)
    size = len(text) + sum(array.nbytes + 1024 for array in arrays)
    if size > MOST_BYTES or len(text) > MOST_JSON or len(arrays) >= MOST_MEMBERS:
        raise ValueError(
            f"got a model of {size} bytes in {len(arrays)} arrays; allowed are {MOST_BYTES} bytes "
            f"in {MOST_MEMBERS} arrays, {MOST_JSON} bytes of names; fit with a larger mu"
        )
    with atomic_path(path) as temporary, open(temporary, "w+b") as file:
        file.write(MAGIC + struct.pack("<H", FORMAT) + bytes(BODY_AT - DIGEST_AT))
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            with archive.open(_member("model.json", len(text)), "w") as member:
                member.write(text)
            for number, array in enumerate(arrays):
                with archive.open(_member(f"{number}.npy", array.nbytes + 512), "w") as member:
                    write_array(member, array)
        digest = _digest(file)
        file.seek(DIGEST_AT)
        file.write(digest)


def _member(name: str, size: int) -> zipfile.ZipInfo:
    """Return a stored member that tells no time and no system; its size is an upper bound."""
    info = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
    info.create_system = 3
    info.external_attr = 0o600 << 16
    info.file_size = size
    return info


def _digest(file: IO[bytes]) -> bytes:
    """Return the SHA-256 of all bytes but those that hold it."""
    digest = hashlib.sha256()
    file.seek(0)
    digest.update(file.read(DIGEST_AT))
    file.seek(BODY_AT)
    while chunk := file.read(_CHUNK):
        digest.update(chunk)
    return digest.digest()


# -- reading ------------------------------------------------------------------------------


def read_model(path: str | os.PathLike[str]) -> Tree:
    """Return the tree of a model file, every byte of it checked.

    Parameters
    ----------
    path : str or path-like
        A file that `write_model` wrote.

    Returns
    -------
    dict
        The tree. Its arrays are new ones, in the order they were saved in.

    Raises
    ------
    ModelError
        Where the file is not a model, is damaged, or is of a newer format.
    """
    with refusals_name(path), _opened(path) as file:
        size = os.fstat(file.fileno()).st_size
        _check_header(file.read(BODY_AT), size)
        file.seek(DIGEST_AT)
        if file.read(BODY_AT - DIGEST_AT) != _digest(file):
            raise ModelError(f"is damaged: its bytes do not match its digest; {DAMAGED}")
        with _foreign_errors():
            _check_directory(file, size)
            with zipfile.ZipFile(file) as archive:
                return _read_members(archive, _members(archive, file))


@contextlib.contextmanager
def _opened(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    name = os.fspath(path)  # a number would be an open file
    try:
        mode = os.stat(name).st_mode
        if stat.S_ISDIR(mode):
            raise ModelError("is a folder; allowed is a model file; name the file in it")
        if not stat.S_ISREG(mode):  # reading a pipe or a device may never end
            raise ModelError("is no ordinary file; allowed is a model file; copy it to one")
        file = open(name, "rb")  # noqa: SIM115
    except FileNotFoundError:
        raise MissingModelError("is not there; save a model first, or mend the name") from None
    except OSError as error:
        reason = error.strerror or "no reason given"
        raise UnreadableModelError(f"cannot be opened ({reason}); mend that first") from error
    with file:
        yield file


@contextlib.contextmanager
def _foreign_errors() -> Iterator[None]:
    """Turn whatever the standard library says of broken content into a refusal."""
    try:
        yield
    except ModelError:
        raise
    except MemoryError:
        raise ModelError("does not fit into memory; load it on a larger machine") from None
    except (
        zipfile.BadZipFile,
        struct.error,
        ValueError,
        TypeError,
        LookupError,
        RuntimeError,  # NotImplementedError and RecursionError are such
        ArithmeticError,
        EOFError,
        OSError,
    ) as error:
        raise ModelError(f"is no sound model file; {DAMAGED}") from error


def _check_header(head: bytes, size: int) -> None:
    if not head.startswith(MAGIC):
        raise ModelError(
            f"is {_described(head)}; allowed is a model file; pass one that estimator.save wrote"
        )
    if len(head) < BODY_AT:
        raise ModelError(f"is cut short: it has {size} bytes; {DAMAGED}")
    if size > MOST_BYTES:
        raise ModelError(f"has {size} bytes; allowed are {MOST_BYTES}; save a smaller model")
    version = int.from_bytes(head[len(MAGIC) : DIGEST_AT], "little")
    if version > FORMAT:
        raise ModelError(
            f"is of format {version}; this isopivot reads up to format {FORMAT}; upgrade isopivot"
        )
    if version < 1:
        raise ModelError(f"is of format {version}, which there never was; {DAMAGED}")


def _described(head: bytes) -> str:
    """Return what a file that is no model seems to be."""
    if not head:
        return "empty"
    known = {
        b"\x89isopivot": "a model file whose header was changed",
        b"\x80": "a pickle, which may run code and is never opened",
        b"PK": "an ordinary ZIP or NPZ archive",
        b"\x93NUMPY": "a NumPy array",
        b"\x1f\x8b": "a compressed file",
        b"x\x01": "a compressed file",
        b"x\x5e": "a compressed file",
        b"x\x9c": "a compressed file",
        b"x\xda": "a compressed file",
        b"BZh": "a compressed file",
        b"\xfd7zXZ": "a compressed file",
        b"PAR1": "a Parquet table",
    }
    if all(32 <= byte < 127 or byte in b"\t\r\n" for byte in head):
        return "a text file"
    found = (what for start, what in known.items() if head.startswith(start))
    return next(found, "no model file")


def _check_directory(file: IO[bytes], size: int) -> None:
    """Refuse a directory of absurd size before it is read."""
    file.seek(max(BODY_AT, size - 98))  # its end, and before that the end for large files
    tail = file.read()
    if len(tail) < 22 or tail[-22:-18] != b"PK\x05\x06" or tail[-2:] != b"\0\0":
        raise ModelError(f"has no ZIP directory at its end; {DAMAGED}")
    count, length = struct.unpack("<HI", tail[-12:-6])
    if tail[-42:-38] == b"PK\x06\x07" and tail[-98:-94] == b"PK\x06\x06":
        count, length = struct.unpack("<QQ", tail[-66:-50])
    if count > MOST_MEMBERS or length > _MOST_PER_ENTRY * count:
        raise ModelError(f"has a ZIP directory of {count} members in {length} bytes; {DAMAGED}")


def _members(archive: zipfile.ZipFile, file: IO[bytes]) -> dict[str, zipfile.ZipInfo]:
    """Return the members by name: stored, side by side, each of them once."""
    members: dict[str, zipfile.ZipInfo] = {}
    position = BODY_AT
    for info in archive.infolist():
        stored = info.compress_type == zipfile.ZIP_STORED and info.flag_bits == 0
        file.seek(info.header_offset + 26)
        name, extra = struct.unpack("<HH", file.read(4))
        if not stored or info.file_size != info.compress_size or info.header_offset != position:
            raise ModelError(f"has ZIP members that are not stored side by side; {DAMAGED}")
        position += 30 + name + extra + info.file_size
        members[info.filename] = info
    numbered = {f"{number}.npy" for number in range(len(archive.infolist()) - 1)}
    if position != archive.start_dir or members.keys() != {"model.json", *numbered}:
        raise ModelError(f"has other ZIP members than model.json and numbered arrays; {DAMAGED}")
    return members


def _read_members(archive: zipfile.ZipFile, members: dict[str, zipfile.ZipInfo]) -> Tree:
    info = members.pop("model.json")
    if info.file_size > MOST_JSON:
        raise ModelError(
            f"has a model.json of {info.file_size} bytes; allowed are {MOST_JSON}; {DAMAGED}"
        )

    def array(number: int) -> npt.NDArray[Any]:
        found = members.pop(f"{number}.npy")
        with archive.open(found) as member:
            values = read_array(member, found.file_size)
            member.read(1)  # at the end the checksum is compared
        return values

    tree = decode(archive.read(info), array)
    if members:
        raise ModelError(f"has arrays that model.json does not mention; {DAMAGED}")
    if not isinstance(tree, dict):
        raise ModelError(f"has no object in its model.json; {DAMAGED}")
    return tree
