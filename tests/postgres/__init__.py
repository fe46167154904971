"""A real PostgreSQL for tests, which goes down and comes back."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import psycopg

from tests import dying_with_parent
from tests.cache import CACHE
from tests.debian import unpacked
from tests.kafka_operations import wait_until
from tests.patience import PATIENCE_S
from tests.real_kafka import free_ports

_NOBODY = 65534
_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    # Nobody will miss what is in it, and tests start it often.
    "fsync": "off",
    "shared_buffers": "8MB",
    "max_connections": "50",
}


def programs(cache: Path = CACHE) -> Path:
    """The directory of `initdb` and `postgres`: Debian's, those on the path, else the cache's."""
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    on_path = shutil.which("initdb")
    if installed:
        return installed[-1].parent
    if on_path is not None:
        return Path(on_path).resolve().parent
    (found,) = unpacked("postgresql", cache).glob("usr/lib/postgresql/*/bin/initdb")
    return found.parent


class Postgres:
    """A server of its own, in a `with`. Its address stays the same over stop and start."""

    def __init__(self, **settings: str) -> None:
        """`settings` are those of `postgresql.conf` that shall differ."""
        self._settings = _SETTINGS | settings
        (self._port,) = free_ports(1)
        # pytest's own directories are closed to others, and the server is nobody's under root.
        self._directory = Path(tempfile.mkdtemp(prefix="postgres-"))
        self._programs = programs()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return self._url_of("postgres")

    def new_database(self, name: str, template: str = "template1") -> str:
        """Makes a database of this name, a copy of `template`; returns its URL."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}"'.encode())
        return self._url_of(name)

    def drop_database(self, name: str) -> None:
        """Removes it, whoever is connected; without a server, nothing."""
        if self._process is not None:
            with psycopg.connect(self.url, autocommit=True) as connection:
                connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)'.encode())

    def rename_database(self, name: str, new_name: str) -> None:
        """Ends all connections to it first, as the server demands."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false'.encode())
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name]
            )
            connection.execute(f'ALTER DATABASE "{name}" RENAME TO "{new_name}"'.encode())
            connection.execute(f'ALTER DATABASE "{new_name}" ALLOW_CONNECTIONS true'.encode())

    def run(self, program: str, *arguments: str, content: bytes = b"") -> bytes:
        """Runs one of PostgreSQL's own programs, such as `pg_dump`; returns what it prints."""
        command = [str(self._programs / program), *arguments]
        return subprocess.run(
            command, input=content, check=True, capture_output=True, env=self._environment()
        ).stdout

    def _url_of(self, name: str) -> str:
        return f"postgresql://postgres@127.0.0.1:{self._port}/{name}?connect_timeout=5"

    def __enter__(self) -> Postgres:
        try:
            owned_by_nobody(self._directory)
            made = [str(self._programs / "initdb"), "-D", str(self._data), "-A", "trust"]
            made += ["-U", "postgres", "-E", "UTF8", "--locale=C", "--no-sync"]
            subprocess.run(
                as_nobody(made), check=True, capture_output=True, env=self._environment()
            )
            self.start()
        except BaseException:
            self._end()  # `with` calls no __exit__ for what was never entered
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def start(self) -> None:
        """Returns once it answers."""
        settings = {**self._settings, "port": str(self._port)}
        settings["unix_socket_directories"] = str(self._directory)
        command = [str(self._programs / "postgres"), "-D", str(self._data)]
        command += [word for key, value in settings.items() for word in ("-c", f"{key}={value}")]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                as_nobody(command), stdout=log, stderr=log, env=self._environment()
            )
        wait_until(self._answers, "PostgreSQL answers", self._log.read_text)

    def stop(self) -> None:
        """At once: transactions are rolled back, and connections end."""
        if self._process is not None:
            self._end_process(signal.SIGINT)

    def _end(self) -> None:
        if self._process is not None:
            self._end_process(signal.SIGQUIT)  # without a checkpoint, as nobody needs the data
        shutil.rmtree(self._directory)

    def _end_process(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)
        self._process.wait(PATIENCE_S)
        self._process = None

    def _answers(self) -> bool:
        if self._process is None or self._process.poll() is not None:
            raise AssertionError(f"PostgreSQL ended by itself\n{self._log.read_text()}")
        try:
            with psycopg.connect(self.url):
                return True
        except psycopg.OperationalError:
            return False

    def _environment(self) -> dict[str, str]:
        """What was unpacked has its libraries beside it."""
        beside = sorted(str(path) for path in self._programs.parents[3].glob("lib/*-linux-gnu*"))
        return {**os.environ, "LD_LIBRARY_PATH": ":".join(beside)}

    @property
    def _data(self) -> Path:
        return self._directory / "data"

    @property
    def _log(self) -> Path:
        return self._directory / "postgres.log"


def owned_by_nobody(directory: Path) -> None:
    """Gives it to whom `as_nobody` runs a program as."""
    if _is_root():
        os.chown(directory, _NOBODY, _NOBODY)


def as_nobody(command: list[str]) -> list[str]:
    """The command for servers that refuse to run as root. With the test process they end."""
    if _is_root():
        who = [f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups"]
        return ["setpriv", *who, "--pdeathsig=KILL", *command]
    return dying_with_parent.guarded(*command)


def _is_root() -> bool:
    return os.geteuid() == 0
