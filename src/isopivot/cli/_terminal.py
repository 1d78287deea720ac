"""What commands say and show: results, notices, JSON, progress on a terminal."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

Progress = Callable[[int, int | None], object]


def one_line(text: object) -> str:
    """Return text on one line, with control characters spelled out: files may hold any."""
    line = " ".join(str(text).split())
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in line)


def size(n_bytes: int) -> str:
    """Return the size of a file in words."""
    return f"{max(1, round(n_bytes / 1000))} kB"


@dataclass
class Output:
    """Where a command's words go.

    Parameters
    ----------
    command : str
        Its name.
    as_json : bool
        Whether standard output gets one JSON object instead of words.
    table : str, optional
        Where the command's table goes; if to standard output, words go to standard error.
    """

    command: str
    as_json: bool
    table: str | None = None
    notices: list[str] = field(default_factory=list)

    def notice(self, texts: Iterable[str]) -> None:
        """Tell what was done beyond the expected."""
        for text in texts:
            self.notices.append(text)
            if not self.as_json:
                print(f"note: {one_line(text)}", file=sys.stderr)

    @property
    def place(self) -> str:
        """The end of a sentence: where the table is, if in a file."""
        return "." if self.table in (None, "-") else f": {self.table}"

    def finish(self, facts: Mapping[str, Any], words: Iterable[str]) -> None:
        """Print the result: `facts` as JSON, or `words`."""
        if self.as_json:
            answer = {"command": self.command, **facts, "notices": self.notices}
            print(json.dumps(answer, allow_nan=False, default=_plain))
            return
        target = sys.stderr if self.table == "-" else sys.stdout
        for line in words:
            print("".join(c if c.isprintable() else ascii(c)[1:-1] for c in line), file=target)


def _plain(value: Any) -> Any:
    """Return NumPy's scalars and arrays, and paths, as JSON has them."""
    return value.tolist() if hasattr(value, "tolist") else str(value)


@contextlib.contextmanager
def working(text: str) -> Iterator[Progress]:
    """Show on a terminal what is being done, and give what to report progress to."""
    if not sys.stderr.isatty():
        yield lambda done, most: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    description = TextColumn("{task.description}", markup=False)
    columns = (SpinnerColumn(), description, BarColumn(), TimeElapsedColumn())
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task(one_line(text), total=None)

        def report(done: int, most: int | None) -> None:
            bars.update(task, completed=done, total=most)
            if most is None:
                bars.update(task, description=f"{one_line(text)}, panel {done}")

        yield report


class PanelCounter:
    """A scikit-learn callback that reports every panel of a fit."""

    def __init__(self, report: Progress) -> None:
        self._report, self._done = report, 0

    def setup(self, estimator: Any, context: Any) -> None:
        """Do nothing."""

    def teardown(self, estimator: Any, context: Any) -> None:
        """Do nothing."""

    def on_fit_task_begin(self, estimator: Any, context: Any, **_: Any) -> None:
        """Do nothing."""

    def on_fit_task_end(self, estimator: Any, context: Any, **_: Any) -> bool:
        """Count a panel; never ask to stop."""
        self._done += 1
        self._report(self._done, None)
        return False
