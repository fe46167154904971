"""`run_together` on the real broker: both lines handle, and end together."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import get_args

import pytest

from tests import dying_with_parent
from tests.conftest import TopicFactory
from tests.kafka_operations import wait_until
from tests.patience import PATIENCE_S
from tests.real_kafka import RealKafka
from tests.scenarios.process import CHECKOUT
from tests.scenarios.together import How, Program
from tests.whole_lines import whole_lines

pytestmark = pytest.mark.broker

_BETWEEN_SIGNALS_S = 2.0
_DELAYS = ("1s", "2s")


class Together:
    """A program that runs both lines, and what it has printed."""

    def __init__(self, kafka: RealKafka, source: str, directory: Path, how: How) -> None:
        self._kafka, self._source = kafka, source
        self._group, self._prefix = f"{source}-group", f"{source}.billing.retry"
        kafka.create_topic(f"{source}.dlq")
        for delay in _DELAYS:
            settings = {"message.timestamp.type": "LogAppendTime", "retention.ms": "1209600000"}
            kafka.create_topic(f"{self._prefix}.{delay}", 1, settings)
        config = kafka.client_settings(**{"group.id": self._group})
        program = Program(config, source, self._prefix, f"{source}.dlq", how)
        command = (sys.executable, "-m", "tests.scenarios.together", program.to_json())
        self._output = directory / "output"
        with self._output.open("wb") as file:
            self.process = subprocess.Popen(
                dying_with_parent.guarded(*command),
                cwd=CHECKOUT,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                process_group=0,
            )

    @property
    def output(self) -> str:
        return self._output.read_text(errors="replace")

    def produce(self, *values: bytes) -> None:
        self._kafka.produce(self._source, [(0, None, value, ()) for value in values])

    def handled(self, line: str, value: str) -> int:
        """The process that has handled it there, once one has."""
        return wait_until(lambda: self._pid(line, value), f"{line} {value}", lambda: self.output)

    def exit_code(self) -> int:
        return self.process.wait(PATIENCE_S)

    @property
    def committed(self) -> tuple[dict[int, int], dict[int, int]]:
        """By the live line, and by the retry line of the first delay."""
        first = f"{self._prefix}.{_DELAYS[0]}"
        return (
            self._kafka.committed(self._group, self._source),
            self._kafka.committed(f"{self._group}.retry", first),
        )

    def is_left(self) -> bool:
        """Whether both groups are empty."""
        groups = self._group, f"{self._group}.retry"
        return not any(self._kafka.group_members(group) for group in groups)

    def _pid(self, line: str, value: str) -> int | None:
        words = [printed.split() for printed in whole_lines(self._output)]
        return next((int(one[2]) for one in words if one[:2] == [line, value]), None)


Start = Callable[..., Together]


@pytest.fixture
def start(kafka: RealKafka, topic: TopicFactory, tmp_path: Path) -> Iterator[Start]:
    """Starts programs on topics of their own, and ends them."""
    started: list[Together] = []

    def begin(how: How = "process") -> Together:
        started.append(Together(kafka, topic(), tmp_path, how))
        return started[-1]

    yield begin
    for each in started:
        if each.process.poll() is None:
            os.killpg(each.process.pid, signal.SIGKILL)
        each.exit_code()


def _is_gone(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True
    return state.rpartition(")")[2].split()[0] == "Z"


@pytest.mark.parametrize("how", get_args(How))
def test_both_lines_handle_and_one_signal_ends_both(start: Start, how: How) -> None:
    """Ctrl-C in a terminal reaches both processes: both commit, leave their groups, and end."""
    both = start(how)
    both.produce(b"plain", b"retried")
    assert both.process.pid == both.handled("live", "plain")
    retried_by = both.handled("retry", "retried")
    assert (how == "threads") == (both.process.pid == retried_by)
    os.killpg(both.process.pid, signal.SIGINT)
    assert 0 == both.exit_code(), both.output
    assert ({0: 2}, {0: 1}) == both.committed
    assert both.is_left()
    assert f"{retried_by} stopped; left the group" in both.output


def test_a_signal_to_the_live_line_alone(start: Start) -> None:
    """As Kubernetes and Docker send it: the retry line ends too."""
    both = start()
    both.produce(b"retried")
    child = both.handled("retry", "retried")
    both.process.terminate()
    assert 0 == both.exit_code(), both.output
    assert _is_gone(child)
    assert both.is_left()


@pytest.mark.parametrize("how", ["process", "async"])
def test_the_process_of_the_retry_line_is_killed(start: Start, how: How) -> None:
    """The live line ends with an error that says so, and has committed what is done."""
    both = start(how)
    both.produce(b"plain", b"killed")
    child = both.handled("retry", "killed")
    assert 1 == both.exit_code()
    said = f"RetryLineError: the process of the retry line (pid {child}) was killed by SIGKILL"
    assert said in both.output
    assert {0: 2} == both.committed[0]


def test_the_process_of_the_live_line_is_killed(start: Start) -> None:
    """That of the retry line commits what is done, leaves its group, and ends."""
    both = start()
    both.produce(b"retried")
    child = both.handled("retry", "retried")
    both.process.kill()
    assert -signal.SIGKILL == both.exit_code()
    wait_until(lambda: _is_gone(child), "the retry line has ended")
    assert {0: 1} == both.committed[1]


@pytest.mark.parametrize("how", get_args(How))
def test_an_error_of_the_retry_line(start: Start, how: How) -> None:
    """`on_permanent="stop"` there ends both lines, and is raised with its cause."""
    both = start(how)
    both.produce(b"plain", b"refused")
    both.handled("retry", "refused")
    assert 1 == both.exit_code()
    assert "linear_retry.errors.PermanentError: " in both.output
    assert "ValueError: refused" in both.output
    assert {0: 2} == both.committed[0]
    assert both.is_left()


def test_more_signals_while_the_retry_line_hangs(start: Start) -> None:
    """The live line has ended, and nobody waits for the other one: its process is killed.

    At the signal that interrupts the wait for it; the one before may interrupt the live line's end.
    """
    both = start()
    both.produce(b"hangs")
    child = both.handled("retry", "hangs")
    os.killpg(both.process.pid, signal.SIGINT)
    wait_until(lambda: "stopped; left the group" in both.output, "the live line has ended")
    while both.process.poll() is None:
        os.killpg(both.process.pid, signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            both.process.wait(_BETWEEN_SIGNALS_S)
    assert 0 != both.exit_code()
    assert "KeyboardInterrupt" in both.output
    assert _is_gone(child)
    assert 0 == both.committed[1].get(0, 0)


def _ctrl_c(pid: int) -> None:
    """As a terminal sends it, to both processes."""
    os.killpg(pid, signal.SIGINT)


def _terminate(pid: int) -> None:
    """As Kubernetes sends it."""
    os.kill(pid, signal.SIGTERM)


@pytest.mark.parametrize("send", [_ctrl_c, _terminate])
def test_a_second_signal_cancels_an_async_handler(
    start: Start, send: Callable[[int], None]
) -> None:
    """On the retry line too; its message is not done. The bug: a second SIGTERM ended the process
    of the live line alone, and the retry line was an orphan that consumed on."""
    both = start("async")
    both.produce(b"hangs")
    child = both.handled("retry", "hangs")
    send(both.process.pid)
    wait_until(lambda: "stopped; left the group" in both.output, "the live line has ended")
    send(both.process.pid)
    both.exit_code()
    wait_until(lambda: _is_gone(child), "the retry line has ended")
    assert child == both.handled("retry", "cancelled")
    assert ({0: 1}, {0: 0}) == both.committed
    assert both.is_left()
