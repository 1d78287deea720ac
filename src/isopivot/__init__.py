"""Dimensionality reduction that certifies every pairwise distance.

isopivot picks a few rows of the data (the dictionary) by exact greedy pivoted QR, projects
on their span, and proves that no pairwise distance changed by more than 2 mu. The same
factorization places new points, tells which of them do not belong, and says why.
"""

from isopivot._factors import Factorization
from isopivot.alignment import align
from isopivot.certificate import AccuracyError, Certificate, actual_distortion, distance_bounds
from isopivot.estimators import ICPQR, DiffusionICPQR, ICPQRClassifier, KernelICPQR, load
from isopivot.factorize import icpqr

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
