"""DiffusionICPQR: the certificate of the low-rank route, hard data, and everyday use."""

import os
import tracemalloc
import warnings
from pathlib import Path

import numpy as np
import pytest
import scipy.linalg
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.datasets import make_blobs, make_swiss_roll
from sklearn.exceptions import SkipTestWarning
from sklearn.utils.estimator_checks import check_estimator

from isopivot import AccuracyError, DiffusionICPQR
from isopivot.baselines import DiffusionMaps, MuIDM
from isopivot.estimators.diffusion import DENSE_FIRST
from reference_diffusion import FORMULAS, density_normalised, geometry, new_rows
from tolerances import length_slack

METHODS = ["dense", "low_rank"]
ROLL = make_swiss_roll(460, random_state=0)[0]
BLOBS = make_blobs(460, 4, centers=5, cluster_std=0.7, random_state=0)[0]
X, NEW = ROLL[:200], ROLL[200:260]
EPSILON = 40.0
K, K_NEW = FORMULAS["rbf"](X, X, EPSILON), FORMULAS["rbf"](NEW, X, EPSILON)


def kdd_rows():
    with np.load(Path(os.environ["ISOPIVOT_DATA"]) / "kdd99" / "kdd99.npz") as file:
        rows = file["X_train10"]
    rows = rows[np.random.default_rng(0).choice(len(rows), 600, replace=False)]
    rows = np.log1p(rows)
    spread = rows.std(axis=0)
    return (rows / np.where(spread > 0, spread, 1.0))[:460]


needs_data = [
    pytest.mark.data,
    pytest.mark.skipif("ISOPIVOT_DATA" not in os.environ, reason="ISOPIVOT_DATA is not set"),
]
SETS = {
    "roll": (lambda: ROLL, 60.0),
    "clusters": (lambda: BLOBS, 20.0),
    "kdd99": (kdd_rows, "median"),
}
NAMES = ["roll", "clusters", pytest.param("kdd99", marks=needs_data)]


def slack(Z, t):
    """Rounding of the dense reference: n terms a product, t products."""
    return 4 * t * length_slack(Z)


# -- the certificate of the low-rank route ----------------------------------------------------


@pytest.mark.parametrize("mu", ["1%", "20%"])
@pytest.mark.parametrize("t", [1, 2, 4, 8])
@pytest.mark.parametrize("name", NAMES)
def test_low_rank_certificate_is_true_of_the_dense_geometry(name, t, mu):
    points, epsilon = SETS[name][0](), SETS[name][1]
    train, new = points[:400], points[400:]
    model = DiffusionICPQR(mu, epsilon=epsilon, t=t, method="low_rank").fit(train)
    assert model.certificate_.certified
    assert model.certificate_.route == "diffusion-low_rank"
    assert model.mu_strict_ <= model.mu_
    true_K = FORMULAS["rbf"](train, train, model.epsilon_)
    Z, rounding = geometry(true_K, t), slack(geometry(true_K, t), t)
    change = np.abs(cdist(Z, Z) - cdist(model.embedding_, model.embedding_)).max()
    assert change <= model.certificate_.distortion_bound + rounding
    # New points as well: the embedded distance and the rates of both bound the true one.
    k_new = FORMULAS["rbf"](new, train, model.epsilon_)
    Y, F, r = new_rows(k_new, true_K, t), model.transform(new), model.distortion_rate(new)
    change = np.abs(cdist(Y, Z) - cdist(F, model.embedding_))
    assert (change <= r[:, None] + model.residuals_[None, :] + rounding).all()
    assert (np.abs(cdist(Y, Y) - cdist(F, F)) <= r[:, None] + r[None, :] + rounding).all()


