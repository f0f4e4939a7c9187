"""Files are written completely or not at all, and read up to a limit."""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["UnreadableTable", "hide_address", "hide_credentials", "read_limited", "replace_file", "write_whole"]

_CHUNK = 2**20  # bytes read at a time
_FULL = {errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)}  # the system does not say of which file


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that a reader never sees half of it."""
    with replace_file(path) as temporary:
        temporary.write_bytes(content)


@contextmanager
def replace_file(path: Path) -> Iterator[Path]:
    """Yield a temporary file that replaces `path` at the end, or is removed if an exception is raised.

    Links are followed. An existing file keeps its mode, and its owner and group where the system allows. If `path` is
    not a regular file, such as a pipe or a terminal, the content is written to it once it is complete.
    """
    existing = _status(path)
    folder = Path(os.path.realpath(path)).parent if path.is_symlink() else path.parent
    if existing is None and not folder.exists():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(folder))
    if existing is not None and stat.S_ISDIR(existing.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if existing is not None and _must_stay(path, existing):
        with _append_at_end(path) as temporary:
            yield temporary
    else:
        with _replace_at_end(Path(os.path.realpath(path)), existing) as temporary:
            yield temporary


def _status(path: Path) -> os.stat_result | None:
    """Return the status of a file, or of the file that a link points to, or None if there is none."""
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None


def _must_stay(path: Path, existing: os.stat_result) -> bool:
    """Return whether a path is not a regular file, or names an open file of a process, such as /dev/stdout."""
    if not stat.S_ISREG(existing.st_mode):
        return True
    link = path
    while link.is_symlink():
        if os.path.realpath(link.parent).startswith("/proc/"):
            return True
        link = link.parent / os.readlink(link)
    return False


@contextmanager
def _append_at_end(path: Path) -> Iterator[Path]:
    """Yield a temporary file in another folder, whose content is appended to `path` at the end."""
    with tempfile.TemporaryDirectory() as folder:
        temporary = Path(folder) / "content"
        yield temporary
        with temporary.open("rb") as content, path.open("ab") as target:
            shutil.copyfileobj(content, target)


@contextmanager
def _replace_at_end(path: Path, existing: os.stat_result | None) -> Iterator[Path]:
    """Yield a temporary file in the same folder that replaces `path` at the end, with the same mode and owner."""
    temporary = path.with_name(f".{path.name[:40]}.{secrets.token_hex(8)}")
    # The system applies the umask to the mode of a new file. What replaces a private file is private from the start.
    try:
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666 if existing is None else 0o600))
    except OSError as error:
        raise type(error)(error.errno, error.strerror, str(path)) from None  # not the name that nobody knows
    try:
        yield temporary
        if existing is not None:
            _copy_owner(existing, temporary)
            os.chmod(temporary, stat.S_IMODE(existing.st_mode))
        _store(temporary)
        os.replace(temporary, path)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno is not None and error.errno in _FULL:
            raise OSError(error.errno, os.strerror(error.errno), str(path)) from None
        raise
    with suppress(OSError):  # some systems do not open folders
        _store(path.parent)


def _store(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk, so that a loss of power leaves no empty file."""
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _copy_owner(source: os.stat_result, path: Path) -> None:
    """Give a file the owner and group of another, as far as the system allows."""
    own = os.stat(path)
    if hasattr(os, "chown") and (own.st_uid, own.st_gid) != (source.st_uid, source.st_gid):
        with suppress(PermissionError):
            os.chown(path, -1, source.st_gid)
        with suppress(PermissionError):
            os.chown(path, source.st_uid, -1)


class UnreadableTable(RuntimeError):
    """What an engine said when it could not read a table, without passwords."""


def hide_credentials(text: str) -> str:
    """Return a text without passwords: what stands between // and @ in addresses, what follows ? or /; and password=.

    The name of a table right behind the ? is kept.

    >>> hide_credentials("s3://me:secret@bucket/rows.parquet?key=1"), hide_credentials("sc://host:15002/;token=secret")
    ('s3://...@bucket/rows.parquet?...', 'sc://host:15002/;...')
    >>> hide_credentials("postgresql://me@host/db?table=scores&sslkey=mine"), hide_credentials("sqlite:///s.db?table=t")
    ('postgresql://...@host/db?table=scores&...', 'sqlite:///s.db?table=t')
    >>> hide_credentials("host=h password='my secret' port=1")
    'host=h password=... port=1'
    """
    text = re.sub(r"(://\S*?)(\?|/;)(\S+)", _hide_query, re.sub(r"//\S*@", "//...@", text))
    return _SECRET.sub(r"\1=...", text)


def _hide_query(found: re.Match[str]) -> str:
    """Return the end of an address without its options, but for the name of a table in front."""
    table = re.match(r"table=[^&]+&?", found[3])
    kept = "" if table is None else table[0]
    return f"{found[1]}{found[2]}{kept}{'...' if len(kept) < len(found[3]) else ''}"


def hide_address(word: str) -> str:
    """Return a word of a command, URL in place of one that says where a server is, or as whom to read it.

    >>> hide_address("postgresql://me:secret@host/db?table=scores"), hide_address("sqlite:///scores.db?table=scores")
    ('URL', 'sqlite:///scores.db?table=scores')
    """
    return "URL" if "://" in word and (word.startswith("postgres") or hide_credentials(word) != word) else word


_SECRET = re.compile(
    r"\b(password|passwd|pwd|passfile|token|secret\w*|\w*key)\s*=\s*('[^']*'|\"[^\"]*\"|[^\s;,]+)", re.IGNORECASE
)


def read_limited(path: str | os.PathLike[str], most: int) -> bytes:
    """Return the content of a file, or raise if it has more than `most` bytes, as an endless device does."""
    content = bytearray()
    with open(path, "rb") as file:
        while chunk := file.read(_CHUNK):
            content += chunk
            if len(content) > most:
                msg = f"{path} must have at most {most:,} bytes; it has more"
                raise ValueError(msg)
    return bytes(content)
