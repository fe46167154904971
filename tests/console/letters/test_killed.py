"""An index outlives its process."""

import pytest

from linear_retry.console.letters import queries
from linear_retry.console.letters.conditions import LetterFilter
from linear_retry.console.letters.index import Index
from linear_retry.dlq import Filter
from tests.console.browser.conftest import console, given
from tests.console.browser.process import ConsoleProcess
from tests.kafka_operations import wait_until

__all__ = ["console", "given"]

pytestmark = pytest.mark.broker

_LETTERS = 30_000


def test_killed_while_it_indexes_it_continues_from_there(console: ConsoleProcess) -> None:
    """With SIGKILL, twice: each letter once, in the state that the shell lists."""
    given = console.given
    index = Index(console.directory / "state", given.letters)
    everything = queries.search(index, LetterFilter(states=()))

    def count() -> int:
        return queries.count(index, everything)

    patterns = [given.letter(number % 2, number) for number in range(1_000)]
    console.kill()
    for _ in range(_LETTERS // len(patterns)):
        given.add_letters(patterns)
    with given.topic as topic:
        topic.resolve(Filter(limit=100), by="ann")
    for least in (1, count() + 2_000):
        console.start()
        wait_until(lambda least=least: count() >= least, "some are indexed")  # type: ignore[misc]  # its own
        console.kill()
    before = count()
    console.start()
    wait_until(lambda: count() == _LETTERS, "all are indexed")
    assert before < _LETTERS
    with given.topic as topic:
        states = {state: number for state, number in topic.stats().states.items() if number}
    wait_until(lambda: queries.summary(index).states == states, "the states are the same")