@pytest.mark.parametrize("t", [1, 2, 4, 8])
@pytest.mark.parametrize("name", NAMES)
def test_low_rank_error_bounds_the_distance_of_every_row(name, t):
    """||g_i - g^_i|| <= a_i with g^ of the kernel L L^T, for training and for new points."""
    points, epsilon = SETS[name][0](), SETS[name][1]
    train, new = points[:400], points[400:]
    model = DiffusionICPQR("10%", epsilon=epsilon, t=t, method="low_rank").fit(train)
    found = model._walk.geometry
    K, k = (FORMULAS["rbf"](A, train, model.epsilon_) for A in (train, new))
    L = scipy.linalg.solve_triangular(found.T, K[found.pivots], lower=True)
    l_new = scipy.linalg.solve_triangular(found.T, k[:, found.pivots].T, lower=True)
    Z, Z_hat = geometry(K, t), geometry(L.T @ L, t)
    rounding = slack(Z, t)
    off = np.linalg.norm(Z - Z_hat, axis=1)
    assert (off <= found.error + rounding).all()
    assert off.max() > 1e-6 * found.error.max()  # a bound, but not an absurd one
    log_k, k_xx = model._walk.log_kernel(new)
    _, a = found.place(log_k, k_xx)
    off = np.linalg.norm(new_rows(k, K, t) - new_rows(l_new.T @ L, L.T @ L, t), axis=1)
    assert (off <= a + rounding)[np.isfinite(a)].all()
    assert np.isfinite(a).any()


def test_low_rank_never_holds_an_n_by_n_array():
    points = make_swiss_roll(6000, random_state=0)[0]
    tracemalloc.start()
    try:
        model = DiffusionICPQR("20%", epsilon=300.0, t=3, method="low_rank").fit(points)
        _, fit_peak = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        before, _ = tracemalloc.get_traced_memory()
        model.predict(points)
        _, predict_peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    whole = 8 * 6000**2
    assert fit_peak < 0.25 * whole
    assert predict_peak - before < 0.25 * whole
    assert model.certificate_.kernel_evaluations < 6000**2 / 4


def test_auto_chooses_the_route_by_size_and_rank():
    assert DiffusionICPQR(epsilon=EPSILON).fit(X).certificate_.route == "diffusion-dense"
    many = make_swiss_roll(DENSE_FIRST + 1, random_state=0)[0]
    low = DiffusionICPQR("20%", epsilon=300.0).fit(many)
    assert low.certificate_.route == "diffusion-low_rank"
    assert low.certificate_.route_error > 0
    full = DiffusionICPQR("20%", 50, epsilon=0.1).fit(many)
    assert full.certificate_.route == "diffusion-dense"
    assert full.certificate_.route_error == 0


def test_n_components_alone_stops_either_route():
    for method in METHODS:
        model = DiffusionICPQR(None, 7, epsilon=EPSILON, method=method).fit(X)
        Z = geometry(K)
        assert model.n_components_ == 7
        assert model.certificate_.stopped_by == "n_components"
        change = np.abs(cdist(Z, Z) - cdist(model.embedding_, model.embedding_)).max()
        assert change <= model.certificate_.distortion_bound + slack(Z, 1)


# -- kernels ----------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kernel", list(FORMULAS))
def test_every_radial_kernel(kernel, method):
    model = DiffusionICPQR("20%", kernel=kernel, epsilon_scale=4.0, t=2, method=method).fit(X)
    K = FORMULAS[kernel](X, X, model.epsilon_)
    Z = geometry(K, 2)
    change = np.abs(cdist(Z, Z) - cdist(model.embedding_, model.embedding_)).max()
    assert change <= model.certificate_.distortion_bound + slack(Z, 2)
    Y = new_rows(FORMULAS[kernel](NEW, X, model.epsilon_), K, 2)
    F, r = model.transform(NEW), model.distortion_rate(NEW)
    change = np.abs(cdist(Y, Z) - cdist(F, model.embedding_))
    assert (change <= r[:, None] + model.residuals_ + slack(Z, 2)).all()
    assert (model.predict(X) == 1).all()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("alpha", [0.5, 1.0])
def test_alpha_normalises_the_density(alpha, method):
    model = DiffusionICPQR("5%", epsilon=EPSILON, alpha=alpha, t=2, method=method).fit(X)
    normalised = density_normalised(K, alpha)
    Z = geometry(normalised, 2)
    Y = new_rows(density_normalised(K, alpha, K_NEW), normalised, 2)
    F, r = model.transform(NEW), model.distortion_rate(NEW)
    bound = model.certificate_.distortion_bound + slack(Z, 2)
    # In low_rank the error of the normalisation itself is outside the bound; it is small.
    extra = 0.0 if method == "dense" else model.mu_
    change = np.abs(cdist(Z, Z) - cdist(model.embedding_, model.embedding_)).max()
    assert change <= bound + extra
    change = np.abs(cdist(Y, Z) - cdist(F, model.embedding_))
    assert (change <= r[:, None] + model.residuals_ + slack(Z, 2) + extra).all()
    assert model.certificate_.certified == (method == "dense")
    np.testing.assert_allclose(model.degrees_, normalised.sum(axis=1), rtol=0.05)


