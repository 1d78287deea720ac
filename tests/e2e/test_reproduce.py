"""The paper's experiments, small, from the function and from the installed command."""

import csv
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")

from isopivot.experiments import reproduce, swiss_roll
from isopivot.experiments._book import write

pytestmark = pytest.mark.slow

PARTS = {
    "toy": {
        "csv": ["dictionaries", "pivots", "tolerances"],
        "png": ["path-and-residuals"],
    },
    "swiss-roll": {
        "csv": ["sizes", "comparison", "dimensions", "spectra", "new-points"],
        "png": ["roll", "spectra", "dimensions", "embedding", "new-points", "dictionaries"],
    },
}


def expected_files(name):
    parts = PARTS[name]
    return (
        {f"{name}.md", f"{name}.json"}
        | {f"{name}-{part}.csv" for part in parts["csv"]}
        | {f"{name}-{part}.{ending}" for part in parts["png"] for ending in ("png", "svg")}
    )


def rows(folder, name):
    with (folder / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    """The toy, and later into the same folder a Swiss roll of 300 points."""
    out = tmp_path_factory.mktemp("book")
    told = []
    reproduce(["toy"], out, told.append)
    write([swiss_roll.run(told.append, n=300, n_new=400, draws=2)], out)
    return out, told


def test_everything_is_written_and_shown(book):
    out, told = book
    files = expected_files("toy") | expected_files("swiss-roll") | {"index.html"}
    assert {path.name for path in out.iterdir()} == files
    page = (out / "index.html").read_text(encoding="utf-8")
    for name in files:
        if name.endswith((".png", ".csv", ".md")):
            assert f'"{name}"' in page
    assert {line.split(":")[0] for line in told} == {"toy", "swiss-roll"}


def test_the_toy_confirms_the_paper(book):
    chosen = {row["choice"]: row for row in rows(book[0], "toy-dictionaries")}
    paper, greedy = chosen["the paper's"], chosen["greedy, mu = 1.5"]
    assert float(paper["largest residual, ours"]) < 1.5
    assert float(paper["distortion, ours"]) <= 3
    assert greedy["columns"] == "{7, 6}"
    assert float(chosen["in the order given, six"]["distortion, ours"]) > 3
    for row in rows(book[0], "toy-tolerances"):
        change, bound, most = (
            float(row[name]) for name in ("distortion", "certified bound", "2 mu")
        )
        assert change <= bound <= most + 1e-12  # rounding of lengths up to 20


def test_the_roll_keeps_its_promises(book):
    for row in rows(book[0], "swiss-roll-comparison"):
        change, bound = float(row["distortion, ours"]), float(row["proven bound"])
        assert 0 < change <= bound
        if row["method"] == "ICPQR-DM":
            assert bound <= 2 * float(row["mu"]) + 1e-9
    for row in rows(book[0], "swiss-roll-dimensions"):
        # What the lemma promises can only be more than what is needed.
        assert int(row["minimal DM"]) <= int(row["analytic bound"]) + 1


def test_sizes_fall_with_mu_and_counts_add_up(book):
    sizes = [int(row["s, ours"]) for row in rows(book[0], "swiss-roll-sizes")]
    assert sizes == sorted(sizes, reverse=True)
    assert 0 < sizes[-1] < sizes[0] <= 300
    *bands, everything = rows(book[0], "swiss-roll-new-points")
    for column in ("points", "normal"):
        assert sum(int(row[column]) for row in bands) == int(everything[column])
    assert int(everything["points"]) == 400


def test_a_second_run_gives_the_same_but_for_times(book, tmp_path):
    write([swiss_roll.run(lambda _: None, n=300, n_new=400, draws=2)], tmp_path)
    for name in sorted(expected_files("swiss-roll")):
        if re.search(r"comparison|\.md$|\.json$", name):
            continue  # they hold seconds
        assert (tmp_path / name).read_bytes() == (book[0] / name).read_bytes(), name


def test_the_installed_command(tmp_path):
    command = Path(sys.executable).with_name("isopivot")
    finished = subprocess.run(
        [command, "reproduce", "toy", "--out", tmp_path / "out"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=os.environ | {"NO_COLOR": "1"},
    )
    assert finished.returncode == 0, finished.stderr
    assert {path.name for path in (tmp_path / "out").iterdir()} == (
        expected_files("toy") | {"index.html"}
    )
