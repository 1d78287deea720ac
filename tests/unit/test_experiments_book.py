"""The book of experiments: what is written, escaped, rebuilt, and the same every time."""

import csv
import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from matplotlib.figure import Figure

from isopivot import experiments
from isopivot.experiments._book import LONGEST, Picture, Result, Sheet, write

NASTY = 'a|b <script>alert("x")</script> & *bold* `code` [link](x)'
VOID = {"meta", "img", "br", "link"}


class Reader(HTMLParser):
    """Collects tags, table cells and text; complains about tags that do not match."""

    def __init__(self, page):
        super().__init__()
        self.open, self.tags, self.cells, self.text = [], [], [], ""
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data
        if {"td", "th"} & set(self.open):
            self.cells[-1] += data


def figure():
    made = Figure(layout="constrained")
    ax = made.subplots()
    ax.plot([1, 2, 3], [1, 4, 9], label="squares")
    ax.scatter(np.arange(50), np.arange(50) ** 0.5, rasterized=True)
    ax.fill_between([1, 2], [0, 1], hatch="//")  # hatches, clips and markers get ids in an SVG
    ax.legend()
    return made


def result(name="first", title="A title", **changes):
    sheet = Sheet(
        "numbers",
        "Ours & theirs.",
        ("what", "paper", "ours"),
        [("size", 1246, np.int64(1232)), ("rate", None, np.float64(0.0082659))],
    )
    parts = {
        "text": "One.\n\nTwo has `code`.",
        "sheets": (sheet,),
        "pictures": (Picture("curve", "A curve.", figure()),),
        "not_reproduced": ("The time: another machine.",),
    }
    return Result(name, title, **(parts | changes))


def read(folder, name):
    return (folder / name).read_text(encoding="utf-8")


def table(page):
    return [
        [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        for line in page.splitlines()
        if line.startswith("|")
    ]


def test_every_file_is_written_and_named(tmp_path):
    out = tmp_path / "new" / "folder"
    written = write([result()], out)
    names = {"first.md", "first.json", "first-numbers.csv", "first-curve.png", "first-curve.svg"}
    assert {path.name for path in out.iterdir()} == names | {"index.html"}
    assert {path.name for path in written} == names | {"index.html"}
    assert written[-1] == out / "index.html"
    assert (out / "first-curve.png").read_bytes().startswith(b"\x89PNG")


def test_markdown_has_text_tables_pictures_and_what_is_missing(tmp_path):
    write([result()], tmp_path)
    page = read(tmp_path, "first.md")
    assert page.startswith("# A title\n\nOne.\n\nTwo has `code`.\n\n|")
    assert table(page) == [
        ["what", "paper", "ours"],
        ["---", "---:", "---:"],
        ["size", "1,246", "1,232"],
        ["rate", "–", "0.008266"],
    ]
    assert "(first-curve.png)\n\nA curve.\n" in page
    assert "Ours & theirs. ([CSV](first-numbers.csv))" in page
    assert page.endswith("## Not reproduced\n\n- The time: another machine.\n")


def test_nothing_missing_has_no_heading(tmp_path):
    write([result(not_reproduced=())], tmp_path)
    assert "Not reproduced" not in read(tmp_path, "first.md") + read(tmp_path, "index.html")


def test_csv_has_all_digits_and_plain_numbers(tmp_path):
    write([result()], tmp_path)
    with (tmp_path / "first-numbers.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    assert rows == [
        ["what", "paper", "ours"],
        ["size", "1246", "1232"],
        ["rate", "", "0.0082659"],
    ]


def test_words_from_data_cannot_become_markup(tmp_path):
    sheet = Sheet("cells", NASTY, (NASTY,), [(NASTY,)])
    nasty = result(
        title=NASTY,
        text=NASTY,
        sheets=(sheet,),
        pictures=(Picture("curve", NASTY, figure()),),
        not_reproduced=(NASTY,),
    )
    write([nasty], tmp_path)
    reader = Reader(read(tmp_path, "index.html"))
    assert "script" not in {tag for tag, _ in reader.tags}
    assert reader.cells == [NASTY.replace("`", "")] * 2
    (head, _, cells) = table(read(tmp_path, "first.md"))
    assert len(head) == len(cells) == 1
    assert "\\<script" in cells[0]


def test_page_is_whole_and_shows_every_table_and_picture(tmp_path):
    write([result(), result("second", "Another")], tmp_path)
    reader = Reader(read(tmp_path, "index.html"))
    names = [attributes for tag, attributes in reader.tags if tag == "img"]
    assert [image["src"] for image in names] == ["first-curve.png", "second-curve.png"]
    assert all(image["alt"] for image in names)
    assert reader.cells.count("1,232") == 2
    for words in ("A curve.", "Ours & theirs.", "The time: another machine."):
        assert reader.text.count(words) == 2
    links = [attributes["href"] for tag, attributes in reader.tags if tag == "a"]
    assert all(link[1:] in ("first", "second") for link in links if link.startswith("#"))
    assert all((tmp_path / link).exists() for link in links if not link.startswith("#"))
    # Nothing is fetched from elsewhere, and small or dark screens are provided for.
    assert not re.search(r"https?://|@import|<script", read(tmp_path, "index.html"))
    assert ("meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"}) in (
        reader.tags
    )
    assert "prefers-color-scheme: dark" in read(tmp_path, "index.html")