def test_alpha_in_low_rank_stays_uncertified_when_truncated():
    model = DiffusionICPQR("5%", epsilon=EPSILON, alpha=1.0, method="low_rank").fit(X)
    assert not model.truncate(mu=2 * model.mu_).certificate_.certified


@pytest.mark.parametrize("method", METHODS)
def test_precomputed_kernel_gives_the_answers_of_its_function(method):
    own = DiffusionICPQR("10%", epsilon=EPSILON, t=2, method=method).fit(X)
    given = DiffusionICPQR("10%", kernel="precomputed", t=2, method=method).fit(K)
    kept = K.copy()
    np.testing.assert_array_equal(given.dictionary_indices_, own.dictionary_indices_)
    atol = 1e-6 * np.linalg.norm(geometry(K, 2), axis=1).max()
    np.testing.assert_allclose(given.embedding_, own.embedding_, atol=atol)
    np.testing.assert_allclose(given.transform(K_NEW), own.transform(NEW), atol=atol)
    np.testing.assert_allclose(given.distortion_rate(K_NEW), own.distortion_rate(NEW), atol=atol)
    np.testing.assert_array_equal(given.predict(K_NEW), own.predict(NEW))
    np.testing.assert_array_equal(K, kept)
    assert not hasattr(given, "dictionary_")
    assert given.truncate(n_components=3).transform(K_NEW).shape == (60, 3)
    assert given.__sklearn_tags__().input_tags.pairwise


def test_precomputed_kernel_with_a_varying_diagonal():
    """Its k(x, x) is not known for new rows: training rows must be normal all the same."""
    positive = np.abs(X) @ np.abs(X).T
    model = DiffusionICPQR("5%", kernel="precomputed", method="dense").fit(positive)
    assert (model.predict(positive) == 1).all()
    with pytest.raises(ValueError, match=r"diagonal varies; allowed is a constant.*'dense'"):
        DiffusionICPQR("5%", kernel="precomputed", method="low_rank").fit(positive)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kernel", ["linear", "polynomial", "cosine"])
def test_training_rows_are_normal_for_kernels_of_inner_products(kernel, method):
    """The largest k(x, y) need not be k(x, x): a point is not its own nearest."""
    points = np.abs(X)
    model = DiffusionICPQR("5%", kernel=kernel, method=method).fit(points)
    assert (model.predict(points) == 1).all()
    assert all(model.predict(points[i : i + 1])[0] == 1 for i in range(len(points)))


@pytest.mark.parametrize("method", METHODS)
def test_callable_kernel(method):
    def function(A, B, width):
        return np.exp(-cdist(A, B, "sqeuclidean") / width)

    own = DiffusionICPQR("10%", epsilon=EPSILON, method=method).fit(X)
    model = DiffusionICPQR(
        "10%", kernel=function, kernel_params={"width": EPSILON}, method=method
    ).fit(X)
    np.testing.assert_array_equal(model.dictionary_indices_, own.dictionary_indices_)
    # The route error makes rates of low_rank coarser than rounding.
    atol = 1e-6 + 2 * own.certificate_.route_error
    near = own.distortion_rate(NEW) < own._walk.gate.ceiling
    np.testing.assert_allclose(
        model.distortion_rate(NEW[near]), own.distortion_rate(NEW[near]), atol=atol
    )
    assert model.predict(NEW[:1] + 1e3)[0] == -1  # k underflows: no logarithm to the rescue
    assert model.epsilon_ is None


