"""Bad files, bad options, bad luck: one line with the remedy, a status, nothing half-written."""

import gzip
import os
import pickle
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import time
import zipfile

import numpy as np
import pytest

from command_line import COMMAND, ENVIRONMENT, Commands, isopivot

pd = pytest.importorskip("pandas")
pytest.importorskip("typer")
pytest.importorskip("plotly")

USAGE, DATA, MODEL, WRITING, PACKAGE = 2, 3, 4, 5, 6


class Exploit:
    """Unpickled, it leaves a file."""

    def __reduce__(self):
        return (open, ("owned", "w"))


def text_files(folder):
    contents = {
        "good.csv": "a,b,c\n1,2,x\n3,5,y\n4,1,x\n2,2,y\n9,3,x\n",
        "pair.csv": "a,b,c\n1,2,x\n3,4,y\n",
        "empty.csv": "",
        "dates.csv": "when,a\n2024-01-31 12:30,1\n2024-02-01 00:00,2\n",
        "names.csv": "who,a\n" + "".join(f"person {i},{i}\n" for i in range(30)),
        "ragged.csv": "a,b\n1,2\n3\n",
        "words.csv": "a,b\n1,2\n3,hello\n",
        "gaps.csv": "a,b\n1,2\n,4\n3,1\n",
        "twice.csv": "a,a\n1,2\n3,4\n",
        "header.csv": "a,b\n",
        "infinite.csv": "a,b\n1,inf\n2,3\n",
        "lacks.csv": "a\n1\n",
        "words2.csv": "a,b\n1,2\n3,oops\n",
        "table.xyz": "a,b\n1,2\n",
        "text.model": "not a model\n",
    }
    for name, content in contents.items():
        (folder / name).write_text(content)


