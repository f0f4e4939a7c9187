"""Files: written whole or not at all, and read up to a limit."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["read_limited", "whole", "write_whole"]

_CHUNK = 2**20


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that a reader never sees half of it."""
    with whole(path) as temporary:
        temporary.write_bytes(content)


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """Yield a temporary file whose content becomes that of `path` at the end, or disappears if there is no end.

    Links are followed. A file that is there keeps its mode, and its owner and group where the system allows. A pipe, a
    terminal or another thing that is not a file gets the content once it is complete, and stays what it is.
    """
    there = _status(path)
    if there is not None and stat.S_ISDIR(there.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    with _poured(path) if _stays_open(path, there) else _replaced(Path(os.path.realpath(path)), there) as temporary:
        yield temporary


def _status(path: Path) -> os.stat_result | None:
    """Return what the system says of a file, None where there is none, also at the end of a link."""
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None


def _stays_open(path: Path, there: os.stat_result | None) -> bool:
    """Return whether a path is no file, or a name of one that somebody holds open, as /dev/stdout is."""
    if there is None or not stat.S_ISREG(there.st_mode):
        return there is not None
    link = path
    while link.is_symlink():
        if os.path.realpath(link.parent).startswith("/proc/"):
            return True
        link = link.parent / os.readlink(link)
    return False


@contextmanager
def _poured(path: Path) -> Iterator[Path]:
    """Yield a temporary file elsewhere, whose content is appended to `path` at the end."""
    with tempfile.TemporaryDirectory() as folder:
        temporary = Path(folder) / "content"
        yield temporary
        with temporary.open("rb") as content, path.open("ab") as target:
            shutil.copyfileobj(content, target)


@contextmanager
def _replaced(path: Path, there: os.stat_result | None) -> Iterator[Path]:
    """Yield a temporary file beside `path` that takes its place, its mode and its owner at the end."""
    temporary = path.with_name(f".{path.name[:40]}.{secrets.token_hex(8)}")
    # The system itself takes the umask off a new file's mode; what replaces a private file is private from the start.
    os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666 if there is None else 0o600))
    try:
        yield temporary
        if there is not None:
            _keep_owner(temporary, there)
            os.chmod(temporary, stat.S_IMODE(there.st_mode))
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _keep_owner(path: Path, there: os.stat_result) -> None:
    """Give a file the owner and group of another, or what of it the system allows."""
    mine = os.stat(path)
    if hasattr(os, "chown") and (mine.st_uid, mine.st_gid) != (there.st_uid, there.st_gid):
        with suppress(PermissionError):
            os.chown(path, -1, there.st_gid)
        with suppress(PermissionError):
            os.chown(path, there.st_uid, -1)


def read_limited(path: str | os.PathLike[str], most: int) -> bytes:
    """Return the content of a file, or raise if it has more than `most` bytes, as one without end does."""
    content = bytearray()
    with open(path, "rb") as file:
        while chunk := file.read(_CHUNK):
            content += chunk
            if len(content) > most:
                msg = f"{path} must have at most {most:,} bytes; it has more"
                raise ValueError(msg)
    return bytes(content)