@pytest.mark.parametrize("kernel", list(FORMULAS))
def test_sparse_input_gives_the_answers_of_dense_input(kernel):
    thin = sparse.random(80, 30, density=0.2, format="csr", random_state=0)
    dense = DiffusionICPQR("20%", kernel=kernel).fit(thin.toarray())
    model = DiffusionICPQR("20%", kernel=kernel).fit(thin)
    np.testing.assert_array_equal(model.dictionary_indices_, dense.dictionary_indices_)
    scale = np.linalg.norm(dense.embedding_, axis=1).max()
    np.testing.assert_allclose(
        model.distortion_rate(thin), dense.distortion_rate(thin.toarray()), atol=1e-12 * scale
    )


# -- hard data --------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_duplicates(method):
    points = np.repeat(X[:50], 4, axis=0)
    model = DiffusionICPQR("1%", epsilon=EPSILON, t=2, method=method).fit(points)
    assert model.n_components_ <= 50
    Z = geometry(FORMULAS["rbf"](points, points, EPSILON), 2)
    change = np.abs(cdist(Z, Z) - cdist(model.embedding_, model.embedding_)).max()
    assert change <= model.certificate_.distortion_bound + slack(Z, 2)
    assert (model.predict(points) == 1).all()


@pytest.mark.parametrize("method", METHODS)
def test_all_points_equal_and_a_single_point(method):
    for points in (np.ones((20, 2)), np.ones((1, 3))):
        model = DiffusionICPQR(method=method).fit(points)
        assert model.n_components_ == 1
        np.testing.assert_allclose(np.abs(model.embedding_), 1.0, atol=1e-7)
        assert (model.predict(points) == 1).all()


@pytest.mark.parametrize("method", METHODS)
def test_isolated_points_and_disconnected_graphs(method):
    parts = [X[:80], X[80:150] + 1e4, X[150:151] - 1e5, X[151:152] + 1e6]
    points = np.vstack(parts)
    model = DiffusionICPQR("5%", epsilon=EPSILON, t=3, method=method).fit(points)
    K = FORMULAS["rbf"](points, points, EPSILON)
    assert (K[:80, 80:] == 0).all()
    Z = geometry(K, 3)
    # Far from the mean of all points, squared distances lose digits to cancellation.
    lost = 16 * np.finfo(float).eps * (points**2).sum(axis=1).max() / EPSILON
    rounding = slack(Z, 3) + 3 * lost * np.linalg.norm(Z, axis=1).max()
    change = np.abs(cdist(Z, Z) - cdist(model.embedding_, model.embedding_)).max()
    assert change <= model.certificate_.distortion_bound + rounding
    assert (model.predict(points) == 1).all()


@pytest.mark.parametrize("method", METHODS)
def test_epsilon_far_too_small(method):
    """Every point is alone: full rank, and whatever is new is far."""
    model = DiffusionICPQR(epsilon=1e-6, method=method).fit(X)
    assert model.n_components_ == len(X)
    assert (model.predict(X) == 1).all()
    assert (model.predict(X + 3.0) == -1).all()


@pytest.mark.parametrize("method", METHODS)
def test_epsilon_far_too_large(method):
    model = DiffusionICPQR(epsilon=1e12, method=method).fit(X)
    assert model.n_components_ == 1
    assert model.certificate_.certified
    assert (model.predict(X) == 1).all()


@pytest.mark.parametrize("scale", [1e-150, 1e150])
def test_scale_of_the_data_changes_nothing(scale):
    model, ordinary = DiffusionICPQR().fit(scale * X), DiffusionICPQR().fit(X)
    np.testing.assert_array_equal(model.dictionary_indices_, ordinary.dictionary_indices_)
    np.testing.assert_allclose(model.residuals_, ordinary.residuals_, atol=1e-12)
    np.testing.assert_array_equal(model.predict(scale * NEW), ordinary.predict(NEW))


@pytest.mark.parametrize("method", METHODS)
def test_mu_above_every_norm_keeps_nothing(method):
    model = DiffusionICPQR(1e3, epsilon=EPSILON, method=method).fit(X)
    assert model.n_components_ == 0
    assert model.transform(NEW).shape == (60, 0)
    assert (model.predict(X) == 1).all()
    assert model.explain(NEW[:2]).neighbors.shape == (2, 0)


