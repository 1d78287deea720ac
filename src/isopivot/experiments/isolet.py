"""Spoken letters (the paper's section 4.3): one dictionary per letter."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import confusion_matrix
from sklearn.model_selection import StratifiedKFold
from sklearn.svm import SVC

from isopivot import ICPQRClassifier
from isopivot.datasets import Isolet, load_isolet
from isopivot.estimators.classifier import hits_along_path
from isopivot.estimators.kernel import pooled_epsilon
from isopivot.experiments._book import Picture, Result, Sheet

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]
Report = Callable[[str], None]

PAPER_MU, PAPER_ACCURACY, QUOTED_ACCURACY = 4.7, 92.0, 96.73
CURVE_MUS = np.arange(1.0, 9.01, 0.25)
KERNEL_MUS = np.arange(0.10, 0.801, 0.05)
# What the kernel dictionaries may choose from; see `Choice`.
SHRINKAGES, KERNELS, SCALES = (None, 1.0), ("rbf", "matern32"), (0.5, 1.0, 2.0)

TEXT = """\
ISOLET: 26 letters spoken by 150 people, 617 features in [-1, 1]; 6,238 samples to train on, and \
1,559 of 30 other people to test. One dictionary per letter, without centring; a sample is given \
to the letter whose dictionary misses least of it.

At the paper's mu = 4.7 linear dictionaries reproduce its 92 %. The paper chose that mu on a part \
of the training set which it does not describe. Held-out parts of ours, rows drawn at random or \
whole groups of 30 speakers, prefer smaller mu, nearly all rows of every letter, and that is \
worse on the test speakers: the curves show it.

The kernel dictionaries choose everything on the training set: each of its four groups of \
speakers is held out in turn, and the metric (as it is, or with the spread inside the letters \
evened out), the kernel, its scale and mu of the best mean accuracy are fitted to all training \
rows. The choice does not see the test set; but while this protocol was laid out, test \
accuracies of eight settings were looked at (95.8 to 96.7 %)."""


@dataclass(frozen=True)
class Choice:
    """What kernel dictionaries are fitted with, and how well that did on held-out speakers."""

    shrinkage: float | None  # of the spread inside the letters; None leaves features alone
    kernel: str
    scale: float
    mu: float
    accuracy: float


@dataclass(frozen=True, eq=False)
class Contest:
    """One classifier on the test set."""

    name: str
    chosen: str
    paper: float | None
    model: ICPQRClassifier
    answers: NDArray[np.str_]
    accuracy: float


def run(report: Report) -> Result:
    """Return accuracies, confusion matrices and validation curves beside the paper's.

    Parameters
    ----------
    report : callable
        Told, in a sentence, what is being done.

    Returns
    -------
    Result
    """
    data = load_isolet()
    contests = [*linear_contests(data, report)]
    choices = tuned(data, report)
    contests += kernel_contests(data, best(choices), report)
    report("isolet: a support vector machine beside them")
    machine = support_vectors(data)
    report("isolet: validation curves of the linear dictionaries")
    curves = linear_curves(data)
    report("isolet: drawing")
    sheets = (
        _accuracies(contests, machine),
        _tried(choices),
        _letters(data, contests[0], contests[-1]),
        _curve_sheet(curves),
    )
    pictures = (
        Picture("confusion", _CONFUSION, _draw_confusions(data, contests[0], contests[-1])),
        Picture("accuracy-against-mu", _CURVES, _draw_curves(curves)),
    )
    title = "Spoken letters, ISOLET (section 4.3)"
    return Result("isolet", title, TEXT, sheets, pictures, _missed(contests))


# -- classifiers ------------------------------------------------------------------------------


def linear_contests(data: Isolet, report: Report) -> Iterator[Contest]:
    """Yield linear dictionaries at the paper's mu and at those that validation prefers."""
    report("isolet: linear dictionaries at mu = 4.7")
    fixed = ICPQRClassifier(PAPER_MU, center=False).fit(data.X_train, data.y_train)
    yield judged("linear", "the paper's mu", PAPER_ACCURACY, fixed, data)
    report('isolet: linear dictionaries, mu="auto" on random rows')
    model = ICPQRClassifier(center=False, random_state=0)
    yield judged("linear", "a fifth of the rows", None, model.fit(data.X_train, data.y_train), data)
    if data.groups_train is None:
        return
    report('isolet: linear dictionaries, mu="auto" on held-out speakers')
    model = ICPQRClassifier(center=False, random_state=0)
    model.fit(data.X_train, data.y_train, groups=data.groups_train)
    yield judged("linear", "a group of speakers", None, model, data)


