"""ICPQRClassifier: what it answers, how it chooses, what it refuses."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris
from sklearn.model_selection import GridSearchCV, train_test_split

from isopivot import ICPQR, ICPQRClassifier, KernelICPQR
from isopivot.estimators.classifier import (
    candidates,
    grouped_part,
    hits_along_path,
    rates_along_path,
    stratified_part,
)
from isopivot.kernels import make_kernel


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return train_test_split(X, y, random_state=0, stratify=y)


def rays(n=30, seed=0):
    """Two classes on two lines through the origin of R^4: one direction each."""
    rng = np.random.default_rng(seed)
    directions = np.linalg.qr(rng.standard_normal((4, 2)))[0].T
    t = rng.uniform(1.0, 3.0, 2 * n)
    y = np.repeat([0, 1], n)
    return t[:, None] * directions[y], y


# -- the rule -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", [None, "rbf", "laplacian"])
def test_one_dictionary_per_class_and_the_smallest_rate_wins(kernel):
    X, y = load_iris(return_X_y=True)
    mu = 0.3
    model = ICPQRClassifier(mu, kernel=kernel, epsilon=4.0).fit(X, y)
    alone = [
        (ICPQR(mu) if kernel is None else KernelICPQR(mu, kernel=kernel, epsilon=4.0)).fit(
            X[y == k]
        )
        for k in range(3)
    ]
    rates = np.column_stack([part.distortion_rate(X) for part in alone])
    assert_array_equal(model.distortion_rates(X), rates)
    assert_array_equal(model.predict(X), rates.argmin(axis=1))
    assert_array_equal(model.decision_function(X), -rates)
    for k in range(3):
        assert_array_equal(model.dictionaries_[k], alone[k].dictionary_)
        assert model.estimators_[k].certificate_ == alone[k].certificate_
        assert np.isin(model.dictionaries_[k], X[y == k]).all()


def test_every_training_row_is_within_mu_of_its_own_class():
    X, y = load_iris(return_X_y=True)
    model = ICPQRClassifier(0.2).fit(X, y)
    own = model.distortion_rates(X)[np.arange(len(y)), y]
    floor = max(part.certificate_.accuracy_floor for part in model.estimators_)
    assert own.max() <= 0.2 + floor


def test_two_classes_have_one_decision_value():
    X, y = rays()
    model = ICPQRClassifier(0.1, center=False).fit(X, y)
    rates = model.distortion_rates(X)
    assert_array_equal(model.decision_function(X), rates[:, 0] - rates[:, 1])
    assert_array_equal(model.predict(X), y)


def test_probabilities_are_the_softmax_of_minus_the_rates(digits):
    train, test, y_train, _ = digits
    model = ICPQRClassifier("20%").fit(train, y_train)
    rates, P = model.distortion_rates(test), model.predict_proba(test)
    expected = np.exp(rates.min(axis=1, keepdims=True) - rates)
    expected /= expected.sum(axis=1, keepdims=True)
    assert_allclose(P, expected, rtol=1e-12)
    assert_array_equal(model.classes_[P.argmax(axis=1)], model.predict(test))
    huge = ICPQRClassifier("20%").fit(train * 1e6, y_train).predict_proba(test * 1e6)
    assert np.isfinite(huge).all()


def test_a_percentage_is_of_the_largest_norm_over_all_classes():
    X, y = load_iris(return_X_y=True)
    largest = max(
        np.linalg.norm(X[y == k] - X[y == k].mean(axis=0), axis=1).max() for k in range(3)
    )
    model = ICPQRClassifier("10%").fit(X, y)
    assert_allclose([part.mu for part in model.estimators_], largest / 10, rtol=1e-12)


def test_rates_that_are_rounding_alone_count_as_equal():
    """Both dictionaries span all features: the first class wins, not noise."""
    X, y = load_iris(return_X_y=True)
    model = ICPQRClassifier(0.0).fit(X, y)
    assert (model.distortion_rates(X) == 0.0).all()
    assert (model.predict(X) == 0).all()


def test_the_scale_of_a_kernel_is_pooled_over_the_classes():
    X, y = load_iris(return_X_y=True)
    model = ICPQRClassifier(0.2, kernel="rbf", epsilon_scale=0.7).fit(X, y)
    pooled = KernelICPQR(epsilon_scale=0.7).fit(X).epsilon_
    assert_allclose([part.epsilon_ for part in model.estimators_], pooled, rtol=1e-12)
    assert_allclose(model.epsilon_, pooled, rtol=1e-12)
    assert model.epsilon_scale_ == 0.7


# -- choosing mu and the scale ------------------------------------------------------------------


def test_auto_takes_the_best_of_the_held_out_rows_and_the_largest_mu_of_equals(digits):
    train, _, y_train, _ = digits
    model = ICPQRClassifier(random_state=0).fit(train, y_train)
    mus, accuracy = model.validation_[:, 1], model.validation_[:, 2]
    assert model.estimators_[0].mu == mus[accuracy == accuracy.max()].max()
    assert_array_equal(mus, np.sort(mus)[::-1])
    again = ICPQRClassifier(model.estimators_[0].mu).fit(train, y_train)
    for a, b in zip(model.dictionaries_, again.dictionaries_, strict=True):
        assert_array_equal(a, b)


@pytest.mark.parametrize("kernel", [None, "rbf"])
def test_one_nested_fit_gives_what_a_fit_at_every_mu_gives(digits, kernel):
    train, test, y_train, y_test = (part[:400] for part in digits)
    mu = 0.05 if kernel else 1.0
    nested = ICPQRClassifier(mu, kernel=kernel).fit(train, y_train)
    mus = np.quantile(np.concatenate([e.path_[:, 0] for e in nested.estimators_]), [0.9, 0.5, 0.2])
    mus *= 1.0 + 1e-9  # a mu within rounding of a path value may cut on either side
    hits = hits_along_path(nested.estimators_, mus, test, np.searchsorted(nested.classes_, y_test))
    for mu, hit in zip(mus, hits, strict=True):
        fitted = ICPQRClassifier(float(mu), kernel=kernel).fit(train, y_train)
        assert hit == (fitted.predict(test) == y_test).sum()


def test_rates_along_the_path_are_those_of_truncated_models(digits):
    train, test = digits[0][:300], digits[1][:50]
    model = ICPQR(1.0).fit(train)
    mus = model.path_[[0, 5, 20, -1], 0]
    rates = rates_along_path(model, mus, test)
    for mu, column in zip(mus, rates.T, strict=True):
        expected = model.truncate(mu=float(mu)).distortion_rate(test)
        assert_allclose(column, expected, rtol=1e-10, atol=model.certificate_.accuracy_floor)


@pytest.mark.parametrize("seed", range(8))
def test_an_empty_dictionary_is_among_the_candidates(seed):
    """Blobs round their means need no direction at all."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(3), 100)
    X = 10.0 * np.eye(3)[y] + rng.standard_normal((300, 3))
    model = ICPQRClassifier(random_state=0).fit(X, y)
    assert [part.n_components_ for part in model.estimators_] == [0, 0, 0]
    assert model.score(X, y) == 1.0


