"""The README tells the truth: its examples run, its figures come out, its links lead somewhere."""

import contextlib
import importlib.util
import io
import math
import os
import re
import subprocess
from pathlib import Path

import joblib
import numpy as np
import pytest
from scipy.spatial.distance import pdist
from scipy.stats import betabinom
from sklearn.datasets import load_digits
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from command_line import COMMAND, ENVIRONMENT
from isopivot import ICPQR, actual_distortion

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


BLOCKS = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
SHELL = re.findall(r"```sh\n(.*?)```\n```text\n(.*?)```", README, flags=re.DOTALL)


def promised_output(block):
    """What each print line says it prints: its comment, up to an explaining colon."""
    comments = re.findall(r"^print\(.*\)  # (.+)$", block, flags=re.MULTILINE)
    return [comment.split(": ")[0] for comment in comments]


def test_every_example_is_looked_at():
    assert len(BLOCKS) == 4
    assert len(SHELL) == 1
    assert README.count("```") == 2 * (len(BLOCKS) + 2 * len(SHELL))


@pytest.mark.parametrize("block", BLOCKS, ids=["reduce", "detect", "classify", "save"])
def test_example_prints_what_its_comments_say(block, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(block, "README.md", "exec"), {})
    assert len(promised_output(block)) == block.count("print(") >= 3
    assert output.getvalue().splitlines() == promised_output(block)


@pytest.mark.parametrize(("script", "shown"), SHELL, ids=["tables"])
def test_commands_print_what_is_shown(script, shown, tmp_path):
    for package in ("typer", "pandas", "plotly"):
        pytest.importorskip(package)
    path = f"{COMMAND.parent}{os.pathsep}{ENVIRONMENT['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=tmp_path,
        env=ENVIRONMENT | {"PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert without_sizes(done.stdout) == without_sizes(shown)
    assert (tmp_path / "demo" / "report.html").stat().st_size > 1e6


def without_sizes(text):
    """Return text without the sizes of files: plotly's differs from version to version."""
    return re.sub(r"\(\d+(\.\d+)? [kM]B\)", "(size)", text)


def test_table_is_the_one_the_script_prints():
    pytest.importorskip("matplotlib")
    script = ROOT / "docs" / "make_readme_picture.py"
    spec = importlib.util.spec_from_file_location("make_readme_picture", script)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    lines = module.table()
    assert "\n".join(lines) in README
    rows = [line.strip("| ").split(" | ") for line in lines[2:]]
    ratios = [float(row[2]) / float(row[3]) for row in rows]
    assert f"here {min(ratios):.0f} to {max(ratios):.0f} times" in README


def test_median_distance_of_the_digits():
    assert f"is {np.median(pdist(load_digits().data)):.1f}," in README


def test_scatter_of_the_false_alarm_rate():
    rows = 119
    above = rows + 1 - math.ceil((rows + 1) * 0.95)
    # Alarms among test rows, over draws of both sets, whatever the distribution.
    alarms = betabinom(rows, above, rows + 1 - above)
    assert alarms.mean() / rows == pytest.approx(0.05)
    assert f"comes out as 5% ± {alarms.std() / rows:.1%}" in README


@pytest.mark.parametrize(("rate", "rows"), [(0.01, 99), (0.001, 999)])
def test_rows_that_a_rate_needs(rate, rows):
    assert re.search(rf"{100 * rate:g}% needs (at least )?{rows}\b", README)
    X = np.random.default_rng(0).standard_normal((rows, 3))
    model = ICPQR(n_components=1).fit(X)
    assert model.calibrate(X, rate).calibration_.n_samples == rows
    with pytest.raises(ValueError, match=f"{rows} rows or more"):
        model.calibrate(X[1:], rate)


def test_pipeline_recipe():
    pd = pytest.importorskip("pandas")
    normal = np.random.default_rng(0).standard_normal((300, 4)) @ np.diag([9.0, 5.0, 1.0, 0.1])
    table = pd.DataFrame(normal, columns=["a", "b", "c", "d"])
    train, held_out = table[:200], table[200:]
    scaler = StandardScaler().set_output(transform="pandas")
    pipe = make_pipeline(scaler, ICPQR(n_components=2)).fit(train)
    assert not hasattr(pipe, "calibrate")
    pipe[-1].calibrate(pipe[:-1].transform(held_out), 0.05)
    assert np.mean(pipe.predict(held_out) == -1) <= 0.05
    why = pipe[-1].explain(pipe[:-1].transform(held_out[:1]))
    assert why.feature_names.tolist() == ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    ("parameters", "certified"),
    [({"n_components": 2}, False), ({"mu": None, "n_components": 2}, True)],
)
def test_dimension_without_and_with_the_default_mu(parameters, certified):
    X = load_digits().data
    model = ICPQR(**parameters).fit(X)
    assert model.certificate_.certified is certified
    assert actual_distortion(X, model.embedding_) <= model.certificate_.distortion_bound


def test_too_large_a_mu_keeps_nothing():
    assert ICPQR(mu=1e9).fit(load_digits().data).n_components_ == 0


def test_saving_keeps_the_calibration(tmp_path):
    X = load_digits().data
    model = ICPQR(mu="40%").fit(X[:900]).calibrate(X[900:], 0.05)
    joblib.dump(model, tmp_path / "model")
    again = joblib.load(tmp_path / "model")
    assert again.calibration_ == model.calibration_
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


@pytest.mark.parametrize("target", re.findall(r"(?:\]\(|src=\"|srcset=\")([^)\"]+)", README))
def test_link_leads_somewhere(target):
    assert (ROOT / target).is_file()
