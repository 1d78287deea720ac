"""The installed command, run as a user runs it: processes, their output, their exit status."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

COMMAND = Path(sys.executable).with_name("isopivot")
ENVIRONMENT = os.environ | {
    "COLUMNS": "100",
    "NO_COLOR": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "PYTHONIOENCODING": "utf-8",
}
SECONDS = 300

# Imports what commands import, once, then forks a process for each line it reads.
DRIVER = """
import json, os, sys
import pandas, isopivot.data, isopivot.estimators, isopivot.report
from isopivot.cli import _app, main
for line in sys.stdin:
    arguments, cwd, log = json.loads(line)
    child = os.fork()
    if child == 0:
        os.chdir(cwd)
        for stream, name in ((0, os.devnull), (1, log + ".out"), (2, log + ".err")):
            os.dup2(os.open(name, os.O_RDWR | os.O_CREAT, 0o600), stream)
        sys.argv = ["isopivot", *arguments]
        try:
            main()
        except SystemExit as end:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(end.code)  # the interpreter would take longer to leave than the command
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@dataclass(frozen=True)
class Finished:
    """What a process left."""

    returncode: int
    stdout: str
    stderr: str

    @property
    def json(self):
        """The one JSON object on standard output."""
        assert self.returncode in (0, 1), self.stderr
        (line,) = self.stdout.splitlines()
        return json.loads(line)


def isopivot(*arguments, cwd=None, stdin=None, start=None, **environment):
    """Run one command; `stdin` is bytes."""
    done = subprocess.run(
        [*(start or [COMMAND]), *map(str, arguments)],
        input=stdin,
        capture_output=True,
        check=False,
        cwd=cwd,
        env=ENVIRONMENT | environment,
        timeout=SECONDS,
    )
    return Finished(done.returncode, done.stdout.decode(), done.stderr.decode())


class Commands:
    """Runs many commands, one process each, without paying for the imports every time."""

    def __init__(self, logs):
        self._logs, self._count = logs, 0

    def __enter__(self):
        self._driver = subprocess.Popen(
            [sys.executable, "-c", DRIVER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=ENVIRONMENT,
        )
        return self

    def __exit__(self, *_):
        self._driver.communicate(timeout=SECONDS)

    def __call__(self, commands, cwd):
        """Return what each of the commands left."""
        return [self._run([str(argument) for argument in one], cwd) for one in commands]

    def _run(self, arguments, cwd):
        self._count += 1
        log = self._logs / str(self._count)
        self._driver.stdin.write(json.dumps([arguments, str(cwd), str(log)]) + "\n")
        self._driver.stdin.flush()
        code = int(self._driver.stdout.readline())
        texts = (log.with_suffix(f".{stream}").read_bytes().decode() for stream in ("out", "err"))
        return Finished(code, *texts)
