"""Bad input is refused with an error that says got, allowed and remedy."""

import array_api_strict
import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from isopivot import ICPQR, actual_distortion, align, distance_bounds, icpqr

X = np.random.default_rng(0).standard_normal((20, 4))


def spoiled(value):
    Y = X.copy()
    Y[3, 1] = value
    return Y


BAD_DATA = {
    "NaN": (spoiled(np.nan), ValueError, r"NaN(.|\n)*(?i:impute)"),
    "infinity": (spoiled(np.inf), ValueError, r"infinity(.|\n)*(clip|drop)"),
    "no rows": (np.empty((0, 4)), ValueError, r"0 sample(.|\n)*at least one"),
    "no features": (np.empty((4, 0)), ValueError, r"0 feature(.|\n)*at least one"),
    "one dimension": (X[0], ValueError, r"2D array(.|\n)*[Rr]eshape"),
    "three dimensions": (np.ones((2, 2, 2)), ValueError, r"dim 3(.|\n)*(?i:reshape)"),
    "complex": (X + 1j, ValueError, r"Complex(.|\n)*real and imaginary"),
    "strings": (np.array([["a", "b"], ["c", "d"]]), ValueError, r"string(.|\n)*encode"),
    "objects": (np.array([[{}, 1], [2, 3]], dtype=object), TypeError, r"number(.|\n)*convert"),
    "ragged": ([[1.0, 2.0], [3.0]], ValueError, r"inhomogeneous(.|\n)*same length"),
    "text column": (
        pd.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"]}),
        ValueError,
        r"string(.|\n)*encode",
    ),
    "date column": (
        pd.DataFrame({"a": [1.0, 2.0], "t": pd.to_datetime(["2020-01-01", "2020-01-02"])}),
        TypeError,
        r"select_dtypes",
    ),
    "None": (None, ValueError, r"NoneType(.|\n)*(?i:pass)"),
    "a scalar": (3.0, ValueError, r"scalar(.|\n)*[Rr]eshape"),
}


@pytest.mark.parametrize("call", ["estimator", "function"])
@pytest.mark.parametrize("name", BAD_DATA)
def test_data_that_cannot_be_fitted(name, call):
    bad, kind, message = BAD_DATA[name]
    with pytest.raises(kind, match=message):
        ICPQR().fit(bad) if call == "estimator" else icpqr(bad, "5%")


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (spoiled(np.nan), "NaN"),
        (X[:, 0], "reshape"),
        (X + 1j, "complex"),
        (X[:0], "at least one row"),
    ],
    ids=["NaN", "one dimension", "complex", "no rows"],
)
def test_other_namespaces_are_checked_too(bad, message):
    with pytest.raises(ValueError, match=message):
        icpqr(array_api_strict.asarray(bad), "5%")


@pytest.mark.parametrize(
    ("parameters", "kind", "message"),
    [
        ({"mu": -1.0}, ValueError, r"got mu=-1.0; allowed are a finite number >= 0"),
        ({"mu": np.nan}, ValueError, r"got mu=nan; allowed"),
        ({"mu": np.inf}, ValueError, r"got mu=inf; allowed"),
        ({"mu": "abc%"}, ValueError, r"got mu='abc%'; allowed .*\"5%\""),
        ({"mu": "-3%"}, ValueError, r"got mu='-3%'; allowed"),
        ({"mu": "nan%"}, ValueError, r"got mu='nan%'; allowed"),
        ({"mu": "5"}, ValueError, r"got mu='5'; allowed"),
        ({"mu": ""}, ValueError, r"got mu=''; allowed"),
        ({"mu": True}, TypeError, r"got mu=True of type bool; allowed"),
        ({"mu": [1.0]}, TypeError, r"got mu=\[1.0\] of type list; allowed"),
        ({"mu": None}, ValueError, r"mu=None and n_components=None; allowed .*set mu"),
        ({"n_components": 0}, ValueError, r"got n_components=0; allowed is 1 to 4.*lower"),
        ({"n_components": 5}, ValueError, r"got n_components=5; allowed is 1 to 4.*lower"),
        ({"n_components": -1}, ValueError, r"got n_components=-1; allowed is 1 to 4"),
        ({"n_components": 2.0}, TypeError, r"n_components=2.0 of type float; allowed"),
        ({"n_components": True}, TypeError, r"n_components=True of type bool; allowed"),
        ({"relaxation": 0.0}, ValueError, r"got relaxation=0.0; allowed .*\(0, 1\]"),
        ({"relaxation": 1.5}, ValueError, r"got relaxation=1.5; allowed"),
        ({"relaxation": np.nan}, ValueError, r"got relaxation=nan; allowed"),
        ({"relaxation": "1"}, TypeError, r"got relaxation='1' of type str; allowed"),
    ],
    ids=repr,
)
def test_parameters_of_both_entry_points(parameters, kind, message):
    with pytest.raises(kind, match=message):
        ICPQR(**parameters).fit(X)
    with pytest.raises(kind, match=message):
        icpqr(X, **{"mu": "5%", **parameters})


@pytest.mark.parametrize(
    ("parameters", "kind", "message"),
    [
        ({"threshold": "loose"}, ValueError, r"got threshold='loose'; allowed are \"mu\""),
        ({"threshold": -1.0}, ValueError, r"got threshold=-1.0; allowed"),
        ({"threshold": np.nan}, ValueError, r"got threshold=nan; allowed"),
        ({"threshold": None}, TypeError, r"got threshold=None; allowed"),
        ({"center": "yes"}, ValueError, r"'center' parameter .* must be .*bool.*Got 'yes'"),
        ({"rotate": 3}, ValueError, r"'rotate' parameter .* must be .*bool.*Got 3"),
    ],
    ids=repr,
)
def test_parameters_of_the_estimator(parameters, kind, message):
    with pytest.raises(kind, match=message):
        ICPQR(**parameters).fit(X)


