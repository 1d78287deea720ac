"""Bytes of model files as a stranger could make them, and what reading must say."""

import hashlib
import io
import struct
import warnings
import zipfile

import numpy as np
import pytest

from isopivot import load
from isopivot.persistence import BODY_AT, MAGIC, ModelError

__all__ = ["HEAD", "npy", "refusal", "sealed", "zipped"]

HEAD = MAGIC + struct.pack("<H", 1)


def sealed(body, head=HEAD):
    """The bytes of a model file with that body: what a stranger can make, digest included."""
    return head + hashlib.sha256(head + body).digest() + body


def zipped(members, offset=BODY_AT):
    """A ZIP whose offsets count from the start of the file, as in a model file."""
    file = io.BytesIO(bytes(offset))
    file.seek(offset)
    with warnings.catch_warnings(), zipfile.ZipFile(file, "w") as archive:
        warnings.simplefilter("ignore")  # that a name comes twice is meant
        for name, content in members:
            archive.writestr(zipfile.ZipInfo(name), content)
    return file.getvalue()[offset:]


def npy(array):
    file = io.BytesIO()
    np.lib.format.write_array(file, array, version=(1, 0))
    return file.getvalue()


def refusal(path):
    """The message of the ModelError that reading gives; it is one line that names the file."""
    with pytest.raises(ModelError) as caught:
        load(path)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(repr(str(path)))
    assert ";" in message, "a remedy follows"
    return message