def test_candidates_fall_from_the_largest_norm_to_the_floor():
    X, y = load_iris(return_X_y=True)
    models = [ICPQR(0.0).fit(X[y == k]) for k in range(3)]
    mus = candidates(models, 100.0)
    assert 100.0 < mus[0] <= 100.0 * (1.0 + 65 * np.finfo(float).eps)  # room for rounding
    assert mus[-1] == 0.0  # all four features: only rounding is left
    assert (np.diff(mus) < 0).all()
    assert len(mus) == 1 + 3 * 4


def test_at_most_200_candidates_are_compared():
    rng = np.random.default_rng(0)
    models = [ICPQR(0.0).fit(rng.standard_normal((150, 150))) for _ in range(2)]
    assert len(candidates(models, 50.0)) == 200


def test_the_best_of_a_list_of_scales_is_taken(digits):
    train, test, y_train, y_test = digits
    scales = [1e-4, 1.0]
    model = ICPQRClassifier(kernel="rbf", epsilon_scale=scales, random_state=0).fit(train, y_train)
    assert set(model.validation_[:, 0]) == set(scales)
    assert model.epsilon_scale_ == 1.0
    assert model.score(test, y_test) > 0.97
    fixed = ICPQRClassifier(0.3, kernel="rbf", epsilon_scale=scales, random_state=0)
    fixed.fit(train, y_train)
    assert fixed.epsilon_scale_ == 1.0
    assert len(fixed.validation_) == 2
    assert fixed.mu_ == 0.3


