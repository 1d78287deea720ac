"""Peers of DiffusionICPQR, for comparison: spectral diffusion maps and mu-IDM."""

from isopivot.baselines.mu_idm import MuIDM
from isopivot.baselines.spectral import DiffusionMaps

__all__ = ["DiffusionMaps", "MuIDM"]
