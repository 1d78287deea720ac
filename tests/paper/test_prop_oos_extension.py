"""Out-of-sample proposition and Algorithm 3, corrected (errata 6): R_jj divides the whole bracket,
so the image of x solves a triangular system, and equals Q^T x."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from isopivot import ICPQR
from reference import distances
from strategies import problems, seeds
from tolerances import largest_norm, length_slack, q_less_slack


def queries_like(X, seed, n=7):
    """Points of the same scale and dtype as X, in general position."""
    Y = np.random.default_rng(seed).standard_normal((n, X.shape[1]))
    return (Y * (largest_norm(X) / np.sqrt(X.shape[1]))).astype(X.dtype)


def forward_substitution(T, rhs):
    """Algorithm 3 with the parentheses of its proof; T lower triangular, right sides in columns."""
    f = np.zeros_like(rhs)
    for j in range(len(T)):
        f[j] = (rhs[j] - T[j, :j] @ f[:j]) / T[j, j]
    return f


def largest_inverse_entry_sum(T):
    """Row-sum norm of the inverse, by the same substitution."""
    inverse = forward_substitution(T, np.eye(len(T), dtype=T.dtype))
    return np.abs(inverse).sum(axis=1).max(initial=0)


@given(problem=problems(), center=st.booleans(), seed=seeds)
def test_triangular_solve_gives_the_transform(problem, center, seed):
    X, mu = problem
    model = ICPQR(mu=mu, center=center).fit(X)
    Y, mean = queries_like(X, seed), model.mean_ if center else 0
    B = model.dictionary_.astype(np.longdouble) - mean
    T = model.embedding_[model.dictionary_indices_].astype(np.longdouble)
    f = forward_substitution(T, B @ (Y.astype(np.longdouble) - mean).T).T
    # T and B carry rounding of size slack; solving magnifies it by the inverse of T.
    growth = 1 + largest_inverse_entry_sum(T) * (largest_norm(X) + largest_norm(Y))
    assert np.abs(f - model.transform(Y)).max(initial=0) <= growth * length_slack(X, Y)


@given(problem=problems(), center=st.booleans(), seed=seeds)
def test_transform_is_the_product_with_the_components(problem, center, seed):
    X, mu = problem
    model = ICPQR(mu=mu, center=center).fit(X)
    Y = queries_like(X, seed)
    centred = Y.astype(np.longdouble) - (model.mean_ if center else 0)
    expected = centred @ model.components_.astype(np.longdouble).T
    assert np.abs(model.transform(Y) - expected).max(initial=0) <= length_slack(X, Y)


@given(problem=problems(), center=st.booleans(), rotate=st.booleans())
def test_training_rows_map_to_their_own_embedding(problem, center, rotate):
    X, mu = problem
    model = ICPQR(mu=mu, center=center, rotate=rotate).fit(X)
    together = model.transform(X)
    alone = np.vstack([model.transform(row[None]) for row in X])
    assert np.abs(together - model.embedding_).max(initial=0) <= length_slack(X)
    assert np.abs(alone - model.embedding_).max(initial=0) <= length_slack(X)


@given(problem=problems(dtypes=(np.float64,)), center=st.booleans())
def test_sparse_training_rows_map_to_their_own_embedding(problem, center):
    X, mu = problem
    model = ICPQR(mu=mu, center=center).fit(csr_array(X))
    q_less = model.certificate_.route == "cholesky"
    slack = q_less_slack(X) if q_less else length_slack(X)
    alone = np.vstack([model.transform(csr_array(row[None])) for row in X])
    assert np.abs(model.transform(csr_array(X)) - model.embedding_).max(initial=0) <= slack
    assert np.abs(alone - model.embedding_).max(initial=0) <= slack


@given(problem=problems(), center=st.booleans(), seed=seeds)
def test_new_distances_change_by_at_most_the_two_rates(problem, center, seed):
    X, mu = problem
    model = ICPQR(mu=mu, center=center).fit(X)
    Y = queries_like(X, seed)
    change = distances(Y, X) - distances(model.transform(Y), model.embedding_)
    allowed = model.distortion_rate(Y)[:, None] + model.residuals_
    slack = 2 * length_slack(X, Y)
    assert (change >= -slack).all()
    assert (change <= allowed + slack).all()