@pytest.mark.parametrize("kernel", [None, "linear", "cosine"])
def test_scales_are_not_tried_where_they_mean_nothing(kernel):
    X, y = load_iris(return_X_y=True)
    model = ICPQRClassifier(0.3, kernel=kernel, epsilon_scale=[0.5, 1.0]).fit(X, y)
    assert model.validation_ is None
    assert model.epsilon_scale_ is None


@given(st.lists(st.integers(1, 12), min_size=1, max_size=5), st.floats(0.05, 0.95))
def test_a_stratified_part_leaves_something_of_every_class(sizes, fraction):
    codes = np.repeat(np.arange(len(sizes)), sizes)
    held = stratified_part(codes, fraction, np.random.RandomState(0))
    counts = np.bincount(codes[held], minlength=len(sizes))
    for count, size in zip(counts, sizes, strict=True):
        assert count == min(round(fraction * size), size - 1)
    assert len(np.unique(held)) == len(held)


def test_groups_are_held_out_together():
    rng = np.random.default_rng(0)
    groups, codes = rng.integers(0, 8, 200), rng.integers(0, 3, 200)
    held = grouped_part(codes, groups, 0.3, np.random.RandomState(0))
    assert 0 < len(held) < 200
    rest = np.setdiff1d(np.arange(200), held)
    assert not set(groups[held]) & set(groups[rest])


def test_a_class_found_in_held_out_groups_only_stays_in_training():
    groups = np.repeat([0, 1, 2, 3], 10)
    codes = np.where(np.arange(40) < 10, 2, np.arange(40) % 2)  # class 2 in group 0 only
    seeds = range(8)
    parts = [grouped_part(codes, groups, 0.25, np.random.RandomState(seed)) for seed in seeds]
    assert not any(2 in codes[part] for part in parts)
    X = np.random.default_rng(0).standard_normal((40, 5)) + 5.0 * codes[:, None]
    for seed in seeds:
        model = ICPQRClassifier(random_state=seed).fit(X, codes, groups=groups)
        assert len(model.estimators_) == 3


def test_one_group_cannot_be_split():
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match="groups with one value; allowed are two groups or more"):
        ICPQRClassifier().fit(X, y, groups=np.zeros(150))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        ICPQRClassifier().fit(X, y, groups=np.zeros(10))


def test_groups_are_one_value_of_one_kind_per_row():
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match=r"groups of shape .* allowed is one value per row"):
        ICPQRClassifier().fit(X, y, groups=np.zeros((150, 2)))
    with pytest.raises(ValueError, match="groups of several kinds"):
        ICPQRClassifier().fit(X, y, groups=np.array([1, "a"] * 75, dtype=object))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        ICPQRClassifier(0.5).fit(X, y, groups=[1, 2])


def test_one_row_per_class_leaves_the_means_to_choose():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 120)
    X = rng.standard_normal((120, 6))
    X[np.arange(120), y] += 4
    model = ICPQRClassifier(validation_fraction=0.97, random_state=0).fit(X, y)
    assert len(model.validation_) == 2  # the means alone, or all that there is
    assert model.score(X, y) > 0.9


