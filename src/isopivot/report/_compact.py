"""Numbers made small enough for a page: six digits for reading, 16 bits for pictures."""

from __future__ import annotations

import base64
import math
from typing import Any

import numpy as np

from isopivot._arrays import Vector

LEVELS = 65_535


def text(value: float) -> str:
    """Return a number as the page prints it: six significant digits."""
    return f"{float(value):.6g}"


def number(value: float) -> float | None:
    """Return a number with six significant digits; None where JSON has no word for it."""
    return float(text(value)) if math.isfinite(value) else None


def numbers(values: Any) -> list[float | None]:
    """Return numbers with six significant digits each."""
    return [number(value) for value in np.asarray(values, dtype=np.float64).tolist()]


def packed(values: Vector) -> dict[str, Any]:
    """Return an array as 16-bit steps between its extremes, row by row, in base64.

    Half a step is below the width of a pixel in a picture 30,000 pixels wide.
    """
    flat = np.asarray(values, dtype=np.float64).ravel()
    low, high = (float(flat.min()), float(flat.max())) if flat.size else (0.0, 0.0)
    step = high / LEVELS - low / LEVELS
    levels = np.rint((flat - low) / step) if step > 0.0 else np.zeros(flat.size)
    encoded = base64.b64encode(levels.astype("<u2").tobytes()).decode("ascii")
    return {"low": low, "step": step, "data": encoded}


def unpacked(pack: dict[str, Any]) -> Vector:
    """Return what the page reads from `packed`."""
    levels = np.frombuffer(base64.b64decode(pack["data"]), dtype="<u2")
    return np.asarray(pack["low"] + pack["step"] * levels)
