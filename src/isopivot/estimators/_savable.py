"""What an estimator needs to be saved, and to live without what was not saved."""

from __future__ import annotations

import os
from typing import Any


class Savable:
    """Gives an estimator `save`."""

    def save(self, path: str | os.PathLike[str], *, embedding: bool = False) -> None:
        """Write the fitted estimator to one file, from which `isopivot.load` reads it.

        Parameters
        ----------
        path : str or path-like
            The file to write or replace; `.isopivot` is a fitting ending.
        embedding : bool, default=False
            Whether to keep `embedding_` and `residuals_`, one row per training point, too.
            Only `truncate` needs them.

        Notes
        -----
        The file holds no code and is never unpickled; docs/model-format.md describes it. It
        is written whole or not at all, and the same model gives the same bytes. Rows of the
        dictionary are in it as they are. `DiffusionICPQR` places new points by their kernel
        to all training points, so its file holds every training row. Arrays of other
        libraries come back as NumPy arrays, and callable kernels cannot be saved.
        """
        # The module of file formats knows all estimators; they do not know it.
        from isopivot.estimators._saving import save

        save(self, path, embedding=embedding)


class Droppable:
    """An attribute that a saved model may come back without; assigned, it is ordinary."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is None:
            return self
        if "certificate_" not in vars(instance):
            raise AttributeError(f"{self._name} is there after fit; call fit first")
        raise AttributeError(
            f"{self._name} was not saved with this model; save it with embedding=True, or fit again"
        )


def check_embedding(model: Any, purpose: str) -> None:
    """Raise unless the model has its embedding."""
    if "embedding_" not in vars(model):
        raise ValueError(
            f"got a model that was saved without its embedding, which {purpose} needs; save it "
            "with embedding=True, or fit again"
        )
