"""Where nothing could be compiled, the same tests pass."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from isopivot import _native

TESTS = Path(__file__).parents[1]


@pytest.mark.skipif(not _native.ready(), reason="all other tests show it here")
@pytest.mark.parametrize("part", ["paper", "unit/test_greedy.py", "unit/test_many_rows.py"])
def test_what_numpy_alone_gives(part):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(TESTS / part)]
    environment = {**os.environ, "ISOPIVOT_PURE": "1"}
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment, cwd=TESTS.parent, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:]
    assert " passed" in done.stdout
