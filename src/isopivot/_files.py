"""Files that are written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

__all__ = ["atomic_path"]


@contextlib.contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a temporary path whose file becomes `path` when the block ends well.

    Parameters
    ----------
    path : str or path-like
        Where the finished file goes. A link is followed: the file behind it is replaced.

    Yields
    ------
    pathlib.Path
        An empty file in the same folder; write to it, or replace it.

    Raises
    ------
    OSError
        Where the folder is missing or cannot be written, or `path` is not an ordinary file.

    Notes
    -----
    The content reaches the disk before the name does, so that after a crash there is the
    old file or the new one. If the block raises, the old file stays as it was, and the
    temporary one is removed. A replaced file hands on its permission bits; a new one gets
    those of the process (its umask).

    Examples
    --------
    >>> import tempfile
    >>> target = Path(tempfile.mkdtemp()) / "numbers.txt"
    >>> with atomic_path(target) as temporary:
    ...     _ = temporary.write_text("1 2 3")
    >>> target.read_text(), len(list(target.parent.iterdir()))
    ('1 2 3', 1)
    """
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise IsADirectoryError(f"got the folder {os.fspath(path)!r}; allowed is a file; name one")
    if target.exists() and not target.is_file():
        raise OSError(
            f"got the device or pipe {os.fspath(path)!r}; allowed is a file, which can be replaced "
            "as a whole; name one"
        )
    mode = _mode_for(target)
    handle, name = _temporary_beside(target, os.fspath(path))
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        os.chmod(temporary, mode)
        _flush(temporary)
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    _flush_folder(target.parent)


def _temporary_beside(target: Path, asked: str) -> tuple[int, str]:
    prefix = f".{target.name[:40]}."
    try:
        return tempfile.mkstemp(prefix=prefix, suffix=".tmp", dir=target.parent)
    except OSError as error:  # it names the temporary file, which nobody asked for
        raise OSError(error.errno, error.strerror, asked) from None


def _mode_for(target: Path) -> int:
    """Return the permission bits of the file that is there, or those of a new one."""
    try:
        return stat.S_IMODE(target.stat().st_mode)
    except FileNotFoundError:
        return 0o666 & ~_umask()


def _umask() -> int:
    """Return the umask. The only portable way to read it sets it for a moment."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _flush(path: Path) -> None:
    """Wait until the content of a file is on the disk."""
    handle = os.open(path, os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _flush_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk, where the system can do that."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
