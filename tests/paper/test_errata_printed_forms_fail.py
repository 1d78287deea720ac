"""The paper's print fails on small examples, and isopivot is right on the same ones.

Numbers in test names are rows of docs/errata.md. Covered: the defects of the linear part that give
wrong output (1, 2, 3, 4, 6, 7, 15, 18) and the loose or false statements that a few lines settle
(8, 9, 20, 21, 22, 23). The defects of the diffusion part (12, 14, 16, 17) come with that part.

Points are columns (A) where the paper is quoted and rows (A.T) where the library is called.
"""

import numpy as np
import pytest

from isopivot import ICPQR, actual_distortion, align, icpqr
from reference import (
    distances,
    greedy,
    max_distortion,
    printed_algorithm_1,
    printed_algorithm_2,
    printed_algorithm_3,
    printed_algorithm_6,
    printed_distortion_rate,
    project,
)
from tolerances import length_slack


def columns(*points):
    return np.array(points, dtype=float).T


def gaussian(m, n, seed):
    return np.random.default_rng(seed).standard_normal((m, n))


# Row 1: y accumulates R-bar, not its square.


def test_1_unsquared_update_gets_the_second_diagonal_wrong():
    A = columns((2, 0), (0.6, 0.5))
    R, pi, _ = printed_algorithm_2(A, mu=0.2)
    assert R[1, pi[1]] == pytest.approx(0.1, abs=length_slack(A.T))
    result = icpqr(A.T, mu=0.2)
    assert result.pivots.tolist() == [0, 1]
    assert result.pivot_residuals[1] == pytest.approx(0.5, abs=length_slack(A.T))


def test_1_unsquared_update_expands_a_distance():
    A = columns((2, 0), (-1, 0))
    R, _, _ = printed_algorithm_2(A, mu=1.5)
    assert np.linalg.norm(R[:, 0] - R[:, 1]) == pytest.approx(np.sqrt(11))
    result = icpqr(A.T, mu=1.5)
    assert distances(result.coordinates)[0, 1] == pytest.approx(3, abs=length_slack(A.T))


def breaks_2mu(A, mu):
    """Whether the printed Algorithm 2 crashes, yields NaN or distorts by more than 2 mu."""
    try:
        R, _, _ = printed_algorithm_2(A, mu)
    except ValueError:
        return True
    return not max_distortion(A.T, R.T) <= 2 * mu + length_slack(A.T)


def test_1_unsquared_update_breaks_the_promise_on_random_points():
    sets = [gaussian(8, 20, seed) for seed in range(100)]
    assert sum(breaks_2mu(A, mu=1) for A in sets) > 30
    for A in sets:
        assert actual_distortion(A.T, icpqr(A.T, mu=1).coordinates) <= 2


# Row 2: Algorithm 1 uses a column index as a position.


def test_2_index_used_as_position_loses_track_of_the_pivots():
    A = np.diag([2.0, 1.0, 3.0])
    Q, _, pi, log = printed_algorithm_1(A, mu=0.5)
    assert log == [2, 0, 0]
    assert pi == [0, 2, 1]
    assert np.isnan(Q).any()
    result = icpqr(A.T, mu=0.5)
    assert result.pivots.tolist() == [2, 0, 1]
    assert np.isfinite(result.basis).all()


def test_2_index_used_as_position_names_other_points_than_it_orthogonalised():
    sets = [gaussian(6, 12, seed) for seed in range(50)]
    misnamed = 0
    for A in sets:
        _, _, pi, log = printed_algorithm_1(A, mu=1.0)
        misnamed += set(pi[: len(log)]) != set(log)
        result = icpqr(A.T, mu=1.0)
        own = project(A.T, result.pivots)[2]
        assert np.abs(result.residuals - own).max() <= length_slack(A.T)
    assert misnamed > 25


# Row 3: a pivot is admitted before the test.


def test_3_admitting_before_testing_costs_one_pivot_every_time():
    for seed in range(50):
        A = gaussian(8, 30, seed)
        printed = len(printed_algorithm_2(A, mu=2.0, squared=True)[0])
        assert len(icpqr(A.T, mu=2.0).pivots) == printed - 1


def test_3_admitting_before_testing_divides_zero_by_zero_at_full_rank():
    A = np.outer([3.0, 4.0], [1.0, 2.0, -1.0])
    R, _, _ = printed_algorithm_2(A, mu=0.5, squared=True)
    assert len(R) == 2
    assert np.isnan(R).any()
    result = icpqr(A.T, mu=0.5)
    assert result.pivots.tolist() == [1]
    assert np.isfinite(result.coordinates).all()


