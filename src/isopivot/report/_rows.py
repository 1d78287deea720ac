"""Rows of a table, whatever holds them, and what a model knows about them."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.utils import _safe_indexing

from isopivot._arrays import Rows, Vector, row_blocks, times_power_of_two, to_numpy
from isopivot.certificate import distances
from isopivot.estimators._parts import unrotated
from isopivot.report._steps import has_embedding
from isopivot.report._words import kind_of


@contextlib.contextmanager
def without_names() -> Iterator[None]:
    """Let rows come without the names of features: so are dictionaries stored, and arrays."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        yield


def as_rows(X: Any) -> Any:
    """Return `X` in a form whose rows can be taken; frames keep their column names."""
    if sparse.issparse(X):
        return X.tocsr()
    return X if hasattr(X, "shape") else np.asarray(X)


def take(X: Any, rows: Rows) -> Any:
    """Return some rows, of the same kind as `X`."""
    return X[rows] if sparse.issparse(X) else _safe_indexing(X, rows)


def dense(X: Any) -> Vector:
    """Return rows as a float64 matrix."""
    if sparse.issparse(X):
        return np.asarray(X.toarray(), dtype=np.float64)
    plain = X.to_numpy() if hasattr(X, "to_numpy") else to_numpy(X)
    return np.asarray(plain, dtype=np.float64)


def is_precomputed(model: Any) -> bool:
    """Return whether rows are kernel values instead of features."""
    return str(getattr(model, "kernel", "")) == "precomputed"


def is_gram(X: Any) -> bool:
    """Return whether `X` is a whole kernel matrix, whose diagonal is then k(x, x)."""
    return bool(X.shape[0] == X.shape[1] and np.array_equal(dense(X), dense(X).T))


def rates_of(model: Any, X: Any) -> Vector:
    """Return the distortion rates; a precomputed kernel matrix brings its own diagonal."""
    if kind_of(model) == "kernel" and is_precomputed(model) and is_gram(X):
        return dense_vector(model.distortion_rate(X, dense(X).diagonal()))
    return dense_vector(model.distortion_rate(X))


def dense_vector(values: Any) -> Vector:
    """Return a float64 vector."""
    return np.asarray(to_numpy(values), dtype=np.float64)


def is_training(model: Any, X: Any, rates: Vector) -> bool:
    """Return whether `X` are the rows the model learnt from.

    As far as can be told: as many rows, none missed by more than in training, and the
    dictionary where it was. The promise then holds for these rows in any case. Training rows
    in another order, or only some of them, are not recognised.
    """
    certificate = model.certificate_
    slack = certificate.accuracy_floor + certificate.route_error
    if X.shape[0] != certificate.n_samples or rates.max() > certificate.mu_strict + slack:
        return False
    if is_precomputed(model):
        return is_gram(X)
    there = take(X, to_numpy(model.dictionary_indices_))
    if sparse.issparse(there) and sparse.issparse(model.dictionary_):
        return bool((there != model.dictionary_).nnz == 0)
    # A model fitted in single precision holds single-precision rows.
    known = dense(model.dictionary_)
    single = certificate.dtype == "float32"
    found = dense(there).astype(np.float32).astype(np.float64) if single else dense(there)
    return np.array_equal(found, known)


def coordinates(model: Any, X: Any, rows: Rows, training: bool) -> Vector:
    """Return coordinates in the order of the pivots: the first s are those of step s."""
    if training and has_embedding(model):
        return _unrotated(model, to_numpy(model.embedding_)[rows])
    return _unrotated(model, dense(model.transform(take(X, rows))))


def placeable(model: Any, most: int) -> Rows:
    """Return ranks of dictionary members that can be placed without the rows at hand."""
    known = has_embedding(model) or hasattr(model, "dictionary_")
    return np.arange(min(most, model.n_components_ if known else 0))


def member_coordinates(model: Any, ranks: Rows) -> Vector:
    """Return coordinates of dictionary members in the order of the pivots."""
    if has_embedding(model):
        chosen = to_numpy(model.dictionary_indices_)[ranks]
        return _unrotated(model, to_numpy(model.embedding_)[chosen])
    return _unrotated(model, dense(model.transform(model.dictionary_[ranks, :])))


def _unrotated(model: Any, F: npt.NDArray[Any]) -> Vector:
    rotation = None if model._rotation is None else to_numpy(model._rotation)
    return np.asarray(unrotated(F, rotation), dtype=np.float64)


def first_coordinates(model: Any, X: Any, rows: Rows, training: bool, most: int) -> Vector:
    """Return the leading columns of what `transform` gives."""
    if training and has_embedding(model):
        return np.asarray(to_numpy(model.embedding_)[rows, :most], dtype=np.float64)
    blocks = row_blocks(len(rows), 8 * max(1, model.n_components_))
    parts = [dense(model.transform(take(X, rows[block])))[:, :most] for block in blocks]
    return np.concatenate(parts)


def true_distances(model: Any, X: Any, rows: Rows, training: bool) -> tuple[Vector, Vector]:
    """Return lower and upper ends of the true distances between some rows of `X`.

    Both are the distance itself where the model's geometry can be evaluated.
    """
    some = take(X, rows)
    if kind_of(model) == "linear":
        d = distances(dense(some), dense(some))
        return d, d
    K = _inner_products(model, some, rows, training) if kind_of(model) == "kernel" else None
    if K is None:
        lower, upper = model.distance_bounds(some)
        return lower, upper
    norms2 = K.diagonal()
    d2 = np.maximum(norms2[:, None] + norms2[None, :] - 2.0 * K, 0.0)
    d = np.asarray(times_power_of_two(np.sqrt(d2), model._unit()))
    return d, d


def _inner_products(model: Any, some: Any, rows: Rows, training: bool) -> Vector | None:
    if is_precomputed(model):
        return dense(some)[:, rows] if training else None
    Y = model._frame.of(some if sparse.issparse(some) else dense(some))
    return np.asarray(model._kernel.matrix(Y, Y), dtype=np.float64)
