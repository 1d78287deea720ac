"""Which estimator the options ask for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from isopivot.cli._errors import usage

# Which parameters each kind takes beside mu, by the option that sets them.
_TAKES = {
    "linear": {"n_components", "center", "rotate", "threshold"},
    "kernel": {"n_components", "kernel", "epsilon", "rotate", "threshold"},
    "diffusion": {"n_components", "kernel", "epsilon", "t", "rotate", "threshold"},
    "classifier": {"center", "threshold"},
    "kernel classifier": {"kernel", "epsilon", "threshold"},
}
_OPTIONS = {
    "n_components": "-n",
    "center": "--center or --no-center",
    "rotate": "--rotate",
    "threshold": "--threshold",
    "kernel": "--kernel",
    "epsilon": "--epsilon",
    "t": "--t",
}


@dataclass(frozen=True)
class Choice:
    """The options about the model, as they were given; None where they were not."""

    mu: float | str | None = None
    n_components: int | None = None
    kernel: str | None = None
    diffusion: bool = False
    t: int | None = None
    epsilon: float | str | None = None
    center: bool | None = None
    rotate: bool | None = None
    threshold: float | str | None = None
    classify: bool = False

    @property
    def kind(self) -> str:
        """Which of the estimators is meant."""
        if self.diffusion:
            return "diffusion"
        if self.classify:
            return "classifier" if self.kernel is None else "kernel classifier"
        return "linear" if self.kernel is None else "kernel"

    def parameters(self) -> dict[str, Any]:
        """Return the parameters that were given; refuse those the estimator does not have."""
        given = {name: getattr(self, name) for name in _OPTIONS}
        given = {name: value for name, value in given.items() if value is not None}
        for name in given:
            if name not in _TAKES[self.kind]:
                where = [kind for kind, takes in _TAKES.items() if name in takes]
                raise usage(
                    f"got {_OPTIONS[name]}, which a {self.kind} model does not have (but "
                    f"{', '.join(where)}); leave it out"
                )
        if self.mu == "auto" and "classifier" not in self.kind:
            raise usage(
                "got --mu auto, which only a classifier has (fit --label COL); give a number or 5%"
            )
        if self.mu is not None or "n_components" in given:
            given["mu"] = self.mu
        return given


def make_estimator(choice: Choice) -> Any:
    """Return the estimator, not yet fitted."""
    from isopivot import ICPQR, DiffusionICPQR, ICPQRClassifier, KernelICPQR

    parameters = choice.parameters()
    if choice.kind == "linear":
        return ICPQR(**parameters)
    if choice.kind == "kernel":
        return KernelICPQR(**parameters)
    if choice.kind == "diffusion":
        return DiffusionICPQR(**parameters)
    # The same table gives the same model.
    return ICPQRClassifier(**parameters, random_state=0)


def blindness(estimator: Any) -> list[str]:
    """Return a note if no row can ever lie off the span of the dictionary, else nothing."""
    from isopivot import ICPQR

    features = estimator.n_features_in_
    if not isinstance(estimator, ICPQR) or estimator.n_components_ < features:
        return []
    return [
        f"the dictionary spans all {features} features, so every rate is rounding and score "
        "finds no anomalies; fit with a larger --mu, or with --kernel rbf"
    ]


def check_size(choice: Choice, rows: int, features: int) -> None:
    """Refuse more components than there can be, in the words of the command line."""
    most = min(rows, features) if choice.kind == "linear" else rows
    if choice.n_components is not None and choice.n_components > most:
        remedy = f"use -n {most}"
        if choice.kind == "linear" and most < rows:
            remedy += ", or --kernel rbf, which has no such limit"
        raise usage(
            f"got -n {choice.n_components} for {rows} rows of {features} features, which allow "
            f"{most}; {remedy}"
        )