def test_wrong_features_later():
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = ICPQR().fit(frame)
    with pytest.raises(ValueError, match=r"feature names should match(.|\n)*Remedy"):
        model.transform(frame.rename(columns={"a": "z"}))
    with pytest.raises(ValueError, match=r"feature names should match(.|\n)*Remedy"):
        model.distortion_rate(frame[list("dcba")])
    plain = ICPQR().fit(X)
    for method in ("transform", "distortion_rate", "predict", "explain", "distance_bounds"):
        with pytest.raises(ValueError, match=r"X has 3 features, but(.|\n)*Remedy"):
            getattr(plain, method)(X[:, :3])
    with pytest.raises(ValueError, match=r"got 1 coordinates per point; allowed is"):
        plain.inverse_transform(np.ones((2, 1)))


@pytest.mark.parametrize(
    ("rate", "kind", "message"),
    [
        (0.0, ValueError, r"got false_alarm_rate=0.0; allowed .*between 0 and 1"),
        (1.0, ValueError, r"got false_alarm_rate=1.0; allowed"),
        (np.nan, ValueError, r"got false_alarm_rate=nan; allowed"),
        ("1%", TypeError, r"false_alarm_rate='1%' of type str; allowed"),
        (0.01, ValueError, r"got 20 calibration rows .* 0.01; allowed are 99 rows or more; hold"),
    ],
)
def test_calibration_that_cannot_be(rate, kind, message):
    model = ICPQR().fit(X)
    with pytest.raises(kind, match=message):
        model.calibrate(X, false_alarm_rate=rate)


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ({}, ValueError, r"allowed is exactly one"),
        ({"mu": 1.0, "n_components": 1}, ValueError, r"allowed is exactly one"),
        ({"n_components": 0}, ValueError, r"got n_components=0; allowed is 1 to"),
        ({"n_components": 99}, ValueError, r"got n_components=99; allowed is 1 to"),
        ({"mu": 1e-6}, ValueError, r"got mu=1e-06; allowed is mu >= .*fit again"),
        ({"mu": "0%"}, ValueError, r"got mu='0%'; allowed is mu >= "),
        ({"mu": -1}, ValueError, r"got mu=-1; allowed are"),
    ],
)
def test_truncation_that_cannot_be(arguments, kind, message):
    model = ICPQR("80%").fit(X)
    with pytest.raises(kind, match=message):
        model.truncate(**arguments)


def test_functions_on_embeddings():
    F, r = np.ones((3, 2)), np.ones(3)
    with pytest.raises(ValueError, match="pass one residual per row of F"):
        distance_bounds(F, r[:2])
    with pytest.raises(ValueError, match="both or neither"):
        distance_bounds(F, r, G=F)
    with pytest.raises(ValueError, match="embed both sets"):
        distance_bounds(F, r, F[:, :1], r)
    with pytest.raises(ValueError, match="NaN or infinity in F"):
        distance_bounds(F * np.nan, r)
    with pytest.raises(ValueError, match="allowed are residuals >= 0"):
        distance_bounds(F, -r)
    with pytest.raises(ValueError, match="embedding of this very X"):
        actual_distortion(np.ones((4, 2)), F)
    with pytest.raises(ValueError, match="pass one residual per row of X"):
        actual_distortion(np.ones((3, 2)), F, r[:2])
    with pytest.raises(ValueError, match="one point per row"):
        actual_distortion(np.ones(3), F)
    with pytest.raises(ValueError, match="same number"):
        align(F, F[:2])
    with pytest.raises(ValueError, match="NaN or infinity"):
        align(F, F * np.nan)


@pytest.mark.parametrize("mu", [0.0, 1.0, "5%", "0%", "100%"])
@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize(
    "data",
    [
        np.array([[3.0, 4.0]]),
        np.array([[3.0], [4.0], [5.0]]),
        np.zeros((4, 3)),
        np.full((5, 3), 0.1),
        np.full((5, 3), 1e6 / 3, dtype=np.float32),
        sparse.csr_array(np.zeros((4, 3))),
        sparse.csr_array(np.full((5, 30), 0.1)),
        np.array([[7.0]]),
    ],
    ids=["one row", "one feature", "zero", "identical", "identical f4", "sparse zero",
         "sparse identical", "one number"],
)  # fmt: skip
def test_degenerate_data_works(data, center, mu):
    model = ICPQR(mu, center=center).fit(data)
    dense = data.toarray() if sparse.issparse(data) else data
    worst = actual_distortion(dense, model.embedding_)
    assert worst <= model.certificate_.distortion_bound
    assert model.certificate_.certified
    assert (model.predict(data) == 1).all()
    assert np.isfinite(model.transform(data)).all()
    assert np.isfinite(model.path_).all()
    assert model.explain(data).neighbors.shape == (len(dense), min(5, model.n_components_))
    lower, upper = model.distance_bounds(data)
    assert (lower <= upper).all()
    if center and (dense == dense[0]).all():
        assert model.n_components_ == 0


def test_norms_beyond_the_largest_float_are_refused():
    huge = np.full((2, 4), 1.7e308)
    huge[1] *= -1
    with pytest.raises(ValueError, match=r"norms exceed(.|\n)*divide the data"):
        ICPQR(0.0, center=False).fit(huge)
    model = ICPQR(1e9).fit(X)  # no dictionary: the rate is the norm
    with pytest.raises(ValueError, match=r"exceed the largest(.|\n)*divide the data"):
        model.distortion_rate(huge)