def test_3_admitting_before_testing_cannot_return_an_empty_dictionary():
    A = columns((0.1, 0), (0, 0.2))
    assert len(printed_algorithm_2(A, mu=1.0, squared=True)[0]) == 1
    assert icpqr(A.T, mu=1.0).pivots.size == 0


# Row 4: three different stopping rules.


def test_4_stopping_rules_disagree_at_equality():
    A = np.diag([3.0, 1.0, 1.0, 0.5])
    assert len(printed_algorithm_1(A, mu=1.0)[3]) == 2
    assert len(printed_algorithm_2(A, mu=1.0, squared=True)[0]) == 4
    result = icpqr(A.T, mu=1.0)
    assert result.pivots.tolist() == [0]
    assert actual_distortion(A.T, result.coordinates) <= 2


def fails_at_mu_zero(A):
    """Whether the repaired-squares Algorithm 2 runs out of columns or ends in NaN at mu = 0."""
    try:
        R, _, _ = printed_algorithm_2(A, mu=0.0, squared=True)
    except ValueError:
        return True
    return bool(np.isnan(R).any())


def test_4_mu_zero_goes_on_into_rounding_noise():
    for seed in range(20):
        A = gaussian(3, 6, seed)
        with pytest.raises(ValueError, match="empty sequence"):
            printed_algorithm_1(A, mu=0.0)
        assert fails_at_mu_zero(A)
        result = icpqr(A.T, mu=0.0)
        assert len(result.pivots) == 3
        assert max_distortion(A.T, result.coordinates) <= 2 * length_slack(A.T)


# Row 6: a missing parenthesis in the out-of-sample extension.


def test_6_missing_parenthesis_moves_the_image_of_a_dictionary_member():
    B, T = columns((2, 0), (2, 0.5)), np.array([[2.0, 2.0], [0.0, 0.5]])
    assert printed_algorithm_3(B, T, B[:, 1]).tolist() == [2.0, 4.5]
    assert np.linalg.solve(T.T, B.T @ B[:, 1]) == pytest.approx([2.0, 0.5])


def test_6_missing_parenthesis_breaks_consistency_with_the_embedding():
    X = columns((2, 0), (2, 0.5)).T
    model = ICPQR(mu=0.1, center=False).fit(X)
    B, T = model.dictionary_.T, model.embedding_[model.dictionary_indices_].T
    printed = np.array([printed_algorithm_3(B, T, x) for x in X])
    assert np.abs(printed - model.embedding_).max() > 0.5
    assert np.abs(model.transform(X) - model.embedding_).max() <= length_slack(X)


# Row 7: pivots keep z - y = delta, though their residual is zero.


def test_7_stale_pivot_entries_inflate_mu_strict():
    A = gaussian(8, 30, seed=0)
    _, _, residual2 = printed_algorithm_2(A, mu=2.0, squared=True)
    result = icpqr(A.T, mu=2.0)
    assert np.sqrt(residual2.max()) > 2.0
    assert result.certificate.mu_strict <= 2.0
    assert result.residuals[result.pivots].max() <= length_slack(A.T)


# Row 8: n - s, not rank - s, in the matrix approximation.


@pytest.mark.parametrize("n", [10, 101])
def test_8_rank_does_not_bound_the_matrix_error(n):
    x = np.linspace(-1, 1, n - 1)
    X = np.vstack([[3.0, 0.0], np.column_stack([x, np.where(np.arange(n - 1) % 2, 1.0, -1.0)])])
    result = icpqr(X, mu=1.0)
    error = np.linalg.norm(X - result.coordinates @ result.basis, ord=2)
    rank, s = 2, len(result.pivots)
    assert s == 1
    assert error > 2 * np.sqrt(rank - s)
    assert error == pytest.approx(np.sqrt(n - s), rel=length_slack(X))
    assert error == pytest.approx(np.sqrt((result.residuals**2).sum()), rel=length_slack(X))


# Row 9: it is the residual, not the projection, that the next singular value bounds.


def test_9_next_singular_value_bounds_the_residual_not_the_projection():
    A = np.diag([2.0, 1.0])
    U, S, _ = np.linalg.svd(A)
    projected = np.linalg.norm(U[:, :1].T @ A, axis=0)
    perp = np.linalg.norm(A - U[:, :1] @ (U[:, :1].T @ A), axis=0)
    assert projected.max() == pytest.approx(2)
    assert projected.max() > S[1]
    assert perp.max() <= S[1] + length_slack(A)
    distortion = actual_distortion(A.T, (U[:, :1].T @ A).T)
    assert distortion <= np.sqrt(2) * S[1] + length_slack(A)


