"""Strict reading of trees: every entry is there, known, and what it must be."""

from __future__ import annotations

import math
from collections.abc import Iterable
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from isopivot.persistence import ModelError

_REMEDY = "save the model again"
_FLOATS = ("float64", "float32")


class Fields:
    """The entries of one object; on leaving the `with` block none may be left over.

    Every method takes one entry and raises `ModelError` unless it is what was asked for;
    `optional` entries may be None, but must be there too.
    """

    def __init__(self, tree: Any, name: str = "model") -> None:
        self._name = name
        if not isinstance(tree, dict):
            raise ModelError(f"has {_kind(tree)} as {name}; allowed is an object; {_REMEDY}")
        self._left = dict(tree)

    def __enter__(self) -> Fields:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None and self._left:
            unknown = ", ".join(sorted(self._left))[:80]
            raise ModelError(
                f"has unknown entries in {self._name}: {unknown!a}; allowed are those of this "
                f"version; upgrade isopivot, or {_REMEDY}"
            )

    def take(self, name: str) -> Any:
        """Return an entry, whatever it is."""
        if name not in self._left:
            raise ModelError(f"lacks the entry {self._name}.{name}; {_REMEDY}")
        return self._left.pop(name)

    def refuse(self, name: str, got: Any, allowed: str) -> ModelError:
        """Return the error for an entry that is not what is allowed."""
        return ModelError(
            f"has {_kind(got)} as {self._name}.{name}; allowed is {allowed}; {_REMEDY}"
        )

    def number(self, name: str, low: float = -math.inf, *, optional: bool = False) -> Any:
        """Return a finite number of at least `low`."""
        value = self.take(name)
        if value is None and optional:
            return None
        real = isinstance(value, int | float) and not isinstance(value, bool)
        if not real or not abs(value) <= 1.7976931348623157e308 or value < low:
            least = "a finite number" if low == -math.inf else f"a finite number >= {low:g}"
            raise self.refuse(name, value, least)
        return value

    def positive(self, name: str) -> Any:
        """Return a finite number above 0."""
        value = self.number(name)
        if value <= 0:
            raise self.refuse(name, value, "a finite number > 0")
        return value

    def integer(self, name: str, low: int, high: int, *, optional: bool = False) -> Any:
        """Return an integer from `low` to `high`."""
        value = self.take(name)
        if value is None and optional:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise self.refuse(name, value, f"an integer from {low} to {high}")
        return value

    def flag(self, name: str) -> bool:
        """Return True or False."""
        value = self.take(name)
        if not isinstance(value, bool):
            raise self.refuse(name, value, "true or false")
        return value

    def choice(self, name: str, allowed: Iterable[str]) -> Any:
        """Return one of some strings."""
        value, allowed = self.take(name), tuple(allowed)
        if not isinstance(value, str) or value not in allowed:
            raise self.refuse(name, value, f"one of {', '.join(allowed)}")
        return value

    def texts(self, name: str, count: int, *, optional: bool = False) -> Any:
        """Return a list of that many strings."""
        value = self.items(name, optional=optional)
        if value is None:
            return None
        if len(value) != count or not all(isinstance(text, str) for text in value):
            raise self.refuse(name, value, f"a list of {count} strings")
        return value

    def items(self, name: str, *, optional: bool = False) -> Any:
        """Return a list."""
        value = self.take(name)
        if not isinstance(value, list) and not (optional and value is None):
            raise self.refuse(name, value, "a list")
        return value

    def fields(self, name: str, *, optional: bool = False) -> Any:
        """Return the entries of an object in this one."""
        value = self.take(name)
        return None if value is None and optional else Fields(value, f"{self._name}.{name}")

    def array(
        self,
        name: str,
        shape: tuple[int | None, ...],
        dtypes: tuple[str, ...] = ("float64",),
        *,
        low: float = -math.inf,
        optional: bool = False,
    ) -> Any:
        """Return a dense array of finite numbers of at least `low`; None in `shape` is any."""
        value = self.take(name)
        if value is None and optional:
            return None
        if not isinstance(value, np.ndarray):
            raise self.refuse(name, value, "an array")
        self._check_shape(name, value, shape, dtypes)
        self._check_values(name, value, low)
        return value

    def positive_array(self, name: str, shape: tuple[int | None, ...]) -> npt.NDArray[np.float64]:
        """Return a dense array of finite numbers above 0."""
        value: npt.NDArray[np.float64] = self.array(name, shape, low=0.0)
        if not (value > 0).all():
            raise self.refuse(name, value, "an array of numbers > 0")
        return value

    def indices(self, name: str, count: int | None, below: int) -> npt.NDArray[np.int64]:
        """Return different row numbers below `below`."""
        value: npt.NDArray[np.int64] = self.array(name, (count,), ("int64",), low=0)
        if (value >= below).any() or len(np.unique(value)) != len(value):
            raise self.refuse(name, value, f"an array of different row numbers below {below}")
        return value.astype(np.intp, copy=False)

    def triangle(self, name: str, side: int) -> npt.NDArray[np.float64]:
        """Return a lower triangular matrix that can be solved with."""
        value: npt.NDArray[np.float64] = self.array(name, (side, side))
        diagonal = np.diagonal(value)
        if not (diagonal > 0).all() or np.triu(value, 1).any():
            raise self.refuse(name, value, "a lower triangle with a diagonal > 0")
        return value

    def axes(
        self, name: str, shape: tuple[int, int], dtypes: tuple[str, ...], *, optional: bool = False
    ) -> Any:
        """Return a matrix whose rows have length 1."""
        value = self.array(name, shape, dtypes, optional=optional)
        if value is not None and not (np.abs(np.vecdot(value, value) - 1.0) <= 0.001).all():
            raise self.refuse(name, value, "a matrix whose rows have length 1")
        return value

    def rows(self, name: str, shape: tuple[int, int], dtypes: tuple[str, ...] = _FLOATS) -> Any:
        """Return a dense or CSR matrix of finite numbers."""
        value = self.take(name)
        if not isinstance(value, np.ndarray) and not sparse.issparse(value):
            raise self.refuse(name, value, "a matrix")
        self._check_shape(name, value, shape, dtypes)
        self._check_values(name, value.data if sparse.issparse(value) else value, -math.inf)
        return value

    def _check_shape(
        self, name: str, value: Any, shape: tuple[int | None, ...], dtypes: tuple[str, ...]
    ) -> None:
        fits = len(value.shape) == len(shape) and all(
            wanted is None or wanted == got for wanted, got in zip(shape, value.shape, strict=True)
        )
        if not fits or value.dtype.name not in dtypes:
            sides = " x ".join("any" if side is None else str(side) for side in shape)
            raise self.refuse(name, value, f"{sides} of {' or '.join(dtypes)}")

    def _check_values(self, name: str, value: Any, low: float) -> None:
        if not np.isfinite(value).all() or (value < low).any():
            least = "" if low == -math.inf else f" >= {low:g}"
            raise self.refuse(name, value, f"an array of finite numbers{least}")


def _kind(value: Any) -> str:
    """Return a few words that say what a value is."""
    if isinstance(value, np.ndarray) or sparse.issparse(value):
        sides = " x ".join(str(side) for side in value.shape)
        return f"an array ({sides} of {value.dtype.name})"
    if value is None or isinstance(value, bool | int | float | str):
        return ascii(value)[:40]
    return "a list" if isinstance(value, list) else "an object"
