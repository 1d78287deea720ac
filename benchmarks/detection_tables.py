"""The detection benchmark's results as Markdown and as pictures."""

import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import rankdata, wilcoxon

Row = dict[str, Any]
TOP = 25  # cells of the grid in the table; the CSV has them all
MARKS = {"rbf": "o", "exponential": "s", "laplacian": "^", "matern32": "D"}
CONTEST_NOTES = """\
- AUC: area under the ROC curve; AP: average precision; means over sets of the means over seeds.
  Spread: smallest and largest over the seeds of the mean AUC over the sets.
- Rank: of the mean AUC within a set, 1 is best, ties share; mean over the sets. A variant of ours
  is ranked among the peers and itself only, and a peer among the peers and our default, so that
  our variants do not push each other, or the peers, down.
- Wins: sets on which the default has the larger AUC than this peer, of all sets.
- Times: per set the median over the seeds, added up over the sets. Read them as ratios.
- Share: dictionary size over training rows, mean over sets and seeds.
- Linear residuals (ICPQR, PCA) under 1e-12 of a row's norm are rounding errors and count as zero.
- A contestant that fails, or returns scores that are not finite, counts as AUC 0.5 and AP = share
  of anomalies on that set and seed, and is named below.\
"""
GRID_NOTES = """\
- One fit per kernel and scale at the smallest mu; the larger ones are truncations of it.
- Rank: mean over the sets of the rank of the cell's AUC among the peers (same seeds) and itself;
  "-" unless the contest is run with it (--all).\
"""


def head(surroundings: dict[str, Any], sets: list[str]) -> str:
    """Versions and machine."""
    versions = ", ".join(f"{name} {number}" for name, number in surroundings["versions"].items())
    pools = ", ".join(
        f"{pool['library']} ({pool['num_threads']} threads)"
        for pool in surroundings["thread_pools"]
    )
    return (
        f"Python {surroundings['python']}, {versions}, PyOD {_pyod()}.  \n"
        f"{surroundings['cpu']}, {surroundings['cpus_allowed']} of {surroundings['cpu_count']} "
        f"processors, load {surroundings['load_average_at_start']:.1f} at the start.  \n"
        f"BLAS: {pools}.  \n{len(sets)} sets.\n\n"
    )


def _pyod() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("pyod")
    except PackageNotFoundError:
        return "not installed"


