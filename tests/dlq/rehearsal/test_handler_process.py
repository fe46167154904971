"""A program's handler is called in a process of its own, whatever it does there."""

from pathlib import Path

import pytest

from linear_retry.dlq.rehearsal.handler_process import HandlerProcess
from linear_retry.dlq.rehearsal.handling import Program
from linear_retry.errors import ConfigurationError
from linear_retry.records.record import Record

_PROGRAM = """
from linear_retry import LinearConsumer

def made():
    config = {"bootstrap.servers": "127.0.0.1:1", "group.id": "billing"}
    def transient(error):
        if isinstance(error, KeyError):
            raise RuntimeError("no table of errors")
        return isinstance(error, ConnectionError)
    consumer = LinearConsumer(
        config, ["orders"], strategy=[1], transient=transient, dead_letters="orders.dlq"
    )
    return consumer, lambda message: eval(message.value() or b"None")
"""


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """Its handler evaluates the value."""
    (tmp_path / "evaluating.py").write_text(_PROGRAM)
    return Program("evaluating:made", str(tmp_path))


def _record(value: bytes) -> Record:
    return Record("orders", 0, 1, 1, b"k", value, ())


@pytest.mark.parametrize(
    ("value", "error", "is_transient"),
    [
        (b"1 / 0", "ZeroDivisionError: division by zero", False),
        (b"(_ for _ in ()).throw(ConnectionError('down'))", "ConnectionError: down", True),
        (b"__import__('sys').exit(5)", "SystemExit: 5", False),
        (b"{}['x']", "UsageError: transient= raised RuntimeError('no table of errors')", False),
        (b"__import__('os')._exit(7)", "the handler's process ended with exit code 7", False),
        (
            b"__import__('os').kill(__import__('os').getpid(), 9)",
            "the handler's process was killed by SIGKILL",
            False,
        ),
    ],
)
def test_whatever_a_handler_does_is_an_answer(
    program: Program, value: bytes, error: str, is_transient: bool
) -> None:
    """And the next letter is handed over all the same."""
    with HandlerProcess(program) as handler:
        failed, succeeded = (handler.attempt(_record(each)) for each in (value, b"1"))
        assert "billing" == handler.group_id
    text = failed.error and f"{failed.error.type.rpartition('.')[2]}: {failed.error.message}"
    assert (True, is_transient) == (error in str(text), failed.is_transient)
    assert succeeded.error is None


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    """It is said at once, and no process is left."""
    with (
        pytest.raises(ConfigurationError, match="missing:made: ModuleNotFoundError"),
        HandlerProcess(Program("missing:made", str(tmp_path))),
    ):
        pytest.fail("the process began")
