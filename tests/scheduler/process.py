"""`linear-retry scheduler run` in a process of its own."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests import dying_with_parent
from tests.kafka_operations import wait_until
from tests.patience import PATIENCE_S
from tests.real_kafka import RealKafka
from tests.whole_lines import whole_lines


class SchedulerProcess:
    """The command, with its log in a file."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process = process
        self._log = log

    def lines(self) -> list[str]:
        return whole_lines(self._log)

    def wait_for_line(self, part: str) -> str:
        def find() -> str | None:
            assert self.process.poll() is None, self.lines()
            return next((line for line in self.lines() if part in line), None)

        return wait_until(find, part, self.lines)


@contextmanager
def running_process(
    kafka: RealKafka, topic: str, directory: Path, *more: str
) -> Iterator[SchedulerProcess]:
    command = [sys.executable, "-c", "from linear_retry.cli import main; main()", "scheduler"]
    command += ["run", "--topic", topic, "--allow", "*", "-b", kafka.bootstrap, *more]
    log = directory / "log"
    with log.open("wb") as file:
        process = subprocess.Popen(dying_with_parent.guarded(*command), cwd=directory, stderr=file)
    try:
        yield SchedulerProcess(process, log)
    finally:
        process.kill()
        process.wait(PATIENCE_S)
