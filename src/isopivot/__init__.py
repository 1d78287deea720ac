"""Dimensionality reduction that certifies every pairwise distance.

isopivot picks a few rows of the data (the dictionary) by exact greedy pivoted QR, projects
on their span, and proves that no pairwise distance changed by more than 2 mu. The same
factorization places new points, tells which of them do not belong, and says why.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from isopivot._factors import Factorization
    from isopivot.alignment import align
    from isopivot.certificate import (
        AccuracyError,
        Certificate,
        actual_distortion,
        distance_bounds,
    )
    from isopivot.estimators import ICPQR, DiffusionICPQR, ICPQRClassifier, KernelICPQR, load
    from isopivot.factorize import icpqr

# Where the names are: imported when first used, so that `isopivot --help` need not wait
# for scikit-learn.
_HOMES = {
    "Factorization": "isopivot._factors",
    "align": "isopivot.alignment",
    **dict.fromkeys(
        ("AccuracyError", "Certificate", "actual_distortion", "distance_bounds"),
        "isopivot.certificate",
    ),
    **dict.fromkeys(
        ("ICPQR", "DiffusionICPQR", "ICPQRClassifier", "KernelICPQR", "load"),
        "isopivot.estimators",
    ),
    "icpqr": "isopivot.factorize",
}

_MODULES = ("baselines", "data", "datasets", "experiments", "onnx", "plots", "report")

__all__ = [
    "ICPQR",
    "AccuracyError",
    "Certificate",
    "DiffusionICPQR",
    "Factorization",
    "ICPQRClassifier",
    "KernelICPQR",
    "actual_distortion",
    "align",
    "distance_bounds",
    "icpqr",
    "load",
]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name in _MODULES:  # isopivot.report.write without a second import
        return import_module(f"{__name__}.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})