def kernel_contests(data: Isolet, choice: Choice, report: Report) -> Iterator[Contest]:
    """Yield kernel dictionaries: scale and mu by the classifier itself, then the best choice."""
    report('isolet: rbf dictionaries, mu="auto" and four scales on held-out speakers')
    own = ICPQRClassifier(kernel="rbf", epsilon_scale=[0.5, 1.0, 2.0, 4.0], random_state=0)
    own.fit(data.X_train, data.y_train, groups=data.groups_train)
    yield judged("rbf kernel", "a group of speakers", None, own, data)
    report("isolet: kernel dictionaries as chosen on all groups of speakers")
    moved = measured(data, choice.shrinkage)
    model = ICPQRClassifier(choice.mu, kernel=choice.kernel, epsilon_scale=choice.scale)
    model.fit(moved.X_train, moved.y_train)
    name = f"{choice.kernel} kernel" + ("" if choice.shrinkage is None else ", evened metric")
    yield judged(name, "every group of speakers", QUOTED_ACCURACY, model, moved)


def judged(
    name: str, chosen: str, paper: float | None, model: ICPQRClassifier, data: Isolet
) -> Contest:
    """Return a fitted classifier with its answers on the test set."""
    answers = model.predict(data.X_test)
    accuracy = 100.0 * float(np.mean(answers == data.y_test))
    return Contest(name, chosen, paper, model, answers, accuracy)


def support_vectors(data: Isolet) -> float:
    """Return the test accuracy of what a user would pick instead, in percent."""
    model = SVC(C=10.0, gamma=1.0 / (0.5 * pooled_epsilon(data.X_train, "rbf")))
    return 100.0 * float(model.fit(data.X_train, data.y_train).score(data.X_test, data.y_test))


# -- choosing on the training set alone -------------------------------------------------------


def tuned(data: Isolet, report: Report) -> list[Choice]:
    """Return, for every metric, kernel and scale, the mu that did best on held-out speakers."""
    choices = []
    for shrinkage in SHRINKAGES:
        parts = [measured(part, shrinkage) for part in folds(data)]
        for kernel in KERNELS:
            for scale in SCALES:
                report(f"isolet: trying {kernel}, scale {scale:g}, shrinkage {shrinkage}")
                model = ICPQRClassifier(KERNEL_MUS[0], kernel=kernel, epsilon_scale=scale)
                accuracy = mean_accuracy(model, KERNEL_MUS, parts)
                k = len(accuracy) - 1 - int(np.argmax(accuracy[::-1]))  # of equals the largest mu
                choices.append(
                    Choice(shrinkage, kernel, scale, float(KERNEL_MUS[k]), float(accuracy[k]))
                )
    return choices


def best(choices: list[Choice]) -> Choice:
    """Return the first of the most accurate choices."""
    return max(choices, key=lambda choice: choice.accuracy)


def folds(data: Isolet) -> Iterator[Isolet]:
    """Yield the training set with each group of speakers as the test part in turn."""
    X, y, groups = data.X_train, data.y_train, data.groups_train
    if groups is None:
        groups = np.zeros(len(y), dtype=np.intp)
        for k, (_, held) in enumerate(StratifiedKFold(4, shuffle=True, random_state=0).split(X, y)):
            groups[held] = k
    for group in np.unique(groups):
        held = groups == group
        yield Isolet(X[~held], y[~held], None, X[held], y[held])


