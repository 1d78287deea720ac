"""What a preparation keeps, as plain data: written to a model file, checked when read."""

from __future__ import annotations

from typing import Any

import numpy as np

from isopivot._arrays import Vector
from isopivot.data._table import duplicates

_KEYS = (
    "id_name", "label_name", "columns", "ignored", "categories",
    "impute", "fills", "scale", "offsets", "divisors",
)  # fmt: skip
_IMPUTES = (None, "median", "drop")
_SCALES = ("none", "standardize", "unit-box")


def plain_state(preparation: Any) -> dict[str, Any]:
    """Return a preparation as a tree of JSON values and float64 arrays."""
    return {
        "id_name": preparation.id_name,
        "label_name": preparation.label_name,
        "columns": list(preparation.columns),
        "ignored": list(preparation.ignored),
        "categories": [None if c is None else list(c) for c in preparation.categories],
        "impute": preparation.impute,
        "fills": np.array(preparation.fills, dtype=np.float64),
        "scale": preparation.scale,
        "offsets": np.array(preparation.offsets, dtype=np.float64),
        "divisors": np.array(preparation.divisors, dtype=np.float64),
    }


def checked_state(tree: Any) -> dict[str, Any]:
    """Return the fields of a preparation from such a tree, or raise ValueError."""
    if not isinstance(tree, dict) or set(tree) != set(_KEYS):
        raise ValueError(f"a preparation has the entries {', '.join(_KEYS)}; got {_shown(tree)}")
    columns = _names(tree, "columns")
    _expect(len(columns) > 0, "columns", "at least one name", columns)
    categories = _categories(tree["categories"], len(columns))
    n_features = sum(1 if texts is None else len(texts) for texts in categories)
    impute, scale = tree["impute"], tree["scale"]
    _expect(_among(impute, _IMPUTES), "impute", "None, 'median' or 'drop'", impute)
    _expect(_among(scale, _SCALES), "scale", f"one of {', '.join(_SCALES)}", scale)
    n_scaled = 0 if scale == "none" else n_features
    fills = _numbers(tree, "fills", len(columns) if impute == "median" else 0)
    _check_fills(fills, categories)
    divisors = _numbers(tree, "divisors", n_scaled)
    _expect(bool((divisors > 0.0).all()), "divisors", "positive numbers", divisors)
    return {
        "id_name": _name(tree, "id_name"),
        "label_name": _name(tree, "label_name"),
        "columns": columns,
        "ignored": _names(tree, "ignored"),
        "categories": categories,
        "impute": impute,
        "fills": tuple(fills.tolist()),
        "scale": scale,
        "offsets": tuple(_numbers(tree, "offsets", n_scaled).tolist()),
        "divisors": tuple(divisors.tolist()),
    }


def _shown(value: object) -> str:
    text = ", ".join(map(str, value)) if isinstance(value, dict) else repr(value)
    return text[:80]


def _expect(holds: bool, key: str, allowed: str, got: object) -> None:
    if not holds:
        raise ValueError(f"the preparation's {key} must be {allowed}; got {_shown(got)}")


def _among(value: object, allowed: tuple[str | None, ...]) -> bool:
    return (value is None or type(value) is str) and value in allowed


def _name(tree: dict[str, Any], key: str) -> str | None:
    name = tree[key]
    _expect(name is None or type(name) is str, key, "a name or None", name)
    return name  # type: ignore[no-any-return]


def _texts(values: object, key: str) -> tuple[str, ...]:
    """Return a list of different strings as a tuple."""
    holds = isinstance(values, list | tuple) and all(type(value) is str for value in values)
    _expect(holds, key, "a list of texts", values)
    texts: tuple[str, ...] = tuple(values)  # type: ignore[arg-type]
    _expect(not duplicates(texts), key, "different from each other", list(texts))
    return texts


def _names(tree: dict[str, Any], key: str) -> tuple[str, ...]:
    return _texts(tree[key], key)


def _categories(values: object, n_columns: int) -> tuple[tuple[str, ...] | None, ...]:
    holds = isinstance(values, list | tuple) and len(values) == n_columns
    _expect(holds, "categories", f"a list of {n_columns}", values)
    found: list[tuple[str, ...] | None] = []
    for entry in values:  # type: ignore[attr-defined]
        texts = None if entry is None else _texts(entry, "categories")
        _expect(texts is None or texts == tuple(sorted(texts)), "categories", "sorted", entry)
        _expect(texts is None or len(texts) > 0, "categories", "at least one each", entry)
        found.append(texts)
    return tuple(found)


def _numbers(tree: dict[str, Any], key: str, length: int) -> Vector:
    values = tree[key]
    holds = (
        isinstance(values, np.ndarray)
        and values.dtype == np.float64
        and values.shape == (length,)
        and bool(np.isfinite(values).all())
    )
    _expect(holds, key, f"{length} finite float64 numbers", values)
    return np.asarray(values)


def _check_fills(fills: Vector, categories: tuple[tuple[str, ...] | None, ...]) -> None:
    for fill, texts in zip(fills, categories, strict=False):
        if texts is not None:
            holds = float(fill).is_integer() and 0 <= fill < len(texts)
            _expect(holds, "fills", f"positions among {len(texts)} categories", fill)
