"""Certificates as objects, and the exact distortion."""

import dataclasses
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from isopivot import Certificate, DiffusionICPQR, KernelICPQR, actual_distortion, icpqr
from reference import max_distortion
from strategies import point_sets, problems, seeds
from tolerances import length_slack


def certificate(**stop):
    X = np.random.default_rng(0).standard_normal((50, 8))
    return icpqr(X, **stop).certificate


def test_certificates_are_frozen_and_travel_as_json():
    signed = certificate(mu="40%")
    with pytest.raises(dataclasses.FrozenInstanceError, match="mu"):
        signed.mu = 0.0
    fields = [field.name for field in dataclasses.fields(Certificate)]
    assert list(signed.to_dict()) == fields
    assert Certificate(**json.loads(signed.to_json())) == signed
    assert signed.route_error == 0.0
    assert signed.kernel_evaluations is None


def test_text_says_what_is_promised():
    kept = str(certificate(mu="40%"))
    assert "no pairwise distance changed by more than" in kept
    assert "stopped by mu" in kept
    assert "nothing was kept" in str(certificate(mu=1e3))
    in_kernel = str(KernelICPQR().fit(np.arange(8.0).reshape(4, 2)).certificate_)
    assert "no pairwise feature-space distance" in in_kernel
    walks = DiffusionICPQR().fit(np.arange(8.0).reshape(4, 2))
    assert "no pairwise diffusion distance" in str(walks.certificate_)
    missed = str(certificate(mu=1e-3, n_components=2))
    assert "the requested mu was not reached" in missed
    assert ", mu " in kept
    assert ", mu " not in missed  # the field holds what was reached, not what was asked


def test_bound_is_the_two_largest_residuals_and_rounding():
    X = np.random.default_rng(1).standard_normal((40, 6))
    result = icpqr(X, n_components=3)
    top = np.sort(result.residuals)[-2:].sum()
    expected = top + 2 * result.certificate.accuracy_floor
    assert result.certificate.distortion_bound == pytest.approx(expected, rel=1e-14)


@given(problem=problems(min_rows=2), given_residuals=st.booleans())
def test_actual_distortion_equals_the_maximum_over_all_pairs(problem, given_residuals):
    X, mu = problem
    result = icpqr(X, mu)
    residuals = result.residuals if given_residuals else None
    found = actual_distortion(X, result.coordinates, residuals)
    assert found == pytest.approx(max_distortion(X, result.coordinates), abs=length_slack(X))


@given(X=point_sets(min_rows=2), seed=seeds)
def test_actual_distortion_of_any_embedding(X, seed):
    """Also one that stretches distances; nothing is assumed of it without residuals."""
    other = X.astype(float) @ np.random.default_rng(seed).standard_normal((X.shape[1], 3))
    assert actual_distortion(X, other) == pytest.approx(
        max_distortion(X, other), abs=length_slack(X, other)
    )


@pytest.mark.parametrize("as_input", [np.asarray, np.asfortranarray, sparse.csr_array])
def test_actual_distortion_over_several_blocks(as_input):
    rng = np.random.default_rng(5)
    X = rng.standard_normal((1300, 20)) * np.geomspace(1, 0.01, 20) + 3.0
    result = icpqr(X, "10%", center=True)
    expected = max_distortion(X, result.coordinates)
    seen = []
    for residuals in (None, result.residuals):
        found = actual_distortion(
            as_input(X), result.coordinates, residuals, progress=lambda *done: seen.append(done)
        )
        assert found == pytest.approx(float(expected), abs=length_slack(X))
    assert seen[-1] == (3, 3)


def test_close_pairs_do_not_count_their_rounding_as_distortion():
    """By inner products, distances of 1e-9 beside norms of 1e3 would be wrong by 1e-5."""
    rng = np.random.default_rng(6)
    X = np.repeat(1e3 * rng.standard_normal((30, 5)), 2, axis=0)
    X[1::2] += 1e-9 * rng.standard_normal((30, 5))
    found = actual_distortion(X, X)
    assert found == 0.0
