"""`linear-retry console` in a process of its own."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from tests import dying_with_parent
from tests.dlq.scene import Scene
from tests.kafka_operations import wait_until
from tests.patience import PATIENCE_S
from tests.real_kafka import free_ports


@dataclass(slots=True)
class ConsoleProcess:
    """The command over a scene's topics, which can be killed and started again."""

    given: Scene
    directory: Path
    port: int
    options: tuple[str, ...] = ()
    process: subprocess.Popen[bytes] = field(init=False)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it; wait until it answers."""
        command = [sys.executable, "-c", "from linear_retry.cli import main; main()", "console"]
        command += ["-b", self.given.kafka.bootstrap, "--dead-letters", self.given.letters]
        command += ["--state", str(self.directory / "state"), "--http", f"127.0.0.1:{self.port}"]
        guarded = dying_with_parent.guarded(*command, *self.options)
        with (self.directory / "log").open("ab") as log:
            self.process = subprocess.Popen(guarded, cwd=self.directory, stderr=log)
        with httpx.Client(base_url=self.url, timeout=5) as client:
            wait_until(lambda: self._answers(client), "the console answers", self._log)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE_S)

    def _answers(self, client: httpx.Client) -> bool:
        assert self.process.poll() is None, self._log()
        try:
            return client.get("/now").status_code < 500
        except httpx.TransportError:
            return False

    def _log(self) -> str:
        return (self.directory / "log").read_text()


@contextmanager
def running(given: Scene, directory: Path, *options: str) -> Iterator[ConsoleProcess]:
    """Runs the command, with these options too."""
    console = ConsoleProcess(given, directory, free_ports(1)[0], options)
    try:
        console.start()
        yield console
    finally:
        console.kill()
