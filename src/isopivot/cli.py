"""The ``isopivot`` command. Needs the extras ``cli`` and ``plot``: ``pip install ".[all]"``."""

import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

from isopivot import __version__

if TYPE_CHECKING:
    import typer
    from rich.table import Table

    from isopivot.demo import Row

NEEDED = ("typer", "rich", "matplotlib")


def main() -> None:
    """Run the command line; the console script ``isopivot`` points here."""
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        _fail(f"the command line needs {', '.join(missing)}", f"pip install {' '.join(missing)}")
    build_app()()


def build_app() -> "typer.Typer":
    """Build the typer application; typer is imported here so that ``main`` can do without."""
    import typer

    app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)

    def show_version(wanted: bool) -> None:
        if wanted:
            typer.echo(f"isopivot {__version__}")
            raise typer.Exit

    # With a callback a lone command stays a subcommand: `isopivot demo`, not `isopivot`.
    @app.callback()
    def isopivot(
        show: Annotated[
            bool,
            typer.Option(
                "--version",
                callback=show_version,
                is_eager=True,
                help="Print the version and exit.",
            ),
        ] = False,
    ) -> None:
        """Reduce dimensions with a certificate on every pairwise distance.

        Example: isopivot demo --out pictures
        """

    @app.command()
    def demo(
        out: Annotated[Path, typer.Option(help="Folder for the pictures, made if absent.")] = Path(
            "demo"
        ),
    ) -> None:
        """Fit bundled data, print the certificates, draw the pictures.

        Example: isopivot demo --out pictures
        """
        run_demo(out)

    return app


def run_demo(out: Path) -> None:
    """Print the demonstration's table and where its pictures are."""
    from rich.console import Console

    from isopivot import demo

    try:
        _make_writable(out)
        rows = demo.run(out, _progress)
    except OSError as error:
        _fail(
            f"cannot write to {str(out)!r}: {error.strerror or error}",
            "choose a folder you may write to with --out DIR",
        )
    console = Console(highlight=False, soft_wrap=True)
    for case in demo.cases():
        console.print(f"{case.name}: {case.description}")
    console.print(_table(rows))
    console.print("Pictures:")
    for picture in demo.pictures(out):
        console.print(f"  {picture}", markup=False)


def _make_writable(out: Path) -> None:
    """Find out before the work, not after it, that the folder cannot be written."""
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=out):
        pass


def _progress(message: str) -> None:
    if sys.stderr.isatty():
        print(message, file=sys.stderr)


def _table(rows: "list[Row]") -> "Table":
    from rich.table import Table

    table = Table(
        title="Change of pairwise distances: certified and measured, in units of the data",
        caption="mu (% of the largest norm); fit: once per data set; cut: truncate() of that fit",
        title_style="bold",
    )
    table.add_column("data", no_wrap=True)
    for heading in ("mu", "s", "certified\nbound", "largest\nchange", "time"):
        table.add_column(heading, justify="right", no_wrap=True)
    for previous, row in zip([None, *rows], rows, strict=False):
        if previous is not None and previous.data != row.data:
            table.add_section()
        table.add_row(*_cells(row))
    return table


def _cells(row: "Row") -> tuple[str, ...]:
    return (
        row.data,
        f"{row.mu:.3g} ({row.percent})",
        f"{row.n_components} of {row.n_features}",
        f"{row.bound:.4g}",
        f"{row.distortion:.4g}",
        f"{row.how} {1e3 * row.seconds:.1f} ms",
    )


def _fail(got: str, remedy: str) -> NoReturn:
    print(f"isopivot: {got}; {remedy}", file=sys.stderr)
    raise SystemExit(1)


if __name__ == "__main__":
    main()
