"""The two public data sets of the experiments: spoken letters and network traffic.

Both come from the folder that the environment variable ``ISOPIVOT_DATA`` names, as
``isolet/isolet.npz`` and ``kdd99/kdd99.npz``, and where that is not there, from
scikit-learn's fetchers, which download them once and keep a copy.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Words = NDArray[np.str_]
Loaded = TypeVar("Loaded")

FOLDER = "ISOPIVOT_DATA"
LETTERS = np.array(list("ABCDEFGHIJKLMNOPQRSTUVWXYZ"))
ISOLET_DIGITS = 4  # decimals of the original files; float32 copies come back exactly
ISOLET_PARTS = (1560, 1560, 1560, 1558)  # rows of isolet1 ... isolet4, the training part
KDD99_WORDS = ("protocol_type", "service", "flag")  # the columns that are not numbers
KDD99_FAMILIES: Mapping[str, tuple[str, ...]] = {
    "dos": (
        *("apache2", "back", "land", "mailbomb", "neptune", "pod", "processtable", "smurf"),
        *("teardrop", "udpstorm", "worm"),
    ),
    "probe": ("ipsweep", "mscan", "nmap", "portsweep", "saint", "satan"),
    "r2l": (
        *("ftp_write", "guess_passwd", "httptunnel", "imap", "multihop", "named", "phf"),
        *("sendmail", "snmpgetattack", "snmpguess", "spy", "warezclient", "warezmaster"),
        *("xlock", "xsnoop"),
    ),
    "u2r": (*("buffer_overflow", "loadmodule", "perl", "ps", "rootkit", "sqlattack", "xterm"),),
}


class Isolet(NamedTuple):
    """Spoken letters with the official split.

    Attributes
    ----------
    X_train, X_test : ndarrays of shape (6238, 617) and (1559, 617)
        Features in [-1, 1].
    y_train, y_test : ndarrays of str
        The letters, ``"A"`` to ``"Z"``.
    groups_train : ndarray of int or None
        1 to 4: the group of 30 speakers (isolet1 ... isolet4) that a training row is from.
        None where the source keeps another order than the original files, which alone tells.
    """

    X_train: Floats
    y_train: Words
    groups_train: NDArray[np.intp] | None
    X_test: Floats
    y_test: Words


@dataclass(frozen=True, eq=False)
class Kdd99:
    """Network connections of the KDD Cup 99, normal and attacks.

    Attributes
    ----------
    feature_names : tuple of str
        Names of the 38 numeric columns.
    X_train10, y_train10 : ndarrays of shape (494021, 38) and (494021,)
        The "10 percent" training part: numbers as recorded, and ``"normal"`` or the attack.
    X_test, y_test : ndarrays of shape (311029, 38) and (311029,), or None
        The labelled test part, which has attacks that the training part has not; None from
        scikit-learn's fetcher, which does not offer it.
    """

    feature_names: tuple[str, ...]
    X_train10: Floats
    y_train10: Words
    X_test: Floats | None
    y_test: Words | None


def load_isolet() -> Isolet:
    """Return ISOLET: 26 spoken letters, 6,238 training and 1,559 test samples.

    Returns
    -------
    Isolet
        A tuple (X_train, y_train, groups_train, X_test, y_test).

    Raises
    ------
    FileNotFoundError
        Where neither the folder nor the fetcher has it; the message names both ways.

    Notes
    -----
    From OpenML the rows come as one table. It is split where the original files are, and
    refused unless both parts then have the known number of every letter.

    Examples
    --------
    >>> from isopivot.datasets import load_isolet
    >>> X_train, y_train, groups, X_test, y_test = load_isolet()  # doctest: +SKIP
    """
    return _load("isolet", _isolet_from_file, _isolet_from_openml, 'fetch_openml("isolet")')


def load_kdd99() -> Kdd99:
    """Return KDD Cup 99: network connections, normal and attacks, numeric columns only.

    Returns
    -------
    Kdd99

    Raises
    ------
    FileNotFoundError
        Where neither the folder nor the fetcher has it; the message names both ways.

    Notes
    -----
    Rows are as published: about 70 % of them are duplicates.

    Examples
    --------
    >>> from isopivot.datasets import load_kdd99
    >>> data = load_kdd99()  # doctest: +SKIP
    """
    return _load("kdd99", _kdd99_from_file, _kdd99_from_sklearn, "fetch_kddcup99()")


def _load(
    name: str,
    from_file: Callable[[Mapping[str, Any]], Loaded],
    from_fetcher: Callable[[], Loaded],
    fetcher: str,
) -> Loaded:
    """Return the set from the folder, or else from the fetcher, or say how to get it."""
    folder = os.environ.get(FOLDER)
    path = Path(folder or "") / name / f"{name}.npz"
    if folder and path.is_file():
        try:
            with np.load(path, allow_pickle=False) as arrays:
                return from_file(arrays)
        except (BadZipFile, EOFError, KeyError, ValueError) as error:
            raise OSError(
                f"got {path}, which is not the {name} archive it should be ({error}); replace it, "
                f"or unset {FOLDER} to let scikit-learn download the set"
            ) from error
    try:
        return from_fetcher()
    except (OSError, HTTPException, ValueError) as error:  # OpenML's error is a ValueError
        got = f"no file {path}" if folder else f"no {FOLDER} in the environment"
        raise FileNotFoundError(
            f"got {got}, and no answer from sklearn.datasets.{fetcher} ({error}); point {FOLDER} "
            f"to a folder that holds {name}/{name}.npz, or connect to the network once"
        ) from error


# -- ISOLET -----------------------------------------------------------------------------------


def _isolet_from_file(arrays: Mapping[str, Any]) -> Isolet:
    X_train, X_test = (_rounded(arrays[key]) for key in ("X_train", "X_test"))
    y_train, y_test = (LETTERS[arrays[key].astype(int) - 1] for key in ("y_train", "y_test"))
    return Isolet(X_train, y_train, arrays["group_train"].astype(np.intp), X_test, y_test)


def _isolet_from_openml() -> Isolet:
    from sklearn.datasets import fetch_openml

    # This parser is slower than the other and needs no pandas.
    table = fetch_openml("isolet", version=1, as_frame=False, parser="liac-arff")
    X = _rounded(table.data)
    codes = np.array([int(float(str(word).strip("'\""))) for word in table.target])
    n = sum(ISOLET_PARTS)
    counts = [np.bincount(part, minlength=27)[1:] for part in (codes[:n], codes[n:])]
    if not np.array_equal(counts, [_letters(240, F=238), _letters(60, M=59)]):
        raise ValueError(
            "the rows are not in the order of the original files, so that training and test "
            "speakers cannot be told apart"
        )
    return Isolet(X[:n], LETTERS[codes[:n] - 1], _groups(codes[:n]), X[n:], LETTERS[codes[n:] - 1])


def _groups(codes: NDArray[np.intp]) -> NDArray[np.intp] | None:
    """Return the group of every training row if the four blocks have the letters they should."""
    blocks = np.split(codes, np.cumsum(ISOLET_PARTS)[:-1])
    counts = [np.bincount(block, minlength=27)[1:] for block in blocks]
    if not np.array_equal(counts, [*[_letters(60)] * 3, _letters(60, F=58)]):
        return None
    return np.repeat(np.arange(1, 5), ISOLET_PARTS)


def _letters(each: int, **exceptions: int) -> list[int]:
    return [exceptions.get(letter, each) for letter in LETTERS]


def _rounded(X: Any) -> Floats:
    values: Floats = np.asarray(X, dtype=np.float64)
    return values.round(ISOLET_DIGITS)


# -- KDD Cup 99 -------------------------------------------------------------------------------


def _kdd99_from_file(arrays: Mapping[str, Any]) -> Kdd99:
    names = arrays["label_names"]
    return Kdd99(
        tuple(str(name) for name in arrays["feature_names"]),
        arrays["X_train10"].astype(np.float64, copy=False),
        names[arrays["label_train10"]],
        arrays["X_test"].astype(np.float64, copy=False),
        names[arrays["label_test"]],
    )


def _kdd99_from_sklearn() -> Kdd99:
    from sklearn.datasets import fetch_kddcup99

    table = fetch_kddcup99(percent10=True, as_frame=False)
    numeric = [j for j, name in enumerate(table.feature_names) if name not in KDD99_WORDS]
    # Labels are byte strings with a full stop, such as b"normal.".
    labels, codes = np.unique(np.asarray(table.target).astype("S16"), return_inverse=True)
    words = np.array([label.decode("ascii").rstrip(".") for label in labels])
    return Kdd99(
        tuple(table.feature_names[j] for j in numeric),
        np.asarray(table.data[:, numeric], dtype=np.float64),
        words[codes],
        None,
        None,
    )
