"""ICPQR: path, truncation, thresholds, calibration, explanation, intervals."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn.base import clone
from sklearn.datasets import load_digits

from isopivot import ICPQR, AccuracyError, icpqr
from reference import distances
from strategies import problems
from tolerances import length_slack

DIGITS = load_digits().data


@pytest.fixture(scope="module")
def model():
    return ICPQR("10%").fit(DIGITS)


def test_percent_mu_is_of_the_largest_centred_norm(model):
    centred = np.linalg.norm(DIGITS - DIGITS.mean(axis=0), axis=1).max()
    assert model.path_[0, 0] == pytest.approx(centred, rel=1e-12)
    assert model.mu_ == pytest.approx(0.1 * centred, rel=1e-12)
    plain = ICPQR("10%", center=False).fit(DIGITS)
    assert plain.mu_ == pytest.approx(0.1 * np.linalg.norm(DIGITS, axis=1).max(), rel=1e-12)
    assert plain.mean_ is None


def test_fitted_attributes_agree_with_the_function(model):
    result = icpqr(DIGITS, "10%", center=True)
    np.testing.assert_array_equal(model.dictionary_indices_, result.pivots)
    np.testing.assert_array_equal(model.embedding_, result.coordinates)
    np.testing.assert_array_equal(model.components_, result.basis)
    np.testing.assert_array_equal(model.dictionary_, DIGITS[result.pivots])
    assert model.certificate_ == result.certificate
    assert model.offset_ == -model.threshold_
    assert model.n_features_in_ == 64


def test_path_is_the_whole_curve(model):
    path = model.path_
    assert path.shape == (model.n_components_ + 1, 2)
    np.testing.assert_array_equal(path[:, 1], np.arange(model.n_components_ + 1))
    assert (np.diff(path[:, 0]) <= 0).all()
    assert path[-1, 0] == model.mu_strict_
    floor = model.certificate_.accuracy_floor
    for s in (1, 7, 30):
        assert icpqr(DIGITS, n_components=s, center=True).certificate.mu_strict == pytest.approx(
            path[s, 0], abs=floor
        )


def test_path_of_a_relaxed_fit_holds_the_true_largest_residuals():
    relaxed = ICPQR("10%", relaxation=0.5).fit(DIGITS)
    F, r = relaxed.embedding_, relaxed.residuals_
    for s in (0, 5, relaxed.n_components_):
        missed = np.sqrt(r**2 + (F[:, s:] ** 2).sum(axis=1)).max()
        assert relaxed.path_[s, 0] == pytest.approx(missed, rel=1e-12)
        if s:
            shorter = relaxed.truncate(n_components=s)
            assert shorter.mu_strict_ == pytest.approx(missed, rel=1e-12)
            assert (shorter.predict(DIGITS) == 1).all()


def test_truncation_certifies_nothing_below_rounding():
    X = np.random.default_rng(0).standard_normal((30, 4))
    model = ICPQR("1%").fit(X)  # all dimensions: what is left is rounding
    floor = model.certificate_.accuracy_floor
    assert model.mu_strict_ < floor / 4
    with pytest.raises(AccuracyError, match=r"allowed is mu >= .*, the rounding error in float64"):
        model.truncate(mu=floor / 4)
    with pytest.raises(AccuracyError):
        ICPQR(floor / 4).fit(X)
    assert model.truncate(mu=2 * floor).n_components_ == 4
    assert model.truncate(n_components=4).n_components_ == 4


@pytest.mark.parametrize("rotate", [False, True])
@pytest.mark.parametrize("wanted", [{"mu": 20.0}, {"mu": "50%"}, {"n_components": 9}])
def test_truncation_equals_a_new_fit(wanted, rotate):
    model = ICPQR("10%", rotate=rotate).fit(DIGITS)
    model.calibrate(DIGITS[:300], 0.1)
    shorter = model.truncate(**wanted)
    fresh = clone(shorter).fit(DIGITS)
    floor = fresh.certificate_.accuracy_floor
    assert shorter.get_params() == {**model.get_params(), **wanted}
    np.testing.assert_array_equal(shorter.dictionary_indices_, fresh.dictionary_indices_)
    np.testing.assert_allclose(shorter.residuals_, fresh.residuals_, atol=100 * floor)
    np.testing.assert_allclose(shorter.path_, fresh.path_, atol=floor)
    np.testing.assert_allclose(
        distances(shorter.embedding_[:50]), distances(fresh.embedding_[:50]), atol=4 * floor
    )
    np.testing.assert_allclose(
        shorter.distortion_rate(DIGITS), fresh.distortion_rate(DIGITS), atol=4 * floor
    )
    assert shorter.calibration_ is None
    assert shorter.certificate_.stopped_by == fresh.certificate_.stopped_by
    assert shorter.certificate_.certified is fresh.certificate_.certified
    assert shorter.certificate_.accuracy_floor == pytest.approx(floor)
    assert model.n_components_ > shorter.n_components_  # the original is left alone
    assert model.calibration_ is not None


@given(problem=problems(min_rows=2), share=st.floats(0.0, 1.0))
def test_truncation_along_the_path_keeps_the_promise(problem, share):
    X, mu = problem
    model = ICPQR(mu, center=False).fit(X)
    k = round(share * model.n_components_)
    wanted = max(model.path_[k, 0], model.certificate_.accuracy_floor)
    shorter = model.truncate(mu=wanted)
    assert shorter.n_components_ <= k
    assert shorter.mu_strict_ <= wanted
    worst = np.abs(distances(X) - distances(shorter.embedding_)).max()
    assert worst <= shorter.certificate_.distortion_bound + 2 * length_slack(X)
    assert (shorter.predict(X) == 1).all()


def test_inverse_transform_returns_projections(model):
    back = model.inverse_transform(model.transform(DIGITS))
    missed = np.linalg.norm(DIGITS - back, axis=1)
    np.testing.assert_allclose(missed, model.residuals_, atol=1e3 * np.finfo(float).eps * 80)
    pivots = model.dictionary_indices_
    np.testing.assert_allclose(back[pivots], DIGITS[pivots], atol=1e-11)


def test_rotation_orders_the_axes_by_variance_and_keeps_distances(model):
    turned = ICPQR("10%", rotate=True).fit(DIGITS)
    variances = turned.embedding_.var(axis=0)
    assert (np.diff(variances) <= 1e-9 * variances[0]).all()
    np.testing.assert_allclose(
        distances(turned.embedding_[:60]), distances(model.embedding_[:60]), atol=1e-11
    )
    s = turned.n_components_
    np.testing.assert_allclose(
        turned.components_ @ turned.components_.T, np.eye(s), atol=100 * np.finfo(float).eps
    )
    np.testing.assert_allclose(turned.transform(DIGITS), turned.embedding_, atol=1e-11)
    np.testing.assert_allclose(
        turned.distortion_rate(DIGITS), model.distortion_rate(DIGITS), atol=1e-11
    )


def test_scores_have_scikit_learn_signs(model):
    odd = np.vstack([DIGITS[:3], DIGITS[:2] + 100 * np.eye(64)[:2]])
    rates = model.distortion_rate(odd)
    np.testing.assert_array_equal(model.score_samples(odd), -rates)
    np.testing.assert_array_equal(model.decision_function(odd), model.threshold_ - rates)
    np.testing.assert_array_equal(model.predict(odd), [1, 1, 1, -1, -1])
    np.testing.assert_array_equal(model.predict(odd), np.where(rates <= model.threshold_, 1, -1))


def test_thresholds():
    floor = ICPQR("30%").fit(DIGITS).certificate_.accuracy_floor
    by_mu = ICPQR("30%").fit(DIGITS)
    strict = ICPQR("30%", threshold="strict").fit(DIGITS)
    fixed = ICPQR("30%", threshold=5.0).fit(DIGITS)
    assert by_mu.threshold_ == by_mu.mu_ + floor
    assert strict.threshold_ == strict.mu_strict_ + floor
    assert fixed.threshold_ == 5.0
    assert (by_mu.fit_predict(DIGITS) == 1).all()
    assert (strict.fit_predict(DIGITS) == 1).all()
    assert (fixed.predict(DIGITS) == -1).any()


def test_calibration_takes_the_conformal_rank():
    model = ICPQR("30%").fit(DIGITS[:900])
    held_out = DIGITS[900:999]
    assert model.calibrate(held_out, false_alarm_rate=0.1) is model
    rates = np.sort(model.distortion_rate(held_out))
    assert model.calibration_.rank == 90  # ceil(100 * 0.9)
    assert model.threshold_ == rates[89] == model.calibration_.threshold
    assert model.offset_ == -model.threshold_
    model.fit(DIGITS[:900])
    assert model.calibration_ is None
    assert model.threshold_ == model.mu_ + model.certificate_.accuracy_floor


def test_calibration_of_a_blind_dictionary_warns_and_stays_quiet():
    rng = np.random.default_rng(3)
    model = ICPQR("1%").fit(rng.standard_normal((100, 4)))
    assert model.n_components_ == 4
    with pytest.warns(UserWarning, match=r"spans all 4 features.*raise mu, or use KernelICPQR"):
        model.calibrate(rng.standard_normal((60, 4)), 0.05)
    assert model.threshold_ == model.certificate_.accuracy_floor
    assert (model.predict(rng.standard_normal((500, 4))) == 1).all()  # not flagged by rounding


@pytest.mark.parametrize("rate", [0.01, 0.05, 0.1])
def test_calibrated_false_alarms_follow_their_law(rate):
    """The number of false alarms on fresh rows is beta-binomial (n_cal, n_test, k)."""
    rng = np.random.default_rng(0)
    draw = lambda n: rng.standard_normal((n, 12)) * np.geomspace(1, 0.05, 12)  # noqa: E731
    model = ICPQR("30%").fit(draw(500))
    n_cal, n_test = 199, 2000
    seen = []
    for _ in range(20):
        model.calibrate(draw(n_cal), rate)
        k = model.calibration_.rank
        alarms = int((model.predict(draw(n_test)) == -1).sum())
        law = stats.betabinom(n_test, n_cal + 1 - k, k)
        assert alarms <= law.ppf(0.9999)
        seen.append(alarms / n_test)
    assert np.mean(seen) <= rate + 4 * np.std(seen) / np.sqrt(len(seen))


def test_explanation_names_the_odd_feature_and_the_nearest_members():
    # A feature that never varied is missed entirely by the dictionary.
    odd = DIGITS[:4].copy()
    odd[:, 0] += 50.0
    model = ICPQR("10%").fit(DIGITS)
    explanation = model.explain(odd, n_neighbors=3)
    np.testing.assert_allclose(
        np.linalg.norm(explanation.contributions, axis=1), explanation.rates, rtol=1e-12
    )
    assert (np.abs(explanation.contributions).argmax(axis=1) == 0).all()
    assert explanation.neighbors.shape == explanation.neighbor_distances.shape == (4, 3)
    for row, members, gaps in zip(
        odd, explanation.neighbors, explanation.neighbor_distances, strict=True
    ):
        everyone = np.sort(np.linalg.norm(model.dictionary_ - row, axis=1))
        np.testing.assert_allclose(gaps, everyone[:3], rtol=1e-9)
        np.testing.assert_allclose(np.linalg.norm(DIGITS[members] - row, axis=1), gaps, rtol=1e-9)
    frame = explanation.to_frame()
    assert list(frame.columns[:2]) == ["distortion_rate", "residual_x0"]
    assert frame.shape == (4, 1 + 64 + 6)


@given(problem=problems(min_rows=2), center=st.booleans())
def test_distance_intervals_contain_the_true_distances(problem, center):
    X, mu = problem
    model = ICPQR(mu, center=center).fit(X[: max(1, len(X) // 2)])
    lower, upper = model.distance_bounds(X)
    true = distances(X)
    assert (lower <= true).all()
    assert (true <= upper).all()
    lower, upper = model.distance_bounds(X, X[:1])
    assert ((lower <= true[:, :1]) & (true[:, :1] <= upper)).all()


def test_output_names_are_the_class_and_a_number(model):
    names = model.get_feature_names_out()
    assert names[0] == "icpqr0"
    assert len(names) == model.n_components_


def test_calibration_warns_where_dependent_features_hide_that_all_is_spanned():
    """A constant and a repeated column: five members span what eight features vary in."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 5))
    X = np.column_stack([X, np.ones(300), X[:, 0], X[:, 1]])
    model = ICPQR(mu="0.1%").fit(X[:200])
    assert model.n_components_ == 5
    with pytest.warns(UserWarning, match="dictionary of 5 members spans all that the normal rows"):
        model.calibrate(X[200:], 0.05)
