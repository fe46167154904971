"""The thread of an outbox's sender."""

import subprocess
import sys
import threading
from typing import Any

import pytest

from linear_retry import Strategy
from linear_retry.errors import ConfigurationError, StoreVersionError
from linear_retry.outbox.outbox_sender import OutboxSender, SenderThread
from linear_retry.store.database import Database
from tests import dying_with_parent
from tests.kafka_operations import wait_until
from tests.outbox.conftest import MakeOutbox
from tests.patience import PATIENCE_S


class _Failing(OutboxSender):
    """A sender that ends with an error the first time."""

    def __init__(self, database: Database, error: Exception) -> None:
        super().__init__(database, {"bootstrap.servers": "127.0.0.1:1"}, Strategy([1]))
        self.times, self._error = 0, error

    def run(self, stop: threading.Event) -> None:
        self.times += 1
        if self.times == 1:
            raise self._error
        self.problem = ""
        stop.wait()


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("error", [ValueError("mine"), StoreVersionError("no tables")])
def test_a_sender_that_has_ended_begins_again(database: Database, error: Exception) -> None:
    """Nothing else in the process would send what is stored."""
    ended: list[Exception] = []
    sender = _Failing(database, error)
    thread = SenderThread(sender, "the store", ended.append)
    thread.start()
    wait_until(lambda: sender.problem == f"{type(error).__name__}: {error}", "it has ended")
    assert sender.problem == thread.trouble
    wait_until(lambda: ended or (sender.times == 2 and not thread.trouble), "it works again")
    thread.stop()
    assert [] == ended


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
def test_an_error_that_stays_is_passed_on(database: Database) -> None:
    """A new sender would meet it too."""
    ended: list[Exception] = []
    error = ConfigurationError("another cluster")
    sender = _Failing(database, error)
    thread = SenderThread(sender, "the store", ended.append)
    thread.start()
    wait_until(lambda: ended, "it is passed on")
    thread.stop()
    assert ([error], 1) == (ended, sender.times)


def test_a_program_that_does_not_close_it_ends(sqlite_url: str, down: dict[str, Any]) -> None:
    """With brokers away: a thread that renewed leases kept the process from ending, for ever."""
    program = (
        f"from linear_retry.outbox import Outbox; outbox = Outbox({down}, store={sqlite_url!r})"
    )
    command = dying_with_parent.guarded(sys.executable, "-c", program)
    assert 0 == subprocess.run(command, timeout=PATIENCE_S, check=False).returncode


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"on_refused": "drop"}, "on_refused='drop': must be one of hold, dead-letter"),
        ({"strategy": Strategy([])}, "repeats the last delay of the strategy, and it has none"),
    ],
)
def test_what_cannot_be_held_is_refused_at_once(
    make_outbox: MakeOutbox, down: dict[str, Any], options: dict[str, Any], problem: str
) -> None:
    """Before anything is connected to; an empty strategy goes with dead letters."""
    with pytest.raises(ConfigurationError, match=problem):
        make_outbox(down, **options)
    make_outbox(down, strategy=Strategy([]), on_refused="dead-letter")
