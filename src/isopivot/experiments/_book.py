"""Writes what an experiment found: Markdown, CSV, pictures, and one page that shows it all.

Every experiment leaves in the folder

    NAME.md              the text, the tables, the pictures, and what was not reproduced
    NAME-SHEET.csv       every table in full
    NAME-PICTURE.png     every picture, and the same as .svg
    NAME.json            what index.html needs, so that experiments run one at a time add up
    index.html           everything in the folder, on one page

The same results give the same bytes.
"""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from isopivot.experiments._render import Cell, Page, file_name, to_html, to_markdown

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Picture", "Result", "Sheet", "write"]

FORMAT = "isopivot experiment 1"
LONGEST = 40  # rows of a table shown on a page; the CSV has all
PNG_DPI = 110
SLUG = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


@dataclass(frozen=True)
class Sheet:
    """A table: figures of the paper and ours stand in columns of their own, side by side.

    Attributes
    ----------
    name : str
        Part of the file name: lower-case words joined by hyphens.
    caption : str
        One or two sentences; ``code`` in backticks is understood.
    columns : tuple of str
        Headings.
    rows : list of tuple
        Cells: text, integers, floats (shown with four digits), booleans, or None (no figure).
    """

    name: str
    caption: str
    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]

    def __post_init__(self) -> None:
        _check_name("sheet", self.name)
        for number, row in enumerate(self.rows):
            if len(row) != len(self.columns):
                raise ValueError(
                    f"got {len(row)} cells in row {number} of sheet {self.name!r}; allowed is "
                    f"one per column, {len(self.columns)}; mend the row"
                )


@dataclass(frozen=True, eq=False)
class Picture:
    """A matplotlib figure, made outside pyplot, with the words to stand under it."""

    name: str
    caption: str
    figure: Figure

    def __post_init__(self) -> None:
        _check_name("picture", self.name)


@dataclass(frozen=True, eq=False)
class Result:
    """What one experiment found.

    Attributes
    ----------
    name : str
        That of the experiment, as on the command line.
    title : str
        Heading.
    text : str
        Paragraphs, separated by empty lines; ``code`` in backticks is understood.
    sheets, pictures : tuple
        Tables and figures, in the order of showing.
    not_reproduced : tuple of str
        Each figure or claim of the paper that was not reproduced, with the reason.
    """

    name: str
    title: str
    text: str
    sheets: tuple[Sheet, ...]
    pictures: tuple[Picture, ...]
    not_reproduced: tuple[str, ...]

    def __post_init__(self) -> None:
        _check_name("result", self.name)
        for kind, parts in (("sheet", self.sheets), ("picture", self.pictures)):
            names = [part.name for part in parts]
            twice = sorted({name for name in names if names.count(name) > 1})
            if twice:
                raise ValueError(
                    f"got the {kind} name {twice[0]!r} twice in {self.name!r}; allowed is one "
                    f"{kind} per name; rename one"
                )


def write(results: Iterable[Result], out: Path | str, *, order: Sequence[str] = ()) -> list[Path]:
    """Write the results to a folder and rebuild its ``index.html`` from all that is there.

    Parameters
    ----------
    results : iterable of Result
        Written one by one as they come.
    out : path
        Folder, made if absent. Files of the same experiments are replaced, others kept.
    order : sequence of str, default=()
        Names in the order of the page; experiments not named follow by name.

    Returns
    -------
    list of Path
        The files written, ``index.html`` last; it is current after every experiment.
    """
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    index = folder / "index.html"
    written: list[Path] = []
    for result in results:
        page = _page(result)
        for sheet in result.sheets:
            written.append(_write_csv(sheet, folder / file_name(result.name, sheet.name, "csv")))
        for picture in result.pictures:
            written += _write_picture(picture, folder / file_name(result.name, picture.name, "png"))
        written.append(_write_text(folder / f"{result.name}.md", to_markdown(page)))
        body = json.dumps(page, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
        written.append(_write_text(folder / f"{result.name}.json", body))
        _write_text(index, to_html(_pages(folder, order)))
    if not written:
        _write_text(index, to_html(_pages(folder, order)))
    return [*written, index]


def _check_name(kind: str, name: str) -> None:
    if not SLUG.fullmatch(name):
        raise ValueError(
            f"got the {kind} name {name!r}; allowed are lower-case letters and digits in words "
            "joined by hyphens; rename it"
        )


# -- what is kept of a result -----------------------------------------------------------------


def _page(result: Result) -> Page:
    """Return the result as JSON, tables cut to the rows that are shown."""
    sheets = [
        {
            "name": sheet.name,
            "caption": sheet.caption,
            "columns": list(sheet.columns),
            "rows": [[_plain(cell) for cell in row] for row in sheet.rows[:LONGEST]],
            "n_rows": len(sheet.rows),
        }
        for sheet in result.sheets
    ]
    pictures = [{"name": part.name, "caption": part.caption} for part in result.pictures]
    return {
        "format": FORMAT,
        "name": result.name,
        "title": result.title,
        "text": result.text,
        "sheets": sheets,
        "pictures": pictures,
        "not_reproduced": list(result.not_reproduced),
    }


def _pages(folder: Path, order: Sequence[str]) -> list[Page]:
    """Return the experiments found in the folder, passing over JSON that is not one."""
    pages = [page for path in folder.glob("*.json") if (page := _read_page(path))]
    place = {name: number for number, name in enumerate(order)}
    return sorted(pages, key=lambda page: (place.get(page["name"], len(place)), page["name"]))


def _read_page(path: Path) -> Page | None:
    try:
        page = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        return None
    return page if isinstance(page, dict) and page.get("format") == FORMAT else None


def _plain(cell: Any) -> Cell:
    """Return a cell as what JSON and CSV can hold; numbers without end or meaning as words."""
    value = cell.item() if isinstance(cell, np.generic) else cell
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, int | float | str):
        return value
    return str(value)


# -- files ------------------------------------------------------------------------------------


def _write_text(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8", newline="\n")
    return path


def _write_csv(sheet: Sheet, path: Path) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(sheet.columns)
        writer.writerows([_plain(cell) for cell in row] for row in sheet.rows)
    return path


def _write_picture(picture: Picture, path: Path) -> list[Path]:
    import matplotlib

    vector = path.with_suffix(".svg")
    # Without a salt the ids inside an SVG are random, and both formats carry a date or version.
    with matplotlib.rc_context({"svg.hashsalt": "isopivot"}):
        picture.figure.savefig(path, dpi=PNG_DPI, metadata={"Software": None})
        picture.figure.savefig(vector, dpi=PNG_DPI, metadata={"Date": None, "Creator": None})
    return [path, vector]
