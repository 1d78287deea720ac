"""The command line as a user runs it: a process, its output, its exit code."""

import json
import os
import sys

import pytest

from command_line import Commands
from command_line import isopivot as run
from isopivot import __version__

pytest.importorskip("typer")
pytest.importorskip("matplotlib")

PNG = b"\x89PNG\r\n\x1a\n"
PICTURES = {
    f"{data}-{view}.png"
    for data in ("digits", "swiss-roll")
    for view in ("path", "embedding", "distances", "changes")
} | {"digits-rates.png"}


WRITING, PACKAGE = 5, 6
NAMES = ("fit", "transform", "score", "classify", "explain", "landmarks", "certify", "report")
NAMES += ("demo", "reproduce")


def isopivot(*arguments, cwd=None, start=("-m", "isopivot.cli"), **environment):
    return run(*arguments, cwd=cwd, start=[sys.executable, *start], **environment)


def table_rows(output, names=("digits", "swiss-roll")):
    """Cells of the printed tables, one list per row of figures that begins with a name."""
    lines = [line for line in output.splitlines() if line.startswith("│")]
    rows = [[cell.strip() for cell in line.strip("│").split("│")] for line in lines]
    return [row for row in rows if row[0] in names]


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    out = tmp_path_factory.mktemp("demo") / "new" / "folder"
    return isopivot("demo", "--out", out), out


def test_demo_writes_the_pictures_and_says_where(demo):
    finished, out = demo
    assert finished.returncode == 0, finished.stderr
    assert {path.name for path in out.iterdir()} == PICTURES
    for name in PICTURES:
        assert (out / name).read_bytes().startswith(PNG)
        assert str(out / name) in finished.stdout


def test_demo_prints_a_certificate_that_holds(demo):
    rows = table_rows(demo[0].stdout)
    assert [row[0] for row in rows] == ["digits"] * 4 + ["swiss-roll"] * 4
    for _, mu, _, bound, change, _ in rows:
        # Three to four digits are printed of each.
        assert float(bound) <= 2 * float(mu.split()[0]) * 1.01
        assert 0 < float(change) <= float(bound)


def test_demo_dimension_shrinks_as_mu_grows(demo):
    rows = table_rows(demo[0].stdout)
    for data in ("digits", "swiss-roll"):
        sizes = [int(row[2].split()[0]) for row in rows if row[0] == data]
        assert sizes == sorted(sizes, reverse=True)
        assert sizes[0] > sizes[-1] > 0


def test_demo_keeps_the_false_alarm_rate_and_finds_unseen_digits(demo):
    rows = table_rows(demo[0].stdout, names=("ICPQR", "KernelICPQR"))
    assert [row[0] for row in rows] == ["ICPQR"] * 3 + ["KernelICPQR"] * 3
    for _, _, size, asked, seen, hits in rows:
        asked, seen, hits = (float(cell.split("%")[0]) for cell in (asked, seen, hits))
        assert 0 < int(size) <= 541
        # Ten splits of the same 1,797 rows: close to what was asked, not below it for sure.
        assert abs(seen - asked) <= 0.5 * asked
        assert hits > 2 * seen
    for kernel, linear in zip(rows[3:], rows[:3], strict=True):
        assert float(kernel[-1].split("%")[0]) > float(linear[-1].split("%")[0])


def test_demo_fits_a_terminal_of_eighty_columns(demo):
    tables = [line for line in demo[0].stdout.splitlines() if line[:1] in "│┃┏└"]
    assert tables
    assert max(map(len, tables)) <= 80
    assert "…" not in demo[0].stdout


def test_demo_is_quiet_without_a_terminal(demo):
    assert "fitting" not in demo[0].stderr
    assert "drawing" not in demo[0].stderr


def test_help_has_an_example():
    finished = isopivot("--help")
    assert finished.returncode == 0
    assert "isopivot demo --out" in finished.stdout


def test_every_command_has_an_example_and_the_statuses(tmp_path):
    with Commands(tmp_path) as each:
        first, *others = each([["--help"], *([name, "--help"] for name in NAMES)], tmp_path)
    for name, finished in zip(NAMES, others, strict=True):
        assert name in first.stdout
        assert finished.returncode == 0
        assert f"isopivot {name} " in finished.stdout.split("Example", 1)[1]
        words = " ".join(finished.stdout.split())
        assert "Exit status: 0 done, 1 the promise does not hold" in words


def test_a_shell_completes_the_words():
    asked = {"COMP_WORDS": "isopivot cer", "COMP_CWORD": "1"}
    finished = isopivot(_ISOPIVOT_COMPLETE="complete_bash", **asked)
    assert finished.returncode == 0
    assert finished.stdout.split() == ["certify"]


def test_help_waits_for_no_heavy_package():
    code = (
        "import sys, isopivot; known = set(sys.modules); from isopivot.cli import _app; "
        "_app.build_app(); print(*{name.split('.')[0] for name in set(sys.modules) - known})"
    )
    loaded = isopivot(start=("-c", code)).stdout.split()
    assert "typer" in loaded
    heavy = {"numpy", "scipy", "sklearn", "pandas", "pyarrow", "matplotlib", "plotly", "onnx"}
    assert not heavy & set(loaded)


def test_demo_in_json(tmp_path, monkeypatch, capsys):
    from isopivot import demo
    from isopivot.cli._app import build_app

    row = demo.Row("digits", "5%", 1.0, 3, 64, 1.9, 0.5, "fit", 0.1)
    monkeypatch.setattr(demo, "run", lambda out, report: print("a table") or [row])
    build_app()(["demo", "--json", "--out", str(tmp_path)], standalone_mode=False)
    answer = json.loads(capsys.readouterr().out)
    assert answer["rows"][0]["n_components"] == 3
    assert {os.path.basename(path) for path in answer["pictures"]} == PICTURES


def test_version():
    assert isopivot("--version").stdout.split() == ["isopivot", __version__]


@pytest.mark.parametrize("inside", ["", "below"])
def test_a_file_in_the_way_is_one_line_not_a_traceback(tmp_path, inside):
    (tmp_path / "file").write_text("mine")
    target = tmp_path / "file" / inside
    finished = isopivot("demo", "--out", target)
    assert finished.returncode == WRITING
    assert finished.stdout == ""
    (line,) = finished.stderr.splitlines()
    assert line.startswith(f"isopivot: cannot write to '{target}'")
    assert line.endswith("choose a folder you may write to with --out DIR")
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written(tmp_path):
    tmp_path.chmod(0o500)
    finished = isopivot("demo", "--out", tmp_path)
    assert finished.returncode == WRITING
    assert "Permission denied; choose a folder" in finished.stderr


@pytest.mark.parametrize("name", ["typer", "rich", "pandas", "matplotlib"])
def test_a_missing_extra_is_named_with_its_remedy(name):
    code = f"import sys; sys.modules[{name!r}] = None; from isopivot.cli import main; main()"
    finished = isopivot("demo", start=("-c", code))
    assert finished.returncode == PACKAGE
    assert finished.stderr.splitlines() == [
        f"isopivot: the command line needs {name}; pip install {name}"
    ]


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_is_for_terminals(terminal, monkeypatch, capsys):
    from isopivot import cli

    monkeypatch.setattr("sys.stderr.isatty", lambda: terminal, raising=False)
    cli._progress("drawing")
    assert capsys.readouterr().err == ("drawing\n" if terminal else "")