def test_low_rank_that_cannot_reach_mu_says_so():
    message = r"mu=1e-13 needs more columns .* use a larger epsilon or mu, or method='dense'"
    with pytest.raises(AccuracyError, match=message):
        DiffusionICPQR(1e-13, epsilon=EPSILON, method="low_rank").fit(X)


# -- bad parameters ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"t": 0}, r"got t=0; allowed is an integer >= 1; pass"),
        ({"t": 1.5}, r"got t=1.5; allowed is an integer >= 1; pass"),
        ({"t": True}, r"got t=True; allowed"),
        ({"t": None}, r"got t=None; allowed"),
        ({"alpha": np.nan}, r"got alpha=nan; allowed is a finite number"),
        ({"alpha": "1"}, r"got alpha='1'; allowed is a finite number"),
        ({"method": "x"}, r"got method='x'; allowed are 'auto', 'dense' and 'low_rank'; pass"),
        ({"method": None}, r"got method=None; allowed are 'auto'"),
        ({"far_quantile": 1}, r"got far_quantile=1; allowed is a number in \[0, 1\); pass"),
        ({"far_quantile": -0.1}, r"got far_quantile=-0.1; allowed"),
        ({"far_quantile": np.nan}, r"got far_quantile=nan; allowed"),
        ({"far_quantile": None}, r"got far_quantile=None; allowed"),
        ({"epsilon": 0.0}, r"got epsilon=0.0; allowed"),
        ({"kernel": "gauss"}, r"got kernel='gauss'; allowed"),
        ({"mu": None}, r"got mu=None and n_components=None"),
        ({"n_components": 201}, r"got n_components=201; allowed is 1 to 200"),
        ({"mu": "5"}, r"got mu='5'; allowed"),
        ({"threshold": "loose"}, r"got threshold='loose'; allowed"),
    ],
    ids=repr,
)
def test_bad_parameters(parameters, message):
    with pytest.raises(ValueError, match=message):
        DiffusionICPQR(**parameters).fit(X)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("offset", [0.0, 8.0])
def test_negative_kernels_make_no_walk(offset, method):
    """With the offset all degrees are positive and only some values are negative."""
    points = X - X.mean(axis=0) + offset
    assert (points @ points.T).min() < 0
    with pytest.raises(ValueError, match=r"values down to -|kernel value of -"):
        DiffusionICPQR("5%", kernel="linear", method=method).fit(points)


def test_negative_values_of_new_points_make_no_walk():
    model = DiffusionICPQR(kernel="linear").fit(np.abs(X))
    with pytest.raises(ValueError, match=r"kernel values down to -.*allowed are values >= 0"):
        model.predict(-np.abs(X))
    given = DiffusionICPQR(kernel="precomputed").fit(K)
    with pytest.raises(ValueError, match=r"kernel values down to -.*allowed are values >= 0"):
        given.predict(-K_NEW)


def test_absurd_alpha_is_refused():
    with pytest.raises(ValueError, match="alpha"):
        DiffusionICPQR(epsilon=EPSILON, alpha=500.0).fit(X)


# -- the nested path, thresholds, intervals ---------------------------------------------------


@pytest.mark.parametrize("wanted", [{"mu": 1.0}, {"n_components": 7}, {"mu": "50%"}])
def test_truncation_equals_a_new_fit_in_dense(wanted):
    model = DiffusionICPQR("2%", epsilon=EPSILON, method="dense").fit(X)
    shorter = model.truncate(**wanted)
    fresh = clone(shorter).fit(X)
    np.testing.assert_array_equal(shorter.dictionary_indices_, fresh.dictionary_indices_)
    assert shorter.mu_ == pytest.approx(fresh.mu_)
    floor = model.certificate_.accuracy_floor
    np.testing.assert_allclose(shorter.residuals_, fresh.residuals_, atol=2 * floor)
    np.testing.assert_allclose(
        shorter.distortion_rate(NEW), fresh.distortion_rate(NEW), atol=2 * floor
    )
    assert shorter.certificate_.stopped_by == fresh.certificate_.stopped_by
    assert shorter.epsilon_ == fresh.epsilon_
    assert (shorter.predict(X) == 1).all()


