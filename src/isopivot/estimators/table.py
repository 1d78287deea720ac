"""TableModel: what turns a table into numbers, and the estimator of those numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from isopivot.estimators._savable import Savable


@dataclass(frozen=True, eq=False, repr=False)
class TableModel(Savable):
    """A preparation and the estimator that was fitted on what it gave; one file holds both.

    Attributes
    ----------
    preparation : isopivot.data.Preparation
        Which columns are used, and how they become numbers.
    estimator : ICPQR, KernelICPQR, DiffusionICPQR or ICPQRClassifier
        Fitted on the prepared table.
    dictionary_ids : tuple of tuple, or None
        Ids (numbers or texts) of the rows of the dictionary in the table, in the order of
        `dictionary_indices_`; for a classifier one tuple per class. None if not known.
    """

    preparation: Any
    estimator: Any
    dictionary_ids: tuple[tuple[Any, ...], ...] | None = None

    def __repr__(self) -> str:
        """Return the kind and the sizes: a preparation's own would name every column."""
        parts = getattr(self.estimator, "estimators_", [self.estimator])
        kept = sum(getattr(part, "n_components_", 0) for part in parts)
        features = len(self.preparation.feature_names)
        kind = type(self.estimator).__name__
        return f"TableModel({kind}, dictionary rows: {kept}, features: {features})"
