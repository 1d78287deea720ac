"""Draw docs/img/readme.png and print the table of README.md.

Run from anywhere: ``python docs/make_readme_picture.py``.
"""

from pathlib import Path

from matplotlib.figure import Figure
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

from isopivot import ICPQR, actual_distortion
from isopivot.plots import plot_changes, plot_embedding, plot_path

PICTURE = Path(__file__).parent / "img" / "readme.png"
MUS = ("5%", "10%", "20%", "40%", "60%")
DRAWN = "40%"


def fits():
    """Digits, their classes, and one model per tolerance, all cut from a single fit."""
    X, y = load_digits(return_X_y=True)
    finest = ICPQR(mu=MUS[0], rotate=True).fit(X)
    return X, y, {mu: finest.truncate(mu=mu) for mu in MUS}


def table():
    """Lines of the README's table: ICPQR, and PCA cut at the same dimension."""
    X, _, models = fits()
    principal = PCA(svd_solver="full").fit_transform(X)
    lines = [
        "| mu | s (of 64) | certified bound | largest change | PCA, same s: largest change |",
        "|---|---|---|---|---|",
    ]
    for percent, model in models.items():
        s = model.n_components_
        figures = (
            model.certificate_.distortion_bound,
            actual_distortion(X, model.embedding_, model.residuals_),
            actual_distortion(X, principal[:, :s]),
        )
        cells = [f"{percent} = {model.mu_:.3g}", str(s), *(f"{value:.3g}" for value in figures)]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def draw(target):
    """Three views of the digits: what mu costs, the embedding, every distance."""
    X, y, models = fits()
    drawn = models[DRAWN]
    figure = Figure(figsize=(15, 4.8), dpi=110, layout="constrained")
    left, middle, right = figure.subplots(1, 3, width_ratios=[1, 1.15, 1.15])
    plot_path(models[MUS[0]].path_, mu=[model.mu_ for model in models.values()], ax=left)
    plot_embedding(
        drawn.embedding_, drawn.dictionary_indices_, labels=y, label_name="digit", ax=middle
    )
    plot_changes(X, drawn.embedding_, drawn.certificate_, ax=right)
    for ax in (left, middle, right):
        ax.spines[["top", "right"]].set_visible(False)
    figure.suptitle(
        f"1,797 scanned digits of 64 pixels, grey 0 to 16; middle and right: "
        rf"$\mu$ = {drawn.mu_:.3g} ({DRAWN} of the largest norm), s = {drawn.n_components_}"
    )
    target.parent.mkdir(exist_ok=True)
    figure.savefig(target)


if __name__ == "__main__":
    draw(PICTURE)
    print(*table(), sep="\n")
    print(f"\nwrote {PICTURE}")
