"""The application: its commands, and an example of each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from isopivot.cli import answering, certifying, fitting, showing
from isopivot.cli._errors import STATUSES

COMMANDS: dict[Callable[..., None], tuple[str, ...]] = {
    fitting.fit: (
        "isopivot fit data.csv --mu 5% --model data.isopivot --id name --standardize",
        "isopivot fit train.parquet --label species --model flowers.isopivot",
        "isopivot fit train.csv --kernel rbf --mu 0.1 --model detector.isopivot",
    ),
    answering.transform: ("isopivot transform data.isopivot new.csv -o coordinates.csv",),
    answering.score: (
        "isopivot score detector.isopivot new.csv -o scores.csv",
        "isopivot score detector.isopivot new.csv -o scores.csv --false-alarm-rate 1% "
        "--calibrate normal.csv --save-model detector.isopivot",
    ),
    answering.classify: ("isopivot classify flowers.isopivot new.csv -o classes.csv",),
    answering.explain: ("isopivot explain detector.isopivot new.csv --row 17",),
    fitting.landmarks: (
        "isopivot landmarks data.csv -n 50 --id name",
        "isopivot landmarks data.csv --mu 5% -o landmarks.csv",
    ),
    certifying.certify: ("isopivot certify data.isopivot data.csv",),
    showing.report: ("isopivot report data.isopivot data.csv -o report.html",),
    showing.demo: ("isopivot demo --out pictures",),
    showing.reproduce: ("isopivot reproduce toy swiss-roll --out book",),
}


def build_app() -> typer.Typer:
    """Build the typer application."""
    app = typer.Typer(
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    # Paragraphs of an epilog are separated by blank lines, its lines are joined.
    app.callback(
        epilog="Examples:\n\nisopivot fit data.csv --mu 5% --model data.isopivot\n\n"
        f"isopivot demo --out pictures\n\n{STATUSES}"
    )(_isopivot)
    for command, examples in COMMANDS.items():
        title = "Example:" if len(examples) == 1 else "Examples:"
        app.command(epilog="\n\n".join((title, *examples, STATUSES)))(command)
    return app


def _show_version(wanted: bool) -> None:
    if wanted:
        from isopivot import __version__

        typer.echo(f"isopivot {__version__}")
        raise typer.Exit


def _isopivot(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of an error, too.")
    ] = False,
) -> None:
    """Reduce dimensions with a certificate on every pairwise distance.

    Tables are CSV, TSV, Parquet, Feather, NPY or NPZ files; - is CSV through a pipe.
    """
