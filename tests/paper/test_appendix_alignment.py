"""Appendix, Algorithm 6, corrected (errata 18): orthogonal Procrustes about the means recovers a
rigid copy, reflections included, and never does worse than another rigid motion."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isopivot import align
from reference import distances
from strategies import point_sets, seeds
from tolerances import largest_norm, length_slack


def random_orthogonal(m, seed):
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((m, m)))[0]


def alignment_slack(A, B):
    """Rounding of a rotation applied to n rows: the whole cloud has norm at most sqrt(n) M."""
    return np.sqrt(len(A)) * length_slack(A, B)


def recovery_slack(A, B):
    """Rounding of the rotation itself, which comes from the cross product of the two clouds.

    The cross product squares the spread sigma_i along each axis, so that axis is found to
    slack * sigma_1 / sigma_i, and misplacing it altogether costs sigma_i.
    """
    slack = alignment_slack(A, B)
    scale = np.abs(A).max() or 1.0
    spread = scale * np.linalg.svd((A - A.mean(axis=0)) / scale, compute_uv=False)
    found = [min(sigma, slack * (spread[0] / sigma)) for sigma in spread if sigma > slack]
    return 2 * max([slack, *found])


float64_sets = point_sets(dtypes=(np.float64,))


@given(A=float64_sets, seed=seeds)
def test_rigid_copies_are_laid_back_on_the_original(A, seed):
    shift = np.random.default_rng(seed).standard_normal(A.shape[1]) * largest_norm(A)
    B = A @ random_orthogonal(A.shape[1], seed) + shift
    assert np.abs(align(A, B) - A).max() <= recovery_slack(A, B)


@given(A=float64_sets, seed=seeds)
def test_alignment_keeps_the_geometry_of_what_it_moves(A, seed):
    B = np.random.default_rng(seed).standard_normal(A.shape) * largest_norm(A)
    moved = align(A, B)
    assert np.abs(distances(moved) - distances(B)).max() <= 2 * alignment_slack(A, B)
    gap = moved.mean(axis=0) - A.mean(axis=0)
    assert np.abs(gap).max() <= alignment_slack(A, B)


@given(A=float64_sets, seed=seeds, other=seeds)
def test_no_other_rigid_motion_fits_better(A, seed, other):
    B = np.random.default_rng(seed).standard_normal(A.shape) * largest_norm(A)
    scale = np.abs(A).max() or 1.0
    rival = (B - B.mean(axis=0)) @ random_orthogonal(A.shape[1], other) + A.mean(axis=0)
    ours = np.linalg.norm((align(A, B) - A) / scale)
    assert ours <= np.linalg.norm((rival - A) / scale) + 2 * alignment_slack(A, B) / scale


@given(A=float64_sets, extra=st.integers(1, 4), seed=seeds)
def test_fewer_columns_are_padded_with_zeros(A, extra, seed):
    wide = np.column_stack([A, np.zeros((len(A), extra))])
    turned = wide @ random_orthogonal(wide.shape[1], seed)
    assert np.abs(align(A, turned) - wide).max() <= recovery_slack(wide, turned)
    back = align(turned, A)
    assert back.shape == turned.shape
    assert np.abs(back - turned).max() <= recovery_slack(wide, turned)


def test_mirror_image_is_recovered():
    A = np.random.default_rng(0).standard_normal((20, 3))
    B = A * np.array([1.0, 1.0, -1.0])
    assert np.abs(align(A, B) - A).max() <= recovery_slack(A, B)


def test_different_numbers_of_points_are_refused():
    with pytest.raises(ValueError, match=r"rows|points|samples"):
        align(np.zeros((3, 2)), np.zeros((4, 2)))