def test_a_held_out_outlier_does_not_make_the_chosen_mu_unreachable():
    rng = np.random.default_rng(0)
    bases = rng.standard_normal((2, 4, 20))
    y = np.repeat([0, 1], 60)
    X = np.einsum("ni,nij->nj", rng.standard_normal((120, 4)), bases[y])
    X += 0.01 * rng.standard_normal(X.shape)
    X[0] *= 1e6
    for seed in range(12):
        model = ICPQRClassifier(random_state=seed).fit(X.astype(np.float32), y)
        assert np.isfinite(model.mu_)


# -- small and odd data -------------------------------------------------------------------------


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("kernel", [None, "rbf"])
def test_classes_of_one_sample(center, kernel):
    X = np.array([[5.0, 0.0, 0.0], [0.0, 5.0, 0.0], [0.0, 0.0, 5.0]])
    model = ICPQRClassifier(center=center, kernel=kernel, random_state=0).fit(X, list("abc"))
    assert_array_equal(model.predict(X + 0.1), list("abc"))


def test_a_small_class_stays_in_training_beside_large_ones():
    X, y = rays()
    X, y = np.vstack([X, [[9.0, 9.0, 9.0, 9.0]]]), np.append(y, 7)
    model = ICPQRClassifier(random_state=0).fit(X, y)
    assert model.predict([[9.0, 9.0, 9.0, 9.0]]) == 7


def test_one_class():
    X = load_iris().data
    model = ICPQRClassifier(random_state=0).fit(X, np.full(150, "only"))
    assert (model.predict(X) == "only").all()
    assert_array_equal(model.predict_proba(X), np.ones((150, 1)))


def test_string_labels_and_pandas_names():
    pd = pytest.importorskip("pandas")
    iris = load_iris(as_frame=True)
    names = iris.target_names[iris.target]
    model = ICPQRClassifier(random_state=0).fit(iris.data, names)
    assert set(model.predict(iris.data)) <= set(iris.target_names)
    assert model.score(iris.data, pd.Series(names)) > 0.85
    assert_array_equal(model.feature_names_in_, iris.data.columns)


@pytest.mark.parametrize("kernel", [None, "rbf"])
def test_sparse_rows_are_answered_like_dense_ones(digits, kernel):
    train, test, y_train, _ = digits
    mu = 0.3 if kernel else 20.0
    dense = ICPQRClassifier(mu, kernel=kernel).fit(train, y_train)
    thin = ICPQRClassifier(mu, kernel=kernel).fit(sparse.csr_array(train), y_train)
    assert_allclose(
        thin.distortion_rates(sparse.csr_array(test)), dense.distortion_rates(test), rtol=1e-7
    )


@pytest.mark.parametrize("scale", [1e-150, 1e150])
def test_any_finite_scale(scale):
    X, y = load_iris(return_X_y=True)
    plain = ICPQRClassifier(random_state=0).fit(X, y)
    scaled = ICPQRClassifier(random_state=0).fit(X * scale, y)
    assert_array_equal(scaled.predict(X * scale), plain.predict(X))
    assert np.isfinite(scaled.predict_proba(X * scale)).all()


@pytest.mark.parametrize("scale", [1e-170, 1e160])
def test_a_kernel_says_when_squared_distances_are_no_floats(scale):
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match="allowed is data whose squared distances are floats"):
        ICPQRClassifier(kernel="rbf").fit(X * scale, y)


def test_float32_rows_keep_their_format(digits):
    train, test, y_train, y_test = digits
    model = ICPQRClassifier(random_state=0).fit(train.astype(np.float32), y_train)
    assert model.distortion_rates(test.astype(np.float32)).dtype == np.float32
    wide = ICPQRClassifier(random_state=0).fit(train, y_train)
    assert model.score(test.astype(np.float32), y_test) > wide.score(test, y_test) - 0.02


# -- rejection ----------------------------------------------------------------------------------


def test_points_that_no_class_knows_are_rejected():
    X, y = rays()
    model = ICPQRClassifier(0.1, center=False, reject=True).fit(X, y)
    assert_array_equal(model.predict(X), y)
    away = np.linalg.svd(X)[2][-1:] * 5.0  # across both lines
    assert model.predict(away) == -1
    assert ICPQRClassifier(0.1, center=False).fit(X, y).predict(away) in (0, 1)


