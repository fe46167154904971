"""A real PgBouncer before a PostgreSQL, in transaction mode."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import psycopg
from sqlalchemy import make_url

from tests.debian import unpacked
from tests.kafka_operations import wait_until
from tests.patience import PATIENCE_S
from tests.postgres import as_nobody, owned_by_nobody
from tests.real_kafka import free_ports


class PgBouncer:
    """A pooler of its own, in a `with`; `url` leads through it to the database of `behind`."""

    def __init__(self, behind: str, connections: int = 1) -> None:
        """`connections`: how many of the server's all clients together have."""
        url = make_url(behind)
        (port,) = free_ports(1)
        self.url = url.set(port=port).render_as_string(hide_password=False)
        self._directory = Path(tempfile.mkdtemp(prefix="pgbouncer-"))
        (self._directory / "users.txt").write_text(f'"{url.username}" ""\n')
        lines = [
            *("[databases]", f"* = host={url.host} port={url.port}"),
            *("[pgbouncer]", "listen_addr = 127.0.0.1", f"listen_port = {port}"),
            *("unix_socket_dir =", "auth_type = trust", f"auth_file = {self._directory}/users.txt"),
            *("pool_mode = transaction", f"default_pool_size = {connections}"),
        ]
        (self._directory / "pgbouncer.ini").write_text("\n".join(lines))
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> PgBouncer:
        found = self._program()
        owned_by_nobody(self._directory)
        beside = sorted(str(path) for path in found.parents[1].glob("lib/*-linux-gnu*"))
        log = self._directory / "log"
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                as_nobody([str(found), str(self._directory / "pgbouncer.ini")]),
                stdout=output,
                stderr=output,
                env={**os.environ, "LD_LIBRARY_PATH": ":".join(beside)},
            )
        wait_until(self._answers, "PgBouncer answers", log.read_text)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(PATIENCE_S)
        shutil.rmtree(self._directory)

    def _program(self) -> Path:
        """The installed one, else a copy of Debian's: nobody may not enter a user's cache."""
        installed = shutil.which("pgbouncer") or shutil.which("/usr/sbin/pgbouncer")
        if installed is not None:
            return Path(installed)
        copy = self._directory / "package/usr"
        shutil.copytree(unpacked("pgbouncer") / "usr", copy, symlinks=True)
        return copy / "sbin/pgbouncer"

    def _answers(self) -> bool:
        try:
            with psycopg.connect(self.url):
                return True
        except psycopg.OperationalError:
            return False
