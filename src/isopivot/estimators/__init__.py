"""The scikit-learn estimators."""

from isopivot.estimators._results import Calibration, Explanation
from isopivot.estimators.diffusion import DiffusionICPQR
from isopivot.estimators.kernel import KernelICPQR
from isopivot.estimators.linear import ICPQR

__all__ = ["ICPQR", "Calibration", "DiffusionICPQR", "Explanation", "KernelICPQR"]