# Row 15: a squared rate computed by subtraction can be negative.


def test_15_training_points_come_out_as_not_a_number():
    A = gaussian(50, 500, seed=0)
    R, _, _ = printed_algorithm_2(A, mu=6.0, squared=True)
    printed = printed_distortion_rate(A.T, R.T)
    assert np.isnan(printed).any()
    for threshold in ("mu", "strict"):
        model = ICPQR(mu=6.0, center=False, threshold=threshold).fit(A.T)
        assert np.isfinite(model.distortion_rate(A.T)).all()
        assert (model.predict(A.T) == 1).all()


def test_15_exactly_low_rank_training_points_come_out_as_not_a_number():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((500, 20)) @ rng.standard_normal((20, 50))
    Q = greedy(X, mu=1e-6).Q
    assert np.isnan(printed_distortion_rate(X, X @ Q)).sum() > 20
    model = ICPQR(mu=1e-6, center=False, threshold="strict").fit(X)
    assert model.n_components_ == 20
    assert (model.predict(X) == 1).all()


# Row 18: sums in place of means, and singular vectors of either matrix alone.


def rigid_copy(A, seed):
    rng = np.random.default_rng(seed)
    turn = np.linalg.qr(rng.standard_normal((len(A), len(A))))[0]
    return turn @ A + rng.standard_normal((len(A), 1))


def test_18_printed_alignment_misses_a_rigid_copy():
    misfits = []
    for seed in range(50):
        A = gaussian(3, 20, seed)
        B = rigid_copy(A, seed)
        misfits.append(np.abs(printed_algorithm_6(A, B) - A).max())
        assert np.abs(align(A.T, B.T) - A.T).max() <= 2 * np.sqrt(20) * length_slack(A.T, B.T)
    assert np.median(misfits) > 1


def test_18_means_alone_do_not_repair_the_printed_alignment():
    exact = 0
    for seed in range(50):
        A = gaussian(3, 20, seed)
        A -= A.mean(axis=1, keepdims=True)
        B = np.linalg.qr(gaussian(3, 3, seed + 1000))[0] @ A
        exact += np.abs(printed_algorithm_6(A, B) - A).max() <= 1e-6
        assert np.abs(align(A.T, B.T) - A.T).max() <= 2 * np.sqrt(20) * length_slack(A.T, B.T)
    assert exact < 25


# Row 20: the printed dictionary of the 7 x 7 example is not the smallest.


def test_20_printed_stop_takes_a_third_pivot_on_the_seven_by_seven_example():
    A = np.triu(np.ones((7, 7)))
    A[6, 6] = 20.0
    R, pi, _ = printed_algorithm_2(A, mu=1.5, squared=True)
    assert pi[: len(R)] == [6, 5, 2]
    assert icpqr(A.T, mu=1.5).pivots.tolist() == [6, 5]


# Row 21: on ties the dictionary does depend on the order of the data.


def test_21_order_of_tied_points_changes_the_size_of_the_dictionary():
    X = np.array([(1.0, 0.0), (0.6, 0.8), (0.0, 0.95)])
    assert icpqr(X, mu=0.85).pivots.tolist() == [0, 2]
    assert icpqr(X[[1, 0, 2]], mu=0.85).pivots.tolist() == [0]


# Row 22: principal axes need centring.


@pytest.mark.parametrize("center", [False, True])
def test_22_uncentred_rotation_does_not_sort_the_variances(center):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 3)) * [3.0, 1.0, 0.2] + [0.0, 0.0, 20.0]
    R = icpqr(X, mu=0.0).coordinates
    printed = (R @ np.linalg.svd(R, full_matrices=False)[2].T).var(axis=0)
    assert printed[0] < printed[1]
    model = ICPQR(mu=0.0, center=center, rotate=True).fit(X)
    ours = model.embedding_.var(axis=0)
    assert (np.diff(ours) < 0).all()
    principal = np.linalg.eigvalsh(np.cov(X.T, bias=True))[::-1]
    assert ours == pytest.approx(principal, rel=1e-6)


# Row 23: the distortion rate is blind inside the span of the dictionary.


def test_23_a_remote_multiple_of_a_pivot_passes_as_normal():
    X = gaussian(20, 3, seed=0) * [3.0, 1.0, 0.1]
    model = ICPQR(mu="20%", center=False).fit(X)
    remote = 1e6 * model.dictionary_[:1]
    assert model.distortion_rate(remote)[0] <= length_slack(X, remote)
    assert model.predict(remote)[0] == 1
