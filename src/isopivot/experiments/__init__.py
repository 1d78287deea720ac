"""The paper's experiments, run again: figures and tables beside the published ones.

Each module has ``run(report, **sizes) -> Result``; `reproduce` runs them and writes a folder
with tables, pictures and a page that shows all of it. Needs matplotlib.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from pathlib import Path

from isopivot.experiments._book import Result, write

__all__ = ["NAMES", "reproduce", "run"]

MODULES = {
    "toy": "isopivot.experiments.toy",
    "swiss-roll": "isopivot.experiments.swiss_roll",
    "isolet": "isopivot.experiments.isolet",
    "kdd99": "isopivot.experiments.kdd99",
}
NAMES = tuple(MODULES)


def run(name: str, report: Callable[[str], None]) -> Result:
    """Run one experiment at the paper's size.

    Parameters
    ----------
    name : str
        One of `NAMES`.
    report : callable
        Told, in a sentence, what is being done.

    Returns
    -------
    Result
        Tables, pictures and what was not reproduced.
    """
    result: Result = import_module(MODULES[_known(name)]).run(report)
    return result


def reproduce(names: Iterable[str], out: Path | str, report: Callable[[str], None]) -> list[Path]:
    """Run experiments and write what they find to a folder.

    Parameters
    ----------
    names : iterable of str
        From `NAMES`; ``"all"`` stands for all of them. Each runs once, in the order of `NAMES`.
    out : path
        Folder, made if absent; experiments already in it stay on its ``index.html``.
    report : callable
        Told, in a sentence, what is being done.

    Returns
    -------
    list of Path
        The files written, ``index.html`` last.
    """
    wanted = set()
    for name in names:
        wanted |= set(NAMES) if name == "all" else {_known(name)}
    results: Iterator[Result] = (run(name, report) for name in NAMES if name in wanted)
    return write(results, out, order=NAMES)


def _known(name: str) -> str:
    if name not in MODULES:
        raise ValueError(
            f"got the experiment {name!r}; allowed are {', '.join(NAMES)} and all; "
            "choose one of these"
        )
    return name