def binary_files(folder):
    junk = np.random.default_rng(0).bytes(4000)
    for name in ("junk.csv", "junk.parquet", "junk.npy", "junk.npz", "junk.feather", "junk.model"):
        (folder / name).write_bytes(junk)
    (folder / "cut.csv.gz").write_bytes(gzip.compress(b"a,b\n" + b"1,2\n" * 999)[:-9])
    for name in ("pickle.model", "pickle.npy", "pickle.csv"):
        (folder / name).write_bytes(pickle.dumps(Exploit()))
    np.save(folder / "objects.npy", np.array([[Exploit(), 1]], dtype=object), allow_pickle=True)
    with zipfile.ZipFile(folder / "bomb.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("X.npy", bytes(1 << 20))
        archive.filelist[0].file_size = 3 << 30  # what the directory says it unpacks to
    (folder / "bomb.model").write_bytes((folder / "bomb.npz").read_bytes())
    (folder / "folder.csv").mkdir()
    (folder / "folder.model").mkdir()


def broken_models(folder):
    whole = (folder / "good.model").read_bytes()
    variants = {
        "cut.model": whole[:-40],
        "flipped.model": whole[:300] + bytes([whole[300] ^ 1]) + whole[301:],
        "newer.model": whole[:14] + struct.pack("<H", 99) + whole[16:],
        "empty.model": b"",
    }
    for name, content in variants.items():
        (folder / name).write_bytes(content)


@pytest.fixture(scope="module")
def each(tmp_path_factory):
    with Commands(tmp_path_factory.mktemp("logs")) as run:
        yield run


@pytest.fixture(scope="module")
def folder(tmp_path_factory, each):
    folder = tmp_path_factory.mktemp("hostile")
    text_files(folder)
    binary_files(folder)
    commands = [
        ["fit", "good.csv", "--drop", "c", "--mu", "1", "-m", "good.model"],
        ["fit", "good.csv", "--label", "c", "-m", "classes.model"],
    ]
    assert [done.returncode for done in each(commands, folder)] == [0, 0]
    broken_models(folder)
    return folder


def fit(name, *options):
    return ["fit", name, "-m", "out.model", *options]


BAD_TABLES = [
    (fit("missing.csv"), "does not exist; check the name"),
    (fit("empty.csv"), "is empty; give a table"),
    (fit("folder.csv"), "is a folder; name a file"),
    (fit("ragged.csv"), "line 3 has 1 cells.*mend that line"),
    (fit("words.csv"), "column 'b' holds 'hello' in row 2.*--one-hot"),
    (fit("dates.csv"), r"number; --drop 'when' leaves it out; dates(?!.*--one-hot)"),
    (fit("names.csv"), r"number; --drop 'who'.*different; --id 'who'(?!.*--one-hot)"),
    (fit("gaps.csv"), "'a' has no value in row 2.*--impute median.*--drop-missing"),
    (fit("twice.csv"), "more than one column named 'a'; give every column a name"),
    (fit("header.csv"), "no rows; give at least one row"),
    (fit("infinite.csv"), "inf.*give finite numbers"),
    (fit("table.xyz"), "'.xyz' says no format known here; use one of"),
    (fit("junk.csv"), "not UTF-8 text.*save"),
    (fit("junk.parquet"), "cannot be read as parquet.*copy it again"),
    (fit("junk.feather"), "cannot be read as feather.*copy it again"),
    (fit("junk.npy"), "junk.npy.*(copy it again|save it)"),
    (fit("junk.npz"), "junk.npz.*(copy it again|save it)"),
    (fit("cut.csv.gz"), "not a whole gzip file.*copy it again"),
    (fit("pickle.csv"), "pickle.csv"),
    (fit("pickle.npy"), "pickle.npy"),
    (fit("objects.npy"), "objects.npy"),
    (fit("bomb.npz"), "far more than its size suggests"),
    (fit("good.csv"), "column 'c' holds 'x'"),
    (fit("good.csv", "--drop", "d"), "has no column 'd', named by --drop"),
    (fit("good.csv", "--columns", "a,z"), "has no column 'z', named by --columns"),
    (fit("good.csv", "--label", "d"), "has no column 'd'"),
    (fit("good.csv", "--id", "name", "--drop", "c"), "has no column 'name'"),
    (["score", "good.model", "lacks.csv"], "lacks 1 of the 2 columns of the model: 'b'"),
    (["transform", "good.model", "words2.csv"], "learnt as numbers but holds 'oops' in row 2"),
    (["classify", "classes.model", "lacks.csv"], "lacks 1 of the 2 columns"),
    (["certify", "classes.model", "infinite.csv"], "inf"),
    (["certify", "classes.model", "good2.csv"], "does not exist"),
    (["landmarks", "gaps.csv"], "--impute median"),
]
BAD_MODELS = [
    ("missing.model", "is not there; save a model first"),
    ("empty.model", "is empty; allowed is a model file"),
    ("text.model", "is a text file; allowed is a model file; pass one that isopivot fit wrote"),
    ("junk.model", "is no model file"),
    ("folder.model", "is a folder; allowed is a model file"),
    ("pickle.model", "is a pickle, which may run code and is never opened"),
    ("bomb.model", "is an ordinary ZIP or NPZ archive"),
    ("cut.model", "is damaged.*copy the file again"),
    ("flipped.model", "is damaged.*copy the file again"),
    ("newer.model", "is of format 99.*upgrade isopivot"),
    ("/dev/zero", "is no ordinary file"),
]
# Each command asks for the model in its own way.
ASKING = ["transform", "score", "classify", "certify", "report", "explain"]
CALIBRATED = ["score", "good.model", "good.csv", "--false-alarm-rate", "1%", "--calibrate"]
BAD_USAGE = [
    (["--nonsense"], "[Nn]o such option: --nonsense"),
    (["frobnicate"], "No such command"),
    (["fit", "good.csv"], "Missing option '--model'"),
    (fit("good.csv", "--nonsense"), "[Nn]o such option: --nonsense.*see isopivot fit --help"),
    (fit("good.csv", "--mu", "much"), "got --mu much; give a number .*5%, or .with --label. auto"),
    (fit("good.csv", "--mu", "5x%", "--drop", "c"), "got --mu 5x%; give a number"),
    (fit("good.csv", "--mu", "-1", "--drop", "c"), "got --mu -1; give a number"),
    (fit("good.csv", "--impute", "mean"), "'--impute': 'mean' is not one of 'median'"),
    (fit("good.csv", "--mu", "auto"), "got --mu auto, which only a classifier has"),
    (["landmarks", "good.csv", "--mu", "auto", "--label", "c"], "which only a classifier has"),
    (fit("good.csv", "--t", "2"), "got --t, which a linear model does not have"),
    (fit("good.csv", "--epsilon", "2"), "got --epsilon, which a linear model does not have"),
    (fit("good.csv", "--kernel", "rbf", "--no-center"), "got --center or --no-center"),
    (fit("good.csv", "--label", "c", "-n", "2"), "got -n, which a classifier model"),
    (fit("good.csv", "--kernel", "magic"), "'magic' is not one of"),
    (fit("good.csv", "--standardize", "--unit-box"), "give one of them"),
    (fit("good.csv", "--impute", "median", "--drop-missing"), "give one of them"),
    (fit("good.csv", "--drop", "c", "-n", "3"), "which allow 2; use -n 2, or --kernel rbf"),
    (fit("good.csv", "--drop", "c", "--mu", "1e-300"), "is below what float64 can certify"),
    (["fit", "good.csv", "--drop", "c", "-m", "good.csv"], "would be overwritten"),
    (["score", "good.model", "good.csv", "--false-alarm-rate", "1%"], "without --calibrate"),
    (["score", "good.model", "good.csv", "--calibrate", "good.csv"], "without --false-alarm-rate"),
    (["score", "good.model", "good.csv", "--save-model", "m"], "without --calibrate.*add these"),
    ([*CALIBRATED, "good.csv"], "the table the model was fitted on.*that were not fitted on"),
    ([*CALIBRATED, "pair.csv", "--save-model", "good.csv"], "would be overwritten"),
    ([*CALIBRATED, "pair.csv", "--save-model", "m", "-o", "m", "--to", "csv"], "name two files"),
    (
        ["score", "good.model", "-", "--calibrate", "-", "--false-alarm-rate", "1%"],
        "standard input can be read once",
    ),
    (
        [*CALIBRATED, "pair.csv"],
        "got 2 calibration rows.*99 rows or more",
    ),
    (
        ["score", "good.model", "good.csv", "--calibrate", "good.csv", "--false-alarm-rate", "9"],
        "give a share such as 1% or 0.01",
    ),
    (["score", "good.model", "good.csv", "--json"], "--json.*give -o FILE"),
    (["score", "classes.model", "good.csv"], "is a classifier; use isopivot classify"),
    (["report", "classes.model", "good.csv"], "is a classifier"),
    (["classify", "good.model", "good.csv"], "is no classifier; fit one"),
    (["explain", "good.model", "good.csv", "--row", "99"], "no such row among the 5 rows"),
    (["report", "good.model", "good.csv", "-o", "-"], "name a file such as report.html"),
    (["reproduce", "nothing", "--out", "book"], "choose among toy, swiss-roll"),
]
BAD_TARGETS = [
    (["fit", "good.csv", "--drop", "c", "-m", "nowhere/m"], "does not exist; make it first"),
    (["fit", "good.csv", "--drop", "c", "-m", "good.csv/m"], "good.csv/m"),
    (["fit", "good.csv", "--drop", "c", "-m", "folder.csv"], "is a folder; name a file"),
    (["fit", "good.csv", "--drop", "c", "-m", "/proc/m"], "cannot write to '/proc/m'"),
    (["fit", "good.csv", "--drop", "c", "-m", "/dev/null"], "is no ordinary file"),
    (["transform", "good.model", "good.csv", "-o", "out.xyz"], "says no format known here"),
    (["transform", "good.model", "good.csv", "-o", "/proc/out.csv"], "cannot"),
    (["transform", "good.model", "good.csv", "-o", "nowhere/out.csv"], "make it first"),
    (["score", "good.model", "good.csv", "-o", "/dev/full"], "No space left"),
    ([*CALIBRATED, "pair.csv", "--save-model", "nowhere/m"], "make it first"),
    (["score", "good.model", "good.csv", "--to", "parquet"], "standard output is written as csv"),
    (["report", "good.model", "good.csv", "-o", "nowhere/r.html"], "make it first"),
    (["report", "good.model", "good.csv", "-o", "/dev/null"], "is no ordinary file"),
    (["reproduce", "toy", "--out", "good.csv"], "choose a folder you may write to"),
]


def asking(command, name):
    row = ["--row", "0"] if command == "explain" else []
    return [command, name, "good.csv", *row]


ALL = (
    [(DATA, *case) for case in BAD_TABLES]
    + [
        (MODEL, asking(ASKING[number % len(ASKING)], name), words)
        for number, (name, words) in enumerate(BAD_MODELS)
    ]
    + [(USAGE, *case) for case in BAD_USAGE]
    + [(WRITING, *case) for case in BAD_TARGETS]
)


@pytest.fixture(scope="module")
def answers(folder, each):
    before = snapshot(folder)
    commands = [arguments for _, arguments, _ in ALL]
    done = each(commands, folder)
    return done, before, snapshot(folder)


def snapshot(folder):
    """Names and contents of all files, hidden ones too."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


@pytest.mark.parametrize(
    "number", range(len(ALL)), ids=[" ".join(arguments) for _, arguments, _ in ALL]
)
def test_one_line_with_the_remedy_and_a_status(answers, number):
    status, _, words = ALL[number]
    done = answers[0][number]
    assert done.returncode == status, done.stderr
    assert done.stdout == ""
    *notes, line = done.stderr.splitlines()
    assert all(note.startswith("note: ") for note in notes)
    assert line.startswith("isopivot: ")
    assert re.search(words, line), line
    assert "Traceback" not in done.stderr


def test_nothing_was_written_and_nothing_ran(answers):
    _, before, after = answers
    assert after == before
    assert os.stat("/dev/null").st_rdev == os.makedev(1, 3)


def test_sparse_tables_refuse_what_would_fill_them(each, tmp_path):
    from scipy import sparse

    sparse.save_npz(tmp_path / "s.npz", sparse.random_array((20, 9), density=0.2, rng=0).tocsr())
    (done,) = each([["fit", "s.npz", "--standardize", "-m", "m"]], tmp_path)
    assert done.returncode == DATA
    assert "is sparse" in done.stderr
    assert not (tmp_path / "m").exists()


def test_control_characters_of_a_file_do_not_reach_the_terminal(each, tmp_path):
    evil = "\x1b[31mred\x1b]0;title\x07"
    frame = pd.DataFrame({"id": [evil, "b", "c"], "x\x1b[2J": [1.0, 2.0, 5.0], "y": [0.0, 3, 1]})
    frame.to_csv(tmp_path / "evil.csv", index=False)
    (tmp_path / "extra.csv").write_text("id,x\x1b[2J,y,\x1b[5mmore\nq,1,2,3\n")
    (tmp_path / "bad.csv").write_text("id,x\x1b[2J,y\nq,1,\x1b[1mtext\n")
    commands = [
        ["fit", "evil.csv", "--id", "id", "--mu", "0", "-m", "m"],
        ["explain", "m", "evil.csv", "--row", evil],
        ["certify", "m", "evil.csv"],
        ["score", "m", "extra.csv", "-o", "out.csv"],
        ["score", "m", "bad.csv"],
    ]
    done = each(commands, tmp_path)
    assert [one.returncode for one in done] == [0, 0, 0, 0, DATA]
    assert "\\x1b[31mred" in done[1].stdout
    assert "\\x1b[5mmore" in done[3].stderr
    for one in done:
        assert "\x1b" not in one.stdout + one.stderr


# -- bad luck -----------------------------------------------------------------------------


def on_terminal(arguments, cwd):
    """Start a command whose standard error is a terminal; return it and the terminal."""
    terminal, end = pty.openpty()
    process = subprocess.Popen(
        [COMMAND, *map(str, arguments)],
        cwd=cwd,
        env=ENVIRONMENT | {"TERM": "xterm"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=end,
    )
    os.close(end)
    return process, terminal


def read_until(terminal, words, seconds=60.0):
    """Return what the terminal showed until the words came, or until it closed."""
    shown, end = "", time.monotonic() + seconds
    while words not in shown and time.monotonic() < end:
        if not select.select([terminal], [], [], 0.2)[0]:
            continue
        try:
            shown += os.read(terminal, 4096).decode(errors="replace")
        except OSError:  # closed by the other side
            break
    return shown


@pytest.mark.parametrize(
    ("number", "status", "words"),
    [
        (signal.SIGINT, 130, "stopped by Ctrl-C; no file was left half-written"),
        (signal.SIGTERM, 143, "terminated; no file was left half-written"),
    ],
)
def test_a_long_fit_is_stopped(tmp_path, number, status, words):
    # A few seconds for the fastest machine: every row becomes a pivot.
    np.save(tmp_path / "large.npy", np.random.default_rng(0).standard_normal((8000, 20)))
    slow = ["fit", "large.npy", "--kernel", "rbf", "--mu", "0", "-m", "m"]
    process, terminal = on_terminal(slow, tmp_path)
    shown = read_until(terminal, ", panel ")  # whichever is shown first
    assert "fitting KernelICPQR to 8000 rows of 20" in shown
    process.send_signal(number)
    shown += read_until(terminal, words)
    assert process.wait(60) == status, shown
    os.close(terminal)
    assert words in shown
    assert "Traceback" not in shown
    assert process.communicate()[0] == b""
    assert [path.name for path in tmp_path.iterdir()] == ["large.npy"]


def test_a_closed_pipe_is_no_error(each, tmp_path):
    rows = np.random.default_rng(0).standard_normal((20000, 4))
    pd.DataFrame(rows, columns=list("abcd")).to_csv(tmp_path / "t.csv", index=False)
    assert each([["fit", "t.csv", "-m", "m"]], tmp_path)[0].returncode == 0
    script = '"$0" transform m t.csv | head -n 1; echo "${PIPESTATUS[0]}"'
    done = isopivot(start=["bash", "-c", script, COMMAND], cwd=tmp_path)
    assert done.stdout.splitlines() == ["row,icpqr0,icpqr1,icpqr2,icpqr3", "141"]
    assert done.stderr == ""


def test_a_full_disk_keeps_the_old_files(each, tmp_path):
    resource = pytest.importorskip("resource")
    rows = np.random.default_rng(0).standard_normal((3000, 30))
    np.save(tmp_path / "t.npy", rows)
    assert each([["fit", "t.npy", "-m", "m"]], tmp_path)[0].returncode == 0
    (tmp_path / "out.csv").write_text("old")
    before = snapshot(tmp_path)
    jobs = [
        ["transform", "m", "t.npy", "-o", "out.csv"],
        ["fit", "t.npy", "--embedding", "-m", "m"],
    ]
    for arguments in jobs:
        done = subprocess.run(
            [COMMAND, *arguments],
            cwd=tmp_path,
            env=ENVIRONMENT,
            capture_output=True,
            text=True,
            check=False,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (9000, 9000)),
        )
        assert done.returncode == WRITING, done.stderr
        assert "File too large" in done.stderr
        assert done.stderr.count("\n") == 1
        assert snapshot(tmp_path) == before


BUG = """
from isopivot.cli import main, fitting
def broken(choice):
    raise RuntimeError("two\\nlines")
fitting.make_estimator = broken
main()
"""


@pytest.mark.parametrize("debug", [False, True])
def test_a_bug_is_one_line_too(folder, debug):
    options = ["--debug"] if debug else []
    start = [sys.executable, "-c", BUG]
    done = isopivot(*options, *fit("good.csv"), start=start, cwd=folder)
    assert done.returncode == 70
    *trace, line = done.stderr.splitlines()
    assert line.startswith("isopivot: unexpected RuntimeError: two lines; isopivot --debug")
    assert ("Traceback" in "".join(trace)) is debug
    assert bool(trace) is debug


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written(folder, tmp_path):
    tmp_path.chmod(0o500)
    done = isopivot("fit", folder / "good.csv", "--drop", "c", "-m", tmp_path / "m")
    assert done.returncode == WRITING
    assert "Permission denied; choose another place" in done.stderr
