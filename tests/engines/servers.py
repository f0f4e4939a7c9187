"""Servers for tests, on this machine alone: Postgres from the system's binaries."""

import os
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path

__all__ = ["NO_POSTGRES", "Postgres", "start_postgres"]


def _find_binaries():
    """Return the folder of Postgres' programs; Debian keeps the server's out of the path."""
    found = [Path(place).parent for place in [shutil.which("initdb")] if place]
    found += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((folder for folder in found if (folder / "initdb").exists() and (folder / "psql").exists()), None)


BINARIES = _find_binaries()
NO_POSTGRES = (
    None if BINARIES else "no Postgres here: initdb and psql are neither in the path nor in /usr/lib/postgresql"
)


class Postgres:
    """A server whose socket is in a folder."""

    def __init__(self, folder):
        self.folder = folder

    @property
    def address(self):
        """What a client connects to."""
        return f"postgresql:///postgres?host={self.folder}&user=calibrant"

    def run(self, text):
        """Return what a script of SQL prints, as rows of texts, None for NULL."""
        command = [
            "psql",
            "-h",
            self.folder,
            "-U",
            "calibrant",
            "-d",
            "postgres",
            "-XqAt",
            "-F",
            "\t",
            "-P",
            "null=NULL",
        ]
        command = [BINARIES / command[0], *command[1:], "-v", "ON_ERROR_STOP=1", "-f", "-"]
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-500:]
        return [[None if cell == "NULL" else cell for cell in line.split("\t")] for line in done.stdout.splitlines()]


@contextmanager
def start_postgres():
    """Start an empty server that listens on a socket of its own; as nobody, since it refuses to run as root."""
    folder = Path(tempfile.mkdtemp(prefix="calibrant-postgres-"))
    runner = {"user": "nobody"} if os.geteuid() == 0 else {}
    if runner:
        shutil.chown(folder, "nobody")

    def run(*command):
        subprocess.run([BINARIES / command[0], *command[1:]], check=True, capture_output=True, cwd=folder, **runner)

    data = folder / "data"
    run("initdb", "-D", data, "-A", "trust", "-U", "calibrant", "--no-sync", "--encoding=UTF8", "--no-locale")
    options = f"-c listen_addresses='' -c fsync=off -k {folder}"
    run("pg_ctl", "-D", data, "-l", folder / "log", "-o", options, "-w", "start")
    try:
        yield Postgres(str(folder))
    finally:
        run("pg_ctl", "-D", data, "-m", "immediate", "-w", "stop")
        shutil.rmtree(folder, ignore_errors=True)
