"""The certificate in plain words."""

from __future__ import annotations

from typing import Any

from isopivot.estimators import ICPQR, DiffusionICPQR
from isopivot.report._compact import text

UNITS = {
    "linear": "in the units of the data",
    "kernel": "in units of the kernel's feature space",
    "diffusion": "in units of the diffusion geometry",
}
DISTANCE = {
    "linear": "distance",
    "kernel": "feature-space distance",
    "diffusion": "diffusion distance",
}


def kind_of(model: Any) -> str:
    """Return which geometry a model keeps: linear, kernel or diffusion."""
    if isinstance(model, ICPQR):
        return "linear"
    return "diffusion" if isinstance(model, DiffusionICPQR) else "kernel"


def describe(model: Any, training: bool) -> dict[str, Any]:
    """Return the certificate as a headline and titled paragraphs."""
    certificate = model.certificate_
    return {
        "certified": bool(certificate.certified),
        "badge": "Certified" if certificate.certified else "Not certified",
        "headline": _headline(model),
        "paragraphs": [
            ("What was kept", _kept(model)),
            ("What is promised", _promise(model)),
            ("What the numbers mean", _units(model)),
            ("What does not follow", _limits(model, training)),
        ],
        "details": str(certificate),
    }


def bounded(model: Any) -> bool:
    """Return whether the error bound holds: only a density-normalised shortcut has none."""
    certificate = model.certificate_
    shortcut = certificate.route == "diffusion-low_rank" and getattr(model, "alpha", 0.0)
    return bool(certificate.certified or not shortcut)


def _headline(model: Any) -> str:
    certificate, noun = model.certificate_, DISTANCE[kind_of(model)]
    bound = text(certificate.distortion_bound)
    if certificate.certified:
        return f"No pairwise {noun} of the training data changed by more than {bound}."
    if bounded(model):
        return (
            f"The exactness asked for was not reached: a pairwise {noun} of the training data "
            f"may have changed by up to {bound}."
        )
    return (
        f"There is no proof for this model: {bound} is an estimate of how much a pairwise "
        f"{noun} changed, not a promise."
    )


def _kept(model: Any) -> str:
    certificate = model.certificate_
    n, s = certificate.n_samples, certificate.n_components
    if s == 0:
        return (
            f"Nothing: of {_count(n, 'training row')} none lies farther from the centre than mu "
            "allows, so none had to be picked. The dictionary is empty, and every row is drawn "
            "at the same spot."
        )
    before = f"{_count(model.n_features_in_, 'feature')} each, " if _has_features(model) else ""
    return (
        f"The model learnt from {_count(n, 'training row')}, {before}and picked {s:,} of "
        f"{'them' if n > 1 else 'those'}: the dictionary. Every row is now described by "
        f"{_count(s, 'number')} that say where it lies as seen from the dictionary. What the "
        f"dictionary cannot express of a row is left out, and its size is the row's rate."
    )


def _promise(model: Any) -> str:
    certificate = model.certificate_
    n, bound = certificate.n_samples, text(certificate.distortion_bound)
    pairs = n * (n - 1) // 2
    if not bounded(model):
        return (
            "Nothing is promised: with this setting (density normalisation on the low-rank "
            "route) the error of the shortcut is not known. Use the dense route for a proof."
        )
    if pairs == 0:
        return "There is one training row only, so there is no distance to keep."
    if not certificate.certified:
        return (
            f"A largest miss (mu) was asked for, but {certificate.n_components:,} dictionary rows "
            f"did not reach it: some training row is missed by {text(certificate.mu_strict)}. "
            f"What does hold, for every one of the {_count(pairs, 'pair')}: the distance in the "
            f"reduced data differs from the true one by at most {bound}."
        )
    return (
        f"Take any two training rows and measure how far apart they are, before and after. The two "
        f"answers differ by at most {bound}. This holds for every one of the "
        f"{_count(pairs, 'pair')}, rounding errors included; it is proved, not sampled or "
        "estimated. No training row is missed by more than mu = "
        f"{text(certificate.mu)}, and a pair by at most twice that."
    )


def _units(model: Any) -> str:
    kind = kind_of(model)
    if kind == "linear":
        return (
            "Distances, rates and mu are in the units of the data as the model was given them. "
            "If features were scaled before, these are scaled units."
        )
    if kind == "kernel":
        return (
            f"Distances are those of the {_kernel_name(model)} kernel: a measure of how alike two "
            "rows are, in units of its feature space, not in those of the data. Rates and mu have "
            "the same units."
        )
    return (
        "Distances are diffusion distances: two rows are close when random walks over the data "
        f"({_count(model.t, 'step')} long) starting from them end up in the same places. Rates and "
        "mu have the same units."
    )


def _limits(model: Any, training: bool) -> str:
    shown = (
        ""
        if training
        else " The rows in this report could not be recognised as the rows the model learnt "
        "from, in their order, so the promise may be about other rows than these."
    )
    return (
        f"The promise is about the training rows only.{shown} A new row may lie anywhere; its own "
        "rate says how much of it the dictionary misses, and between two rows, new or old, the "
        "distance changes by at most their two rates added. A small rate does not prove that a "
        "row is normal, and a large one does not say what is wrong with it. The flat pictures "
        "below leave out more than the model does: the promise is about all "
        f"{_count(model.n_components_, 'coordinate')}, not about a picture of two or three."
    )


def _kernel_name(model: Any) -> str:
    return model.kernel if isinstance(model.kernel, str) else "given"


def _has_features(model: Any) -> bool:
    return str(getattr(model, "kernel", "")) != "precomputed"


def _count(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'' if n == 1 else 's'}"
