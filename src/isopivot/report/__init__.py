"""One HTML file that shows a fitted model to somebody who has only a browser."""

from __future__ import annotations

import os
from typing import Any

from sklearn.utils.validation import check_is_fitted

from isopivot._files import atomic_path
from isopivot.estimators import ICPQR, DiffusionICPQR, KernelICPQR
from isopivot.report.collect import collect
from isopivot.report.page import render

__all__ = ["write"]


def write(
    model: Any,
    X: Any,
    path: str | os.PathLike[str],
    *,
    names: Any = None,
    labels: Any = None,
    title: str | None = None,
    max_rows: int = 10_000,
    random_state: int = 0,
) -> None:
    """Write an interactive report on a fitted model to one HTML file.

    Parameters
    ----------
    model : ICPQR, KernelICPQR or DiffusionICPQR
        Fitted.
    X : array-like, sparse matrix or data frame of shape (n_samples, n_features)
        Rows to show: those the model learnt from, or others.
    path : str or path-like
        Where the file goes; it is written whole or not at all.
    names : sequence of length n_samples, optional
        What to call the rows; else a frame's index, else row numbers.
    labels : sequence of length n_samples, optional
        Groups or numbers that colour the embedding.
    title : str, optional
        Heading of the page.
    max_rows : int, default=10_000
        With more rows than this, the dictionary, the oddest rows, and others by lot.
    random_state : int, default=0
        Seed of what is drawn by lot; the same arguments give the same file.

    Raises
    ------
    ValueError
        Where the model has no single dictionary, such as a classifier, or names and labels
        do not match the rows.
    ImportError
        Where plotly is not installed.

    Notes
    -----
    The page holds plotly.js (about 5 MB) and the data, and loads nothing from anywhere: it
    opens from a disk, an e-mail or a server alike. Its security policy forbids the
    network. Numbers are rounded to six digits. A model without its embedding (from a
    file) gets a page too, where the bound of a step is twice its mu and rounding.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from sklearn.datasets import load_iris
    >>> from isopivot import ICPQR, report
    >>> X = load_iris().data
    >>> page = pathlib.Path(tempfile.mkdtemp()) / "iris.html"
    >>> report.write(ICPQR("10%").fit(X), X, page, title="Irises")
    >>> "<h1>Irises</h1>" in page.read_text(encoding="utf-8")
    True
    """
    _check(model)
    library = _plotly()
    data = collect(
        model,
        X,
        names=names,
        labels=labels,
        title=title,
        max_rows=max_rows,
        random_state=random_state,
    )
    with atomic_path(path) as temporary:
        temporary.write_text(render(data, library), encoding="utf-8", newline="\n")


def _check(model: Any) -> None:
    if not isinstance(model, ICPQR | KernelICPQR | DiffusionICPQR):
        raise ValueError(
            f"got {type(model).__name__}; allowed are ICPQR, KernelICPQR and DiffusionICPQR, "
            "which have one dictionary; report on one of these (a classifier has one per class, "
            "in estimators_)"
        )
    check_is_fitted(model)


def _plotly() -> str:
    try:
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise ImportError(
            "a report needs plotly, which is not installed; pip install plotly"
        ) from error
    return str(get_plotlyjs())
