"""Compiles the C functions of `isopivot._native` while a wheel is built.

They are plain C without Python's headers, loaded by ctypes. Where there is no compiler the wheel
is built without them: the library then does the same work in NumPy, at about half the speed.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FOLDER = Path("src/isopivot/_native")
LIBRARY = FOLDER / "_kernels.so"
# One copy per generation of processors where the system can choose; else one for all.
FLAGS = ([], ["-DNO_CLONES"])


class CustomBuildHook(BuildHookInterface):
    """Adds the compiled library to the wheel, and the platform to its name."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel" or not compiled(Path(self.root)):
            return
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform}"
        build_data["artifacts"].append(str(LIBRARY))


def compiled(root: Path) -> bool:
    """Return whether the library could be compiled and loaded."""
    target = root / LIBRARY
    target.unlink(missing_ok=True)
    if os.environ.get("ISOPIVOT_PURE"):
        return False
    for flags in FLAGS:
        for compiler in compilers():
            command = [compiler, "-O3", "-shared", "-fPIC", "-pthread", *flags, "-o", str(target)]
            command.append(str(root / FOLDER / "kernels.c"))
            done = subprocess.run(command, capture_output=True, check=False)
            if done.returncode == 0 and loads(target):
                return True
    target.unlink(missing_ok=True)
    print("isopivot: no C compiler found; installing without compiled functions", file=sys.stderr)
    return False


def compilers() -> list[str]:
    """Return the C compilers at hand, the user's own choice first."""
    names = (os.environ.get("CC", ""), "cc", "gcc", "clang")
    return [path for name in names if name and (path := shutil.which(name))]


def loads(library: Path) -> bool:
    """Return whether this machine can load what was compiled."""
    try:
        ctypes.CDLL(str(library))
    except OSError:
        return False
    return True