def test_training_rows_are_never_rejected(digits):
    train, _, y_train, _ = digits
    model = ICPQRClassifier(random_state=0, reject=True, threshold="strict").fit(train, y_train)
    assert (model.predict(train) != -1).all()


def test_the_rejected_label_is_of_the_kind_of_y():
    X, y = rays()
    names = np.array(["left", "right"])[y]
    answers = ICPQRClassifier(0.1, center=False, reject=True, reject_label="neither").fit(X, names)
    away = np.linalg.svd(X)[2][-1:] * 5.0
    assert list(answers.predict(np.vstack([X[:1], away]))) == ["left", "neither"]
    with pytest.raises(ValueError, match=r"reject_label=-1 of type int .* allowed is a string"):
        ICPQRClassifier(0.1, reject=True).fit(X, names)
    with pytest.raises(ValueError, match=r"reject_label='no' of type str .* allowed is a number"):
        ICPQRClassifier(0.1, reject=True, reject_label="no").fit(X, y)
    with pytest.raises(ValueError, match="reject_label=1, which is also a class"):
        ICPQRClassifier(0.1, reject=True, reject_label=1).fit(X, y)
    assert ICPQRClassifier(0.1).fit(X, names).score(X, names) == 1.0
    with pytest.raises(ValueError, match="labels True and False, which leave room for no third"):
        ICPQRClassifier(0.1, reject=True).fit(X, y == 1)


# -- parameters ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"mu": None}, 'got mu=None; allowed are "auto"'),
        ({"mu": "best"}, "got mu='best'; allowed are"),
        ({"mu": -1.0}, "got mu=-1.0; allowed are"),
        ({"epsilon_scale": []}, r"got epsilon_scale=\[\]; allowed are"),
        ({"epsilon_scale": [0.5, 0.0]}, "got epsilon_scale=0.0; allowed is a finite number > 0"),
        ({"kernel": "precomputed"}, "got kernel='precomputed'; allowed are named kernels"),
        ({"kernel": "rfb"}, "got kernel='rfb'"),
        ({"threshold": "loose"}, "got threshold='loose'; allowed are"),
        ({"validation_fraction": 1.0}, "validation_fraction"),
        ({"n_jobs": "two"}, "n_jobs"),
    ],
)
def test_refused_parameters_name_what_is_allowed(parameters, message):
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match=message):
        ICPQRClassifier(**parameters).fit(X, y)


def test_continuous_targets_are_refused():
    X = load_iris().data
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        ICPQRClassifier().fit(X, X[:, 0] + 0.123)


def test_threads_and_seeds_do_not_change_the_answer(digits):
    train, test, y_train, _ = digits
    one = ICPQRClassifier(random_state=3).fit(train, y_train)
    two = ICPQRClassifier(random_state=3, n_jobs=2).fit(train, y_train)
    assert_array_equal(one.distortion_rates(test), two.distortion_rates(test))
    assert_array_equal(one.validation_, two.validation_)


def test_a_grid_search_tunes_it():
    X, y = load_iris(return_X_y=True)
    search = GridSearchCV(
        ICPQRClassifier(kernel="rbf"), {"mu": [0.9, 0.3], "epsilon_scale": [0.5, 2.0]}, cv=3
    )
    assert search.fit(X, y).best_score_ > 0.9
    assert clone(search.best_estimator_).get_params() == search.best_estimator_.get_params()


def test_a_callable_kernel_is_used_by_every_class():
    X, y = load_iris(return_X_y=True)
    rbf = make_kernel("rbf", 2.0, None, 4)
    model = ICPQRClassifier(0.2, kernel=lambda A, B: rbf.matrix(A, B)).fit(X, y)
    named = ICPQRClassifier(0.2, kernel="rbf", epsilon=2.0).fit(X, y)
    # The named kernel measures from the mean of its class: other rounding.
    assert_allclose(model.distortion_rates(X), named.distortion_rates(X), atol=1e-6)
