"""The ``isopivot`` command. Needs the extra ``cli``: ``pip install ".[cli]"``."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable
from importlib.util import find_spec

NEEDED = ("typer", "rich", "pandas")
PACKAGE_MISSING = 6


def main() -> None:
    """Run the command line; the console script ``isopivot`` points here."""
    line = lacking(NEEDED)
    if line:
        print(f"isopivot: {line}", file=sys.stderr)
        raise SystemExit(PACKAGE_MISSING)
    # Importing makes objects by the hundred thousand, none of them garbage: looking for some,
    # then and at the end, took a quarter of the time of a short command.
    gc.set_threshold(100_000)
    # What follows needs those packages.
    from isopivot.cli._app import build_app
    from isopivot.cli._errors import run

    status = run(build_app, sys.argv[1:])
    gc.freeze()
    raise SystemExit(status)


def lacking(packages: Iterable[str]) -> str:
    """Return what to say about packages that are not installed; nothing where all are."""
    missing = [name for name in packages if find_spec(name) is None]
    if not missing:
        return ""
    return f"the command line needs {', '.join(missing)}; pip install {' '.join(missing)}"


def _progress(message: str) -> None:
    if sys.stderr.isatty():
        print(message, file=sys.stderr)