@pytest.mark.parametrize("t", [1, 4])
def test_truncation_keeps_the_promise_in_low_rank(t):
    model = DiffusionICPQR("2%", epsilon=EPSILON, t=t, method="low_rank").fit(X)
    Z = geometry(K, t)
    for mu in (2 * model.mu_, 10 * model.mu_):
        shorter = model.truncate(mu=mu)
        assert shorter.n_components_ <= model.n_components_
        assert shorter.mu_strict_ <= mu
        assert shorter.certificate_.certified
        change = np.abs(cdist(Z, Z) - cdist(shorter.embedding_, shorter.embedding_)).max()
        assert change <= shorter.certificate_.distortion_bound + slack(Z, t)
        assert (shorter.predict(X) == 1).all()
    with pytest.raises(ValueError, match=r"allowed is mu >= .*fit again with the smaller mu"):
        model.truncate(mu=0.01 * model.mu_strict_)


@pytest.mark.parametrize("method", METHODS)
def test_path_holds_the_largest_residual_of_every_size(method):
    model = DiffusionICPQR("5%", epsilon=EPSILON, method=method).fit(X)
    assert model.path_.shape == (model.n_components_ + 1, 2)
    np.testing.assert_array_equal(model.path_[:, 1], np.arange(model.n_components_ + 1))
    assert (np.diff(model.path_[:, 0]) <= 1e-9).all()
    Z = geometry(K)
    error = model.certificate_.route_error
    for s in (0, 1, model.n_components_ // 2, model.n_components_):
        Q = np.linalg.qr(Z[model.dictionary_indices_[:s]].T)[0]
        true = np.linalg.norm(Z - (Z @ Q) @ Q.T, axis=1).max()
        # The dictionary itself is off by the route error too, so this compares loosely there.
        assert model.path_[s, 0] == pytest.approx(true, abs=slack(Z, 1) + 20 * error)


def test_path_of_low_rank_bounds_the_distortion_of_every_size():
    model = DiffusionICPQR("5%", epsilon=EPSILON, method="low_rank").fit(X)
    Z = geometry(K)
    true = cdist(Z, Z)
    for s in range(1, model.n_components_ + 1):
        F = model.embedding_[:, :s]
        assert np.abs(true - cdist(F, F)).max() <= 2 * model.path_[s, 0] + slack(Z, 1)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("threshold", ["mu", "strict"])
@pytest.mark.parametrize("t", [1, 4])
@pytest.mark.parametrize("mu", ["50%", "10%", "1%"])
def test_training_rows_are_normal_in_a_batch_and_alone(mu, t, threshold, method):
    model = DiffusionICPQR(mu, epsilon=EPSILON, t=t, threshold=threshold, method=method).fit(X)
    assert (model.predict(X) == 1).all()
    assert all(model.predict(X[i : i + 1])[0] == 1 for i in range(len(X)))
    assert model.offset_ == -model.threshold_


def test_a_number_as_threshold_is_taken_as_it_is():
    model = DiffusionICPQR("20%", epsilon=EPSILON, threshold=0.125).fit(X)
    assert model.threshold_ == 0.125
    expected = np.where(model.distortion_rate(NEW) <= 0.125, 1, -1)
    np.testing.assert_array_equal(model.predict(NEW), expected)


@pytest.mark.parametrize("method", METHODS)
def test_calibration_sets_the_rank_of_the_rates(method):
    held_out, fresh = ROLL[200:330], ROLL[330:]
    model = DiffusionICPQR("20%", epsilon=EPSILON, method=method).fit(X)
    model.calibrate(held_out, false_alarm_rate=0.1)
    k = int(np.ceil(131 * 0.9))
    assert model.calibration_.rank == k
    assert model.threshold_ == pytest.approx(np.sort(model.distortion_rate(held_out))[k - 1])
    # Beta(14, 117) has mean 0.107 and standard deviation 0.027; 130 fresh points add theirs.
    assert (model.predict(fresh) == -1).mean() <= 0.107 + 4 * np.hypot(0.027, 0.027)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("t", [1, 4])
def test_distance_bounds_contain_the_true_diffusion_distances(t, method):
    model = DiffusionICPQR("20%", epsilon=EPSILON, t=t, method=method).fit(X)
    far = NEW[:3] + np.array([100.0, 0.0, 0.0])
    points = np.vstack([NEW, far])
    Z = geometry(K, t)
    Y = new_rows(FORMULAS["rbf"](points, X, EPSILON), K, t)
    for A, B, left, right in ((X, None, Z, Z), (points, X, Y, Z), (points, None, Y, Y)):
        lower, upper = model.distance_bounds(A, B)
        true = cdist(left, right)
        assert (lower <= true + slack(Z, t)).all()
        assert (true <= upper + slack(Z, t)).all()
        assert np.isfinite(upper).all()


def test_explanation_names_members_nearest_in_the_diffusion_geometry():
    model = DiffusionICPQR("10%", epsilon=EPSILON, rotate=True).fit(X)
    explanation = model.explain(X[:5], n_neighbors=3)
    d = cdist(model.embedding_[:5], model.embedding_[model.dictionary_indices_])
    np.testing.assert_allclose(explanation.neighbor_distances, np.sort(d, axis=1)[:, :3], atol=1e-9)
    assert explanation.contributions is None


def test_rotation_changes_no_distance():
    plain = DiffusionICPQR("10%", epsilon=EPSILON).fit(X)
    turned = DiffusionICPQR("10%", epsilon=EPSILON, rotate=True).fit(X)
    np.testing.assert_allclose(
        cdist(turned.embedding_, turned.embedding_),
        cdist(plain.embedding_, plain.embedding_),
        atol=slack(geometry(K), 1) * 10,
    )
    assert (np.diff(turned.embedding_.var(axis=0)) <= 1e-9).all()


# -- float32 ----------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_float32(method):
    single = X.astype(np.float32)
    model = DiffusionICPQR("5%", epsilon=EPSILON, t=2, method=method).fit(single)
    for values in (model.embedding_, model.transform(single), model.distortion_rate(single)):
        assert values.dtype == np.float32
    assert model.certificate_.dtype == "float32"
    wide = single.astype(float)
    Z = geometry(FORMULAS["rbf"](wide, wide, EPSILON), 2)
    F = model.embedding_.astype(float)
    change = np.abs(cdist(Z, Z) - cdist(F, F)).max()
    assert change <= model.certificate_.distortion_bound + slack(Z, 2)
    assert (model.predict(single) == 1).all()
    assert all(model.predict(single[i : i + 1])[0] == 1 for i in range(len(X)))


@pytest.mark.parametrize("method", METHODS)
def test_float32_points_as_far_as_float32_goes(method):
    model = DiffusionICPQR("5%", epsilon=EPSILON, method=method).fit(X.astype(np.float32))
    far = np.full((1, 3), 1e30, dtype=np.float32)
    assert np.isfinite(model.distortion_rate(far)).all()
    assert model.predict(far)[0] == -1


# -- baselines --------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [0.0, 1.0])
@pytest.mark.parametrize("t", [1, 3])
def test_spectral_solvers_agree_and_place_training_points_where_they_were(t, alpha):
    dense = DiffusionMaps(6, epsilon=EPSILON, t=t, alpha=alpha, eigen_solver="dense").fit(X)
    arpack = DiffusionMaps(6, epsilon=EPSILON, t=t, alpha=alpha, eigen_solver="arpack").fit(X)
    np.testing.assert_allclose(arpack.eigenvalues_, dense.eigenvalues_, atol=1e-10)
    np.testing.assert_allclose(arpack.embedding_, dense.embedding_, atol=1e-6)
    assert arpack.analytic_bound_ == pytest.approx(dense.analytic_bound_, rel=1e-6)
    np.testing.assert_allclose(dense.transform(X), dense.embedding_, atol=1e-9)
    full = DiffusionMaps(199, epsilon=EPSILON, t=t, alpha=alpha).fit(X)
    Z = geometry(density_normalised(K, alpha), t)
    Y = new_rows(density_normalised(K, alpha, K_NEW), density_normalised(K, alpha), t)
    np.testing.assert_allclose(
        cdist(full.transform(NEW), full.embedding_), cdist(Y, Z), atol=slack(Z, t) * 10
    )
    np.testing.assert_allclose(full.eigenvalues_[:6], dense.eigenvalues_, atol=1e-12)
    assert (np.diff(np.abs(full.eigenvalues_)) <= 1e-15).all()


def test_spectral_map_of_a_disconnected_graph_drops_only_the_constant():
    K = np.kron(np.eye(2), np.ones((4, 4)))
    model = DiffusionMaps(1, kernel="precomputed").fit(K)
    assert model.eigenvalues_[0] == pytest.approx(1.0)
    np.testing.assert_allclose(np.abs(model.embedding_), 1.0)
    assert cdist(model.embedding_, model.embedding_)[0, 7] == pytest.approx(2.0)
    assert model.analytic_bound_ <= 1e-14


@pytest.mark.parametrize(
    ("parameters", "kind", "message"),
    [
        ({"n_components": 0}, ValueError, r"got n_components=0 .*allowed is 1 to 199"),
        ({"n_components": 200}, ValueError, r"got n_components=200 .*allowed is 1 to 199"),
        ({"n_components": None}, TypeError, r"got n_components=None of type NoneType"),
        ({"eigen_solver": "lobpcg"}, ValueError, r"got eigen_solver='lobpcg'; allowed are"),
        ({"t": 0}, ValueError, r"got t=0; allowed"),
    ],
    ids=repr,
)
def test_bad_parameters_of_the_spectral_map(parameters, kind, message):
    with pytest.raises(kind, match=message):
        DiffusionMaps(**parameters).fit(X)


@pytest.mark.parametrize(
    "estimator",
    [DiffusionMaps(), DiffusionMaps(1, t=3, alpha=1.0, eigen_solver="arpack"), MuIDM(), MuIDM(0.5)],
    ids=repr,
)
def test_baselines_pass_the_checks_of_scikit_learn(estimator):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=SkipTestWarning)
        results = check_estimator(estimator, on_skip=None, on_fail=None)
    assert not [(r["check_name"], r["exception"]) for r in results if r["status"] == "failed"]