def table(columns: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    """Markdown; everything but the first column is right-aligned."""
    columns = list(columns)
    lines = [columns, ["---"] + ["---:"] * (len(columns) - 1), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines) + "\n"


def per_set(rows: list[Row], key: str, value: Callable[[list[float]], float]) -> dict[str, float]:
    """One number per set: `value` of what the seeds gave, in the order of the sets."""
    found = defaultdict(list)
    for row in rows:
        found[row["set"]].append(row[key])
    return {name: value(values) for name, values in found.items()}


def mean_rank(mine: dict[str, float], others: list[dict[str, float]]) -> float:
    """Mean over the sets of the rank of `mine` among `others` and itself; 1 is best."""
    ranks = [rankdata([-mine[s], *(-other[s] for other in others)])[0] for s in mine]
    return float(np.mean(ranks))


def _ours(name: str) -> bool:
    return name.startswith(("KernelICPQR", "ICPQR"))


def _by_contestant(rows: list[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        found[row["contestant"]].append(row)
    return dict(found)


# -- all contestants ------------------------------------------------------------------------------


def summary(rows: list[Row]) -> list[Row]:
    """One row per contestant, the largest mean AUC first."""
    groups = _by_contestant(rows)
    aucs = {name: per_set(group, "auc", statistics.fmean) for name, group in groups.items()}
    default = next(iter(aucs))
    peers = [name for name in aucs if not _ours(name)]
    lines = []
    for name, group in groups.items():
        pool = peers if _ours(name) else [default, *(p for p in peers if p != name)]
        seeds = defaultdict(list)
        for row in group:
            seeds[row["seed"]].append(row["auc"])
        means = [statistics.fmean(values) for values in seeds.values()]
        lines.append(
            {
                "name": name,
                "auc": statistics.fmean(aucs[name].values()),
                "spread": (min(means), max(means)),
                "ap": statistics.fmean(per_set(group, "ap", statistics.fmean).values()),
                "rank": mean_rank(aucs[name], [aucs[other] for other in pool]),
                "wins": sum(aucs[default][s] > aucs[name][s] for s in aucs[name]),
                "fit_s": sum(per_set(group, "fit_s", np.nanmedian).values()),
                "score_s": sum(per_set(group, "score_s", np.nanmedian).values()),
                "share": float(np.mean([row["share"] for row in group])),
            }
        )
    return sorted(lines, key=lambda line: -line["auc"])


def ours_as_default(rows: list[Row]) -> list[Row]:
    """Each KernelICPQR beside the peers alone: is it first in AUC and in rank?"""
    groups = _by_contestant(rows)
    aucs = {name: per_set(group, "auc", statistics.fmean) for name, group in groups.items()}
    peers = {name: found for name, found in aucs.items() if not _ours(name)}
    strongest = max(peers, key=lambda name: statistics.fmean(peers[name].values()))
    lines = []
    for name, mine in aucs.items():
        if not name.startswith("KernelICPQR"):
            continue
        beside = {
            p: mean_rank(peers[p], [mine, *(peers[q] for q in peers if q != p)]) for p in peers
        }
        ahead = [mine[s] - peers[strongest][s] for s in mine]
        first = min(beside, key=lambda p: beside[p])
        lines.append(
            {
                "name": name,
                "auc": statistics.fmean(mine.values()),
                "rank": mean_rank(mine, list(peers.values())),
                "best_peer": f"{beside[first]:.2f} ({first})",
                "strongest": strongest,
                "wins": sum(difference > 0 for difference in ahead),
                "p": wilcoxon(ahead).pvalue if any(ahead) else 1.0,
            }
        )
    return sorted(lines, key=lambda line: -line["auc"])


def _ours_table(rows: list[Row]) -> str:
    lines = ours_as_default(rows)
    strongest = lines[0]["strongest"]
    columns = ["setting", "AUC", "rank", "best rank of a peer", f"sets won from {strongest}"]
    cells = [
        [
            x["name"],
            f"{x['auc']:.4f}",
            f"{x['rank']:.2f}",
            x["best_peer"],
            x["wins"],
            f"{x['p']:.2f}",
        ]
        for x in lines
    ]
    return table([*columns, "p (Wilcoxon)"], cells)


def contest(rows: list[Row], unseen: list[int]) -> str:
    """Overall table, ours beside the peers, tables per set, failures."""
    columns = ["contestant", "AUC", "spread", "AP", "rank", "wins of the default"]
    columns += ["fit s", "score s", "share"]
    lines = summary(rows)
    default = rows[0]["contestant"]
    n_sets = len({row["set"] for row in rows})
    cells = [
        [
            f"**{line['name']}**" if line["name"] == default else line["name"],
            f"{line['auc']:.4f}",
            f"{line['spread'][0]:.4f}-{line['spread'][1]:.4f}",
            f"{line['ap']:.4f}",
            f"{line['rank']:.2f}",
            "" if line["name"] == default else f"{line['wins']} of {n_sets}",
            f"{line['fit_s']:.2f}",
            f"{line['score_s']:.2f}",
            "-" if np.isnan(line["share"]) else f"{line['share']:.3f}",
        ]
        for line in lines
    ]
    seeds = sorted({row["seed"] for row in rows})
    parts = [f"## Overall, seeds {', '.join(map(str, seeds))}\n", table(columns, cells)]
    parts += [CONTEST_NOTES, "", _failures(rows)]
    parts += ["## Each setting of ours as the only one\n", _ours_table(rows)]
    if unseen:
        fresh = [row for row in rows if row["seed"] in unseen]
        title = f"## The same on seeds {', '.join(map(str, unseen))}, which the grid did not use\n"
        parts += [title, _ours_table(fresh)]
    for key, title in (("auc", "ROC-AUC"), ("ap", "Average precision")):
        parts += [f"## {title} per set\n", _per_set_table(rows, key, [x["name"] for x in lines])]
    return "\n".join(parts)


def _failures(rows: list[Row]) -> str:
    failed = [row for row in rows if row["failed"]]
    if not failed:
        return "No contestant failed.\n"
    columns = ["contestant", "set", "seed", "what"]
    cells = [[r["contestant"], r["set"], r["seed"], r["failed"]] for r in failed]
    return "Failures:\n\n" + table(columns, cells)


def _per_set_table(rows: list[Row], key: str, names: list[str]) -> str:
    groups = _by_contestant(rows)
    columns = {name: per_set(groups[name], key, statistics.fmean) for name in names}
    cells = []
    for s in next(iter(columns.values())):
        values = [columns[name][s] for name in names]
        best = max(values)
        cells.append([s, *(f"**{v:.3f}**" if v == best else f"{v:.3f}" for v in values)])
    return table(["set", *names], cells)


def draw_contest(rows: list[Row], path: Path) -> None:
    """Mean AUC and mean rank of everybody."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    lines = summary(rows)[::-1]
    default = rows[0]["contestant"]
    colors = ["C3" if x["name"] == default else "C1" if _ours(x["name"]) else "C7" for x in lines]
    figure, axes = plt.subplots(1, 2, figsize=(11, 6), sharey=True, layout="constrained")
    places = np.arange(len(lines))
    # Dots, since an axis of areas under curves need not begin at zero; bars for ranks.
    axes[0].scatter([line["auc"] for line in lines], places, c=colors)
    axes[0].hlines(places, *zip(*(line["spread"] for line in lines), strict=True), colors)
    axes[0].set_xlabel("mean ROC-AUC (line: range over seeds)")
    axes[1].barh(places, [line["rank"] for line in lines], color=colors)
    axes[1].set_xlabel("mean rank (1 is best)")
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_yticks(places, [line["name"] for line in lines])
    n_sets = len({row["set"] for row in rows})
    figure.suptitle(f"Novelty detection on {n_sets} ADBench sets (red: our default)")
    figure.savefig(path, dpi=120)
    plt.close(figure)


# -- the grid -------------------------------------------------------------------------------------


def cells(rows: list[Row], peers: list[Row]) -> list[Row]:
    """One row per kernel, scale and mu, the largest mean AUC first."""
    found = defaultdict(list)
    for row in rows:
        found[row["kernel"], row["epsilon_scale"], row["mu"]].append(row)
    others = _peer_aucs(rows, peers)
    lines = []
    for (kernel, scale, mu), group in found.items():
        aucs = per_set(group, "auc", statistics.fmean)
        lines.append(
            {
                "kernel": kernel,
                "epsilon_scale": scale,
                "mu": mu,
                "auc": statistics.fmean(aucs.values()),
                "ap": statistics.fmean(per_set(group, "ap", statistics.fmean).values()),
                "share": statistics.fmean(per_set(group, "share", statistics.fmean).values()),
                "rank": mean_rank(aucs, others) if others else np.nan,
            }
        )
    return sorted(lines, key=lambda line: -line["auc"])


def _peer_aucs(rows: list[Row], peers: list[Row]) -> list[dict[str, float]]:
    """AUC per set of each peer on the very sets and seeds of the grid; none unless complete."""
    wanted = {(row["set"], row["seed"]) for row in rows}
    groups = _by_contestant([p for p in peers if (p["set"], p["seed"]) in wanted])
    groups = {name: group for name, group in groups.items() if not _ours(name)}
    if any(len(group) != len(wanted) for group in groups.values()):
        return []
    return [per_set(group, "auc", statistics.fmean) for group in groups.values()]


def left_out(rows: list[Row]) -> tuple[float, dict[tuple, int]]:
    """Mean AUC when each set is judged by the cell that is best on all the others.

    What choosing on these very sets flatters: compare it with the best cell's mean.
    """
    sets = list(dict.fromkeys(row["set"] for row in rows))
    found = defaultdict(list)
    for row in rows:
        found[row["kernel"], row["epsilon_scale"], row["mu"], row["set"]].append(row["auc"])
    keys = list(dict.fromkeys(key[:3] for key in found))
    aucs = np.array([[statistics.fmean(found[(*key, s)]) for s in sets] for key in keys])
    best = [int(np.argmax(aucs.sum(axis=1) - aucs[:, j])) for j in range(len(sets))]
    chosen: dict[tuple, int] = defaultdict(int)
    for i in best:
        chosen[keys[i]] += 1
    return float(np.mean([aucs[i, j] for j, i in enumerate(best)])), dict(chosen)


def grid(rows: list[Row], peers: list[Row]) -> str:
    """The best cells, then AUC and share over scale and mu for each kernel."""
    lines = cells(rows, peers)
    columns = ["kernel", "epsilon_scale", "mu", "AUC", "AP", "share", "rank"]
    top = [
        [
            x["kernel"],
            f"{x['epsilon_scale']:g}",
            f"{x['mu']:g}",
            f"{x['auc']:.4f}",
            f"{x['ap']:.4f}",
            f"{x['share']:.3f}",
            "-" if np.isnan(x["rank"]) else f"{x['rank']:.2f}",
        ]
        for x in lines[:TOP]
    ]
    seeds = ", ".join(str(s) for s in sorted({row["seed"] for row in rows}))
    parts = [f"## The {TOP} best of {len(lines)} cells, seeds {seeds}\n", table(columns, top)]
    parts += [GRID_NOTES, "", _left_out_line(rows, lines[0]["auc"])]
    for kernel in dict.fromkeys(row["kernel"] for row in rows):
        parts += [
            f"## {kernel}: AUC (share)\n",
            _plane([x for x in lines if x["kernel"] == kernel]),
        ]
    return "\n".join(parts)


def _left_out_line(rows: list[Row], best: float) -> str:
    if len({row["set"] for row in rows}) < 2:
        return ""
    mean, chosen = left_out(rows)
    names = "; ".join(f"{k}, {e:g}, mu {m:g}: {n} times" for (k, e, m), n in chosen.items())
    return (
        f"Choosing on all sets but one and testing on that one gives a mean AUC of {mean:.4f} "
        f"(the best cell: {best:.4f}); chosen were {names}.\n"
    )


def _plane(lines: list[Row]) -> str:
    mus = sorted({line["mu"] for line in lines})
    at = {(x["epsilon_scale"], x["mu"]): f"{x['auc']:.4f} ({x['share']:.2f})" for x in lines}
    scales = sorted({line["epsilon_scale"] for line in lines})
    rows = [[f"{scale:g}", *(at[scale, mu] for mu in mus)] for scale in scales]
    return table(["epsilon_scale", *(f"mu {mu:g}" for mu in mus)], rows)


def draw_grid(rows: list[Row], peers: list[Row], path: Path) -> None:
    """Mean AUC against mean dictionary share, with the best peers as lines."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    lines = cells(rows, peers)
    figure, axis = plt.subplots(figsize=(8, 5.5), layout="constrained")
    for number, kernel in enumerate(dict.fromkeys(row["kernel"] for row in rows)):
        scales = sorted({x["epsilon_scale"] for x in lines if x["kernel"] == kernel})
        for depth, scale in enumerate(scales):
            path_ = sorted(
                (x for x in lines if x["kernel"] == kernel and x["epsilon_scale"] == scale),
                key=lambda x: x["mu"],
            )
            axis.plot(
                [x["share"] for x in path_],
                [x["auc"] for x in path_],
                marker=MARKS[kernel],
                color=f"C{number}",
                alpha=0.3 + 0.7 * depth / max(1, len(scales) - 1),
                markersize=4,
                linewidth=1,
                label=kernel if depth == len(scales) - 1 else None,
            )
    means = _peer_means(rows, peers)
    for name, auc in means[:1] + [pair for pair in means[1:] if pair[0] == "LOF"]:
        axis.axhline(auc, color="C7", linestyle=":", linewidth=1)
        axis.text(0.01, auc, name, color="C7", fontsize=8, va="bottom")
    axis.set(xlabel="dictionary size / training rows", ylabel="mean ROC-AUC", xlim=(0, 1))
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False, loc="lower right")
    axis.set_title("One line per kernel and scale (fainter: smaller), mu grows to the left")
    figure.savefig(path, dpi=120)
    plt.close(figure)


def _peer_means(rows: list[Row], peers: list[Row]) -> list[tuple[str, float]]:
    wanted = {(row["set"], row["seed"]) for row in rows}
    groups = _by_contestant([p for p in peers if (p["set"], p["seed"]) in wanted])
    means = [
        (name, statistics.fmean(row["auc"] for row in group))
        for name, group in groups.items()
        if not _ours(name) and len(group) == len(wanted)
    ]
    return sorted(means, key=lambda pair: -pair[1])


# -- conformal calibration ------------------------------------------------------------------------


def conformal(rows: list[Row]) -> str:
    """All sets for the first seed, then what all seeds add up to."""
    columns = ["set", "rate", "n_cal", "n_test", "k", "alarms", "limit", "ok"]
    first = rows[0]["seed"]
    cells = [
        [f"{row[c]:.0%}" if c == "rate" else _yes(row[c]) for c in columns]
        for row in rows
        if row["seed"] == first
    ]
    seeds = ", ".join(str(s) for s in sorted({row["seed"] for row in rows}))
    parts = [f"## Seeds {seeds} together\n", _conformal_summary(rows)]
    parts += [f"## Each set, seed {first}\n", table(columns, cells)]
    return "\n".join(parts)


def _yes(value: Any) -> Any:
    return {True: "yes", False: "NO"}[value] if isinstance(value, bool) else value


def _conformal_summary(rows: list[Row]) -> str:
    columns = ["asked", "runs", "sets", "fresh rows", "alarms", "share", "mean share", "over limit"]
    cells = []
    for rate in sorted({row["rate"] for row in rows}):
        group = [row for row in rows if row["rate"] == rate]
        n_test, alarms = sum(r["n_test"] for r in group), sum(r["alarms"] for r in group)
        mean = statistics.fmean(r["alarms"] / r["n_test"] for r in group)
        cells.append(
            [
                f"{rate:.0%}",
                len(group),
                len({r["set"] for r in group}),
                n_test,
                alarms,
                f"{alarms / n_test:.2%}",
                f"{mean:.2%}",
                sum(not r["ok"] for r in group),
            ]
        )
    return table(columns, cells)