def mean_accuracy(model: ICPQRClassifier, mus: Floats, parts: list[Isolet]) -> Floats:
    """Return the accuracy in percent at every mu, from one nested fit per part and letter."""
    hits, n = np.zeros(len(mus)), 0
    for part in parts:
        model.fit(part.X_train, part.y_train)
        codes = np.searchsorted(model.classes_, part.y_test)
        hits += hits_along_path(model.estimators_, mus, part.X_test, codes)
        n += len(codes)
    return 100.0 * hits / n


def measured(data: Isolet, shrinkage: float | None) -> Isolet:
    """Return the data in the metric that evens out the spread inside the letters."""
    if shrinkage is None:
        return data
    W = evening(data.X_train, data.y_train, shrinkage)
    return data._replace(X_train=data.X_train @ W, X_test=data.X_test @ W)


def evening(X: Floats, y: NDArray[np.str_], shrinkage: float) -> Floats:
    """Return W = (S + shrinkage * mean eigenvalue)^(-1/2), S the covariance inside classes."""
    classes, codes = np.unique(y, return_inverse=True)
    means = np.array([X[codes == k].mean(axis=0) for k in range(len(classes))])
    spread = X - means[codes]
    values, V = np.linalg.eigh(spread.T @ spread / len(X))
    return np.asarray(V / np.sqrt(values + shrinkage * values.mean()))


def linear_curves(data: Isolet) -> dict[str, Floats]:
    """Return accuracy against mu of linear dictionaries: held-out speakers, and the test set."""
    model = ICPQRClassifier(float(CURVE_MUS[0]), center=False)
    held_out = mean_accuracy(model, CURVE_MUS, list(folds(data)))
    test = mean_accuracy(model, CURVE_MUS, [data])
    return {"held-out speakers of the training set": held_out, "test speakers": test}


# -- tables -----------------------------------------------------------------------------------


def mean_size(model: ICPQRClassifier) -> float:
    """Return the mean number of members of a dictionary."""
    return float(np.mean([part.n_components_ for part in model.estimators_]))


def _accuracies(contests: list[Contest], machine: float) -> Sheet:
    rows: list[tuple[object, ...]] = [
        (
            entry.name,
            entry.chosen,
            round(entry.model.mu_, 3),
            entry.model.epsilon_scale_,
            round(mean_size(entry.model), 1),
            round(entry.accuracy / 100.0 * len(entry.answers)),
            round(entry.accuracy, 2),
            entry.paper,
        )
        for entry in contests
    ]
    rows.append(
        ("support vectors, for comparison", "nothing", *4 * (None,), round(machine, 2), None)
    )
    columns = ("dictionaries", "chosen on", "mu", "epsilon_scale", "mean size", "right of 1,559")
    return Sheet(
        "accuracy",
        "Test accuracy. The paper's figure in the last row is the best that it quotes from "
        "others (error-correcting output codes with neural networks). Support vectors are "
        "scikit-learn's `SVC(C=10)` with the rbf kernel at half the median. One standard error "
        "of a share near 96 % of 1,559 is 0.5.",
        (*columns, "accuracy %, ours", "accuracy %, paper"),
        rows,
    )


def _tried(choices: list[Choice]) -> Sheet:
    taken = best(choices)
    rows = [
        (
            "as it is" if entry.shrinkage is None else "evened",
            entry.kernel,
            entry.scale,
            round(entry.mu, 2),
            round(entry.accuracy, 2),
            "taken" if entry == taken else "",
        )
        for entry in choices
    ]
    return Sheet(
        "tried",
        "What the kernel dictionaries could choose from: mean accuracy over the four groups of "
        "training speakers, each held out once, at the best of "
        f"{len(KERNEL_MUS)} values of mu from {KERNEL_MUS[0]:.2g} to {KERNEL_MUS[-1]:.2g}.",
        ("metric", "kernel", "epsilon_scale", "best mu", "held-out accuracy %", ""),
        rows,
    )