def test_laplacian_kernel_of_sparse_rows_with_64_bit_indices():
    thin = sparse.random(40, 10, density=0.3, format="csr", random_state=0)
    wide = sparse.csr_array(
        (thin.data, thin.indices.astype(np.int64), thin.indptr.astype(np.int64)), shape=thin.shape
    )
    rates = DiffusionICPQR("20%", kernel="laplacian").fit(thin).distortion_rate(thin)
    own = DiffusionICPQR("20%", kernel="laplacian").fit(wide).distortion_rate(wide)
    np.testing.assert_array_equal(own, rates)


def literal_mu_idm(K, mu):
    """One scan by the closed form: err^2 from M^2, one point at a time."""
    d = K.sum(axis=1)
    M = K / np.sqrt(d[:, None] * d[None, :])
    M2, S = M @ M, []
    for x in range(len(K)):
        a = np.linalg.solve(M[np.ix_(S, S)], M[S, x])
        err2 = M2[x, x] - 2 * a @ M2[S, x] + a @ M2[np.ix_(S, S)] @ a
        if np.sqrt(d.sum() / d[x] * max(err2, 0.0)) > mu:
            S.append(x)
    return S


@pytest.mark.parametrize("mu", [0.3, 1.0, 3.0])
def test_mu_idm_scans_as_the_closed_form_says(mu):
    model = MuIDM(mu, epsilon=9.0).fit(X)
    assert model.dictionary_indices_.tolist() == literal_mu_idm(FORMULAS["rbf"](X, X, 9.0), mu)
    Z = geometry(FORMULAS["rbf"](X, X, 9.0))
    change = np.abs(cdist(Z, Z) - cdist(model.embedding_, model.embedding_)).max()
    assert change <= model.distortion_bound_ + slack(Z, 1)
    # Nystrom's weights divide by the smallest pivot of M_SS, about mu^2 / vol.
    np.testing.assert_allclose(model.transform(X), model.embedding_, atol=1e-9)


def test_mu_idm_of_bad_input():
    with pytest.raises(ValueError, match=r"got mu=None; allowed"):
        MuIDM(None).fit(X)
    with pytest.raises(ValueError, match=r"not positive semi-definite"):
        MuIDM(0.0, kernel="precomputed").fit(np.array([[1.0, 2.0], [2.0, 1.0]]))
    assert len(MuIDM("1%").fit(np.ones((9, 2))).dictionary_indices_) == 1
