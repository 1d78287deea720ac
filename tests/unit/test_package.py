"""What `import isopivot` offers, and what it does not load."""

import subprocess
import sys

import pytest

import isopivot


def test_every_public_name_is_there():
    for name in isopivot.__all__:
        assert getattr(isopivot, name) is not None
    assert set(isopivot.__all__) <= set(dir(isopivot))


def test_submodules_need_no_import_of_their_own():
    code = (
        "import isopivot; print(isopivot.report.write.__name__, isopivot.plots.plot_path.__name__)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["write", "plot_path"]


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'isopivot' has no attribute 'icpq'"):
        isopivot.icpq


def test_importing_the_package_does_not_load_scikit_learn():
    code = "import sys, isopivot; print('sklearn' in sys.modules, 'numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