def _letters(data: Isolet, *contests: Contest) -> Sheet:
    rows = []
    for letter in np.unique(data.y_test):
        own = data.y_test == letter
        cells: list[object] = [str(letter), int(own.sum())]
        for entry in contests:
            answers = entry.answers[own]
            wrong, counts = np.unique(answers[answers != letter], return_counts=True)
            worst = np.argsort(-counts, kind="stable")[:3]
            cells.append(int((answers == letter).sum()))
            cells.append(", ".join(f"{wrong[k]} {counts[k]}" for k in worst) or "none")
        rows.append(tuple(cells))
    return Sheet(
        "letters",
        "Right answers per letter and what it was most often taken for: linear dictionaries at "
        "mu = 4.7, and the kernel dictionaries of the last row above. The paper names "
        "B, C, D, E, G, P, T, V, Z and M, N as the hard ones.",
        ("letter", "samples", "linear right", "taken for", "kernel right", "taken for "),
        rows,
    )


def _curve_sheet(curves: dict[str, Floats]) -> Sheet:
    values = np.column_stack([CURVE_MUS, *curves.values()]).round(2)
    return Sheet(
        "accuracy-against-mu",
        "Linear dictionaries, accuracy in percent; one nested fit per letter serves all mu.",
        ("mu", *curves),
        [tuple(float(value) for value in row) for row in values],
    )


def _missed(contests: list[Contest]) -> tuple[str, ...]:
    auto = ", ".join(f"{entry.model.mu_:.2f}" for entry in contests[1:3])
    missed = [
        f"That validation chooses mu = 4.7: ours chooses {auto}. The paper does not say which "
        "part of the training set it held out.",
    ]
    last = contests[-1]
    if last.accuracy <= QUOTED_ACCURACY:
        missed.append(
            f"The quoted {QUOTED_ACCURACY} % is not exceeded: {last.accuracy:.2f} %, "
            f"{1509 - round(last.accuracy * 15.59)} letters short. Every kernel, scale and "
            "metric tried ends on the same plateau of held-out accuracy."
        )
    return tuple(missed)


# -- pictures ---------------------------------------------------------------------------------

_CONFUSION = (
    "Confusion matrices of the test set: rows are the letters spoken, columns the answers. Left "
    "the paper's classifier, right the kernel dictionaries."
)
_CURVES = (
    "Accuracy of linear dictionaries against mu. Held-out training speakers prefer small mu; the "
    "test speakers prefer the paper's 4.7 (dashed), which no choice on our held-out parts finds."
)


def _draw_confusions(data: Isolet, *contests: Contest) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 6.4), layout="constrained")
    for ax, entry in zip(figure.subplots(1, len(contests)), contests, strict=True):
        _draw_confusion(ax, data.y_test, entry)
    return figure


def _draw_confusion(ax: Axes, truth: NDArray[np.str_], entry: Contest) -> None:
    letters = np.unique(truth)
    counts = confusion_matrix(truth, entry.answers, labels=letters)
    ax.imshow(np.sqrt(counts), cmap="Blues")  # square roots, so that single errors are seen
    for i, j in zip(*np.nonzero(counts), strict=True):
        colour = "white" if counts[i, j] > 20 else "black"
        ax.text(j, i, counts[i, j], ha="center", va="center", fontsize=6, color=colour)
    ticks = range(len(letters))
    ax.set_xticks(ticks, labels=letters, fontsize=8)
    ax.set_yticks(ticks, labels=letters, fontsize=8)
    title = f"{entry.name}, mu = {entry.model.mu_:.3g}: {entry.accuracy:.2f} %"
    ax.set(xlabel="answer", ylabel="letter spoken", title=title)


def _draw_curves(curves: dict[str, Floats]) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.4), layout="constrained")
    ax = figure.subplots()
    for (name, values), style in zip(curves.items(), ("-o", "-s"), strict=True):
        ax.plot(CURVE_MUS, values, style, markersize=3, label=name)
    ax.axvline(PAPER_MU, linestyle="--", color="grey", linewidth=1)
    ax.set(xlabel="mu (units of the features)", ylabel="accuracy (%)")
    ax.set_title("ISOLET, linear dictionaries without centring")
    ax.legend()
    ax.spines[["top", "right"]].set_visible(False)
    return figure
