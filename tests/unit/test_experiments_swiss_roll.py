"""Parts of the Swiss roll experiment against slow and literal ones."""

import numpy as np

from isopivot.experiments import swiss_roll
from isopivot.experiments._dimension import dimension_curve, upper_distances


def test_fewest_dimensions_by_trying_all_of_them():
    rng = np.random.default_rng(0)
    F = rng.standard_normal((60, 30)) * 0.8 ** np.arange(30)
    d = upper_distances(F)
    targets = (10.0, 1.0, 0.3, 0.01, 1e-4)
    shorter = F[:, :25]
    curve = dimension_curve(d, shorter, targets, n_sizes=7)

    def worst(k):
        e = np.linalg.norm(F[:, None, :k] - F[None, :, :k], axis=2)
        return (np.linalg.norm(F[:, None] - F[None], axis=2) - e).max()

    tried = [next((k for k in range(26) if worst(k) <= x), None) for x in targets]
    assert list(curve.fewest) == tried
    assert curve.fewest[-1] is None
    np.testing.assert_allclose(curve.distortions, [worst(k) for k in curve.sizes], atol=1e-6)


def test_new_points_are_placed_where_the_training_points_are():
    X = swiss_roll.roll(300, 0)
    model = swiss_roll.DiffusionICPQR(0.1, epsilon=3.0, method="dense", threshold="mu").fit(X)
    psi = swiss_roll.DiffusionMaps(299, epsilon=3.0, eigen_solver="dense").fit(X).embedding_
    view = swiss_roll.aligned(psi, model.embedding_)
    # Within the distortion promised, the dictionary's view is that of the spectral map.
    assert np.abs(view - psi[:, :2]).max() <= model.certificate_.distortion_bound
    turn = swiss_roll.rigid_map(model.embedding_, view)
    np.testing.assert_allclose(turn(model.transform(X)), view, atol=1e-6)
