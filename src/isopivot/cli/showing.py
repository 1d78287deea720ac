"""Commands that show: report, demo, reproduce."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from isopivot.cli import _options as o
from isopivot.cli import _progress, lacking
from isopivot.cli import _tables as tables
from isopivot.cli._errors import CommandError, Status, refusals, unwritable, usage, writing
from isopivot.cli._terminal import Output, size, working

if TYPE_CHECKING:
    from rich.table import Table

    from isopivot.demo import Row


def _need(packages: Iterable[str]) -> None:
    line = lacking(packages)
    if line:
        raise CommandError(Status.PACKAGE, line)


def report(
    model: o.ModelFile,
    data: o.Data,
    out: Annotated[
        Path, typer.Option("-o", "--out", metavar="FILE", help="HTML page to write.")
    ] = Path("report.html"),
    title: Annotated[str | None, typer.Option("--title", help="Heading of the page.")] = None,
    from_: o.From = None,
    as_json: o.Json = False,
) -> None:
    """Write one HTML page that shows the model and these rows, for any browser, offline."""
    _need(["plotly"])
    output = Output("report", as_json)
    if str(out) == "-":
        raise usage("got -o -; a report is a page, name a file such as report.html")
    tables.check_target(out, data, model)
    whole, prepared, X = tables.prepare(tables.load_model(model), data, from_, output, label=True)
    if hasattr(whole.estimator, "estimators_"):
        raise usage(
            f"{model} is a classifier, and reports show one dictionary; fit without --label"
        )
    from isopivot.report import write

    with writing(out), refusals(), working(f"drawing {X.shape[0]} rows"):
        write(
            whole.estimator,
            X,
            out,
            names=prepared.ids.tolist(),
            labels=None if prepared.labels is None else prepared.labels.tolist(),
            title=title or f"{data.name}: {type(whole.estimator).__name__}",
        )
    facts = {"model": model, "data": data, "out": out, "rows": X.shape[0]}
    output.finish(facts, [f"Report: {out} ({size(out.stat().st_size)})"])


# -- reproduce ----------------------------------------------------------------------------


def reproduce(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME...",
            show_default=False,
            help="toy, swiss-roll, isolet, kdd99, or all.",
        ),
    ],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder, made if absent.")],
    as_json: o.Json = False,
) -> None:
    """Run the paper's experiments again; write tables, pictures and a page."""
    _need(["matplotlib"])
    from isopivot import experiments

    output = Output("reproduce", as_json)
    unknown = [name for name in names if name not in (*experiments.NAMES, "all")]
    if unknown:
        allowed = ", ".join(experiments.NAMES)
        raise usage(f"got the experiment {unknown[0]!r}; choose among {allowed} and all")
    tables.make_folder(out)
    try:
        files = experiments.reproduce(names, out, _progress)
    except OSError as error:
        if error.errno is None:  # a data set that cannot be had, in a sentence
            raise CommandError(Status.DATA, str(error)) from error
        raise unwritable(out, error) from error
    facts = {"experiments": names, "out": out, "files": [str(path) for path in files]}
    output.finish(facts, [*(f"  {path}" for path in files[:-1]), f"Page: {files[-1]}"])


# -- demo ---------------------------------------------------------------------------------


def demo(
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Folder for the pictures, made if absent.")
    ] = Path("demo"),
    as_json: o.Json = False,
) -> None:
    """Fit bundled data, print the certificates, draw the pictures."""
    _need(["matplotlib"])
    from isopivot import demo as demonstration

    output = Output("demo", as_json)
    tables.make_folder(out)
    # It prints a table of its own.
    quiet = contextlib.redirect_stdout(io.StringIO()) if as_json else contextlib.nullcontext()
    try:
        with quiet:
            rows = demonstration.run(out, _progress)
    except OSError as error:
        raise unwritable(out, error) from error
    pictures = [str(path) for path in demonstration.pictures(out)]
    if not as_json:
        _print_tables(rows)
    facts = {"out": out, "rows": [asdict(row) for row in rows], "pictures": pictures}
    output.finish(facts, ["Pictures:", *(f"  {path}" for path in pictures)])


def _print_tables(rows: list[Row]) -> None:
    from rich.console import Console

    from isopivot import demo as demonstration

    console = Console(highlight=False, soft_wrap=True)
    for case in demonstration.cases():
        console.print(f"{case.name}: {case.description}")
    console.print(_table(rows))


def _table(rows: list[Row]) -> Table:
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


def _cells(row: Row) -> tuple[str, ...]:
    return (
        row.data,
        f"{row.mu:.3g} ({row.percent})",
        f"{row.n_components} of {row.n_features}",
        f"{row.bound:.4g}",
        f"{row.distortion:.4g}",
        f"{row.how} {1e3 * row.seconds:.1f} ms",
    )
