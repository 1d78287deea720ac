"""The one place where whatever went wrong becomes one line and an exit status."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum
from typing import Any, NoReturn

from isopivot.cli import PACKAGE_MISSING


class Status(IntEnum):
    """Exit statuses; docs/command-line.md and ``--help`` list them."""

    OK = 0
    PROMISE_FALSE = 1
    USAGE = 2
    DATA = 3
    MODEL = 4
    WRITING = 5
    PACKAGE = PACKAGE_MISSING
    UNEXPECTED = 70
    INTERRUPTED = 130
    PIPE_CLOSED = 141
    TERMINATED = 143


STATUSES = (
    "Exit status: 0 done, 1 the promise does not hold (certify), 2 wrong usage, 3 bad data file, "
    "4 bad model file, 5 cannot write, 6 a package is missing, 70 unexpected error, "
    "130 stopped by Ctrl-C, 141 the reading end of a pipe closed, 143 terminated."
)


class CommandError(Exception):
    """Something to tell the user in one line.

    Parameters
    ----------
    status : Status
        How the process ends.
    message : str
        What was found, and the remedy.
    """

    def __init__(self, status: Status, message: str) -> None:
        super().__init__(message)
        self.status = status


class TerminatedError(BaseException):
    """The process was asked to end; temporary files are removed on the way out."""


# Messages of the library name Python's ways; here is what the command line calls them.
_OWN_WORDS = {
    "estimator.save wrote": "isopivot fit wrote",
    "use KernelICPQR": "use --kernel rbf",
    "None together with n_components": "none with -n N",
    "Value error, ": "",
}


def own_words(message: object) -> str:
    """Return a message of the library in the words of the command line."""
    text = str(message)
    for word, own in _OWN_WORDS.items():
        text = text.replace(word, own)
    return text


def usage(message: str) -> CommandError:
    """Return the error for options that do not go together."""
    return CommandError(Status.USAGE, message)


@contextlib.contextmanager
def refusals(status: Status = Status.USAGE) -> Iterator[None]:
    """Turn what an estimator refuses into a line; files speak for themselves."""
    from isopivot.data import FileError
    from isopivot.persistence import ModelError

    try:
        yield
    except (FileError, ModelError):
        raise
    except (ValueError, TypeError) as error:
        raise CommandError(status, str(error)) from error


@contextlib.contextmanager
def writing(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn whatever prevents a file from being written into a line."""
    from isopivot.data import FileError

    try:
        yield
    except BrokenPipeError:
        raise
    except FileError as error:
        raise CommandError(Status.WRITING, str(error)) from error
    except OSError as error:
        raise unwritable(path, error) from error


def unwritable(
    path: str | os.PathLike[str], error: OSError, remedy: str = "choose another place"
) -> CommandError:
    """Return the error for a place that cannot be written."""
    reason = error.strerror or str(error)
    return CommandError(Status.WRITING, f"cannot write to {os.fspath(path)!r}: {reason}; {remedy}")


def run(build_app: Callable[[], Any], arguments: Sequence[str]) -> int:
    """Run the command line; return the exit status, whatever happens."""
    debug = bool(os.environ.get("ISOPIVOT_DEBUG"))
    try:
        _prepare_process()
        debug = debug or "--debug" in arguments[:1]
        _invoke(build_app(), list(arguments))
        sys.stdout.flush()
        return Status.OK
    except BaseException as error:
        if debug and not isinstance(error, BrokenPipeError):
            traceback.print_exc()
        return _ended(error)


def _invoke(app: Any, arguments: list[str]) -> None:
    from typer.main import get_command

    command = get_command(app)
    if "_ISOPIVOT_COMPLETE" in os.environ:  # asked by a shell that completes words
        command.main(args=arguments, prog_name="isopivot")
    # Its main() has answers of its own to interrupts and closed pipes.
    with command.make_context("isopivot", arguments) as context:
        command.invoke(context)


def _prepare_process() -> None:
    """Let a polite kill clean up, and show warnings as plain lines."""
    with contextlib.suppress(ValueError, AttributeError):  # not on every system and thread
        signal.signal(signal.SIGTERM, _terminate)
    if not sys.warnoptions:
        warnings.simplefilter("ignore")
        warnings.simplefilter("default", UserWarning)
        # Of rows that an estimator hands on to itself; the preparation has checked the names.
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        warnings.showwarning = _show_warning


def _terminate(number: int, frame: object) -> NoReturn:
    raise TerminatedError


def _show_warning(message: Any, *_: Any, **__: Any) -> None:
    from isopivot.cli._terminal import one_line

    print(f"note: {one_line(own_words(message))}", file=sys.stderr)


def _ended(error: BaseException) -> int:
    """Say what happened in one line, and return the status that says the same."""
    from isopivot.cli._terminal import one_line

    if isinstance(error, BrokenPipeError):
        _silence_output()
        return Status.PIPE_CLOSED
    if isinstance(error, SystemExit) or type(error).__name__ == "Exit":
        return int(getattr(error, "exit_code", None) or getattr(error, "code", None) or 0)
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()  # type: ignore[attr-defined]
        return Status.USAGE
    status, message = _described(error)
    with contextlib.suppress(OSError):
        sys.stdout.flush()
    with contextlib.suppress(OSError):
        print(f"isopivot: {one_line(own_words(message))}", file=sys.stderr)
    _silence_output()
    return status


def _described(error: BaseException) -> tuple[Status, str]:
    if isinstance(error, CommandError):
        return error.status, str(error)
    if isinstance(error, KeyboardInterrupt) or type(error).__name__ == "Abort":
        return Status.INTERRUPTED, "stopped by Ctrl-C; no file was left half-written"
    if isinstance(error, TerminatedError):
        return Status.TERMINATED, "terminated; no file was left half-written"
    if hasattr(error, "format_message"):  # typer's own, wherever its version keeps them
        return Status.USAGE, _usage_line(error)
    return _described_by_type(error)


def _usage_line(error: Any) -> str:
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "isopivot"
    message = str(error.format_message()).rstrip(".")
    return f"{message}; see {path} --help"


def _described_by_type(error: BaseException) -> tuple[Status, str]:
    from isopivot.data import FileError
    from isopivot.persistence import ModelError

    if isinstance(error, FileError):
        return Status.DATA, str(error)
    if isinstance(error, ModelError):
        return Status.MODEL, str(error)
    if isinstance(error, MemoryError):
        return Status.DATA, "the memory does not suffice; give fewer rows, or a larger mu"
    if isinstance(error, OSError) and error.filename is None:
        reason = error.strerror or str(error)
        return Status.WRITING, f"cannot write the output: {reason}; choose another place"
    said = f"{type(error).__name__}: {error}"[:300]
    return Status.UNEXPECTED, f"unexpected {said}; isopivot --debug ... shows where, please report"


def _silence_output() -> None:
    """Keep the interpreter from flushing into a closed pipe or a full disk as it leaves."""
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
        return
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
