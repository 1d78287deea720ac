"""The README tells the truth: its example runs, its figures come out, its links lead somewhere."""

import contextlib
import importlib.util
import io
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def python_block():
    (block,) = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    return block


def promised_output(block):
    """What each print line says it prints: its comment, up to an explaining colon."""
    comments = re.findall(r"^print\(.*\)  # (.+)$", block, flags=re.MULTILINE)
    return [comment.split(": ")[0] for comment in comments]


def test_example_prints_what_its_comments_say():
    block = python_block()
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(block, "README.md", "exec"), {})
    assert len(promised_output(block)) == block.count("print(") >= 4
    assert output.getvalue().splitlines() == promised_output(block)


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


@pytest.mark.parametrize("target", re.findall(r"\]\(([^)]+)\)", README))
def test_link_leads_somewhere(target):
    assert (ROOT / target).is_file()
