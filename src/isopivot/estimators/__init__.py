"""The scikit-learn estimators."""

from isopivot.estimators._results import Calibration, Explanation
from isopivot.estimators._saving import load
from isopivot.estimators.classifier import ICPQRClassifier
from isopivot.estimators.diffusion import DiffusionICPQR
from isopivot.estimators.kernel import KernelICPQR
from isopivot.estimators.linear import ICPQR
from isopivot.estimators.table import TableModel

__all__ = [
    "ICPQR",
    "Calibration",
    "DiffusionICPQR",
    "Explanation",
    "ICPQRClassifier",
    "KernelICPQR",
    "TableModel",
    "load",
]