def test_experiments_run_one_at_a_time_add_up(tmp_path):
    together, apart = tmp_path / "together", tmp_path / "apart"
    order = ("second", "first")
    write([result(), result("second"), result("third")], together, order=order)
    write([result("third")], apart, order=order)
    write([result("second", "Old title")], apart, order=order)
    write([result()], apart, order=order)
    write([result("second")], apart, order=order)
    assert read(apart, "index.html") == read(together, "index.html")
    places = [read(apart, "index.html").index(f'id="{name}"') for name in (*order, "third")]
    assert places == sorted(places)


def test_other_json_in_the_folder_is_left_alone(tmp_path):
    (tmp_path / "mine.json").write_text('{"name": "x"}')
    (tmp_path / "list.json").write_text("[1]")
    (tmp_path / "broken.json").write_text("{")
    write([result()], tmp_path)
    assert read(tmp_path, "index.html").count("<section") == 1
    assert (tmp_path / "broken.json").read_text() == "{"


def test_the_same_results_give_the_same_bytes(tmp_path):
    for folder in ("a", "b"):
        write([result()], tmp_path / folder)
    for path in sorted((tmp_path / "a").iterdir()):
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes(), path.name


def test_long_tables_are_cut_on_pages_but_not_in_csv(tmp_path):
    long = Sheet("long", "Many.", ("n",), [(i,) for i in range(LONGEST + 1200)])
    write([result(sheets=(long,))], tmp_path)
    assert len(table(read(tmp_path, "first.md"))) == LONGEST + 2
    for name in ("first.md", "index.html"):
        assert "1,200 more rows in the CSV file." in read(tmp_path, name)
    assert len(read(tmp_path, "first-long.csv").splitlines()) == LONGEST + 1201


@pytest.mark.parametrize(
    ("cell", "shown"),
    [
        (12345, "12,345"),
        (12345.6, "12,346"),
        (0.00012346, "0.0001235"),
        (1.5e12, "1.5e+12"),
        (True, "yes"),
        (np.True_, "yes"),
        (float("nan"), "nan"),
        (np.float32("inf"), "inf"),
        (None, "–"),
        ((1, 2), "(1, 2)"),
    ],
)
def test_cells_are_shown_for_people(tmp_path, cell, shown):
    write([result(sheets=(Sheet("one", "", ("c",), [(cell,)]),))], tmp_path)
    assert table(read(tmp_path, "first.md"))[2] == [shown]
    assert Reader(read(tmp_path, "index.html")).cells[1] == shown
    json.loads(read(tmp_path, "first.json"), parse_constant=pytest.fail)


def test_finished_experiments_stay_when_a_later_one_fails(tmp_path):
    def results():
        yield result()
        raise RuntimeError("no data")

    with pytest.raises(RuntimeError, match="no data"):
        write(results(), tmp_path)
    assert 'id="first"' in read(tmp_path, "index.html")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Sheet("a b", "", (), []), r"sheet name 'a b'; allowed are lower-case"),
        (lambda: Picture("../up", "", figure()), r"picture name '../up'; allowed are"),
        (lambda: result("Index"), r"result name 'Index'; allowed are"),
        (lambda: Sheet("a", "", ("x", "y"), [(1, 2), (1,)]), r"got 1 cells in row 1 .* 2; mend"),
        (
            lambda: result(sheets=(Sheet("a", "", (), []), Sheet("a", "", (), []))),
            r"sheet name 'a' twice in 'first'; allowed is one",
        ),
    ],
)
def test_bad_parts_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


# -- the registry -----------------------------------------------------------------------------


def test_all_runs_every_experiment_once_in_order(tmp_path, monkeypatch):
    seen = []

    def run(name, report):
        seen.append(name)
        report(f"{name}: running")
        return result(name)

    monkeypatch.setattr(experiments, "run", run)
    told = []
    written = experiments.reproduce(["toy", "all"], tmp_path, told.append)
    assert seen == ["toy", "swiss-roll", "isolet", "kdd99"]
    assert told == [f"{name}: running" for name in seen]
    assert written[-1] == tmp_path / "index.html"


def test_an_unknown_experiment_is_refused_before_anything_runs(tmp_path):
    with pytest.raises(ValueError, match=r"got the experiment 'mnist'; allowed are toy, swiss"):
        experiments.reproduce(["toy", "mnist"], tmp_path, print)
    assert list(tmp_path.iterdir()) == []
