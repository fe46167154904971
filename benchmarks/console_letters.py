"""Measures the console's index of dead letters: how fast it grows, and what it answers how fast."""

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from itertools import count
from pathlib import Path

from benchmarks.figures import Figure, Result, Target
from benchmarks.letters import ERROR, FIRST_MS, headers_of_letter
from benchmarks.report import say
from benchmarks.scale import Scale
from benchmarks.topics import PARTITIONS
from linear_retry.console.letters import queries
from linear_retry.console.letters.filters import LetterFilter
from linear_retry.console.letters.index import Index
from linear_retry.console.letters.indexer import Indexer
from linear_retry.dlq import DeadLetterTopic, Filter, State
from tests.kafka_operations import Record, wait_until
from tests.real_kafka import RealKafka

_ERRORS = 300
_PAGE = 50
_LIMIT_S = 3600.0
_RATE = Target("at least", 2_000)
_MS = Target("at most", 300)
_numbers = count(1)


def run(kafka: RealKafka, scale: Scale) -> Result:
    """Letters of 300 errors, a thousand of them resolved; each question is asked several times."""
    letters = scale.listed_letters
    topic = f"console-letters-{next(_numbers)}.dlq"
    kafka.create_topic(topic, PARTITIONS)
    kafka.produce(topic, _letters(letters))
    config = {"bootstrap.servers": kafka.bootstrap}
    with DeadLetterTopic(topic, config) as resolved:
        resolved.resolve(Filter(limit=1_000), by="benchmark")
    with tempfile.TemporaryDirectory() as directory:
        index = Index(Path(directory), topic)
        begun_s = time.perf_counter()
        with closing(Indexer(index, config)) as indexer:
            indexer.start()
            wait_until(lambda: indexer.progress.is_complete, "all is indexed", _LIMIT_S)
            rate = letters / (time.perf_counter() - begun_s)
            say(f"{letters:,} letters indexed")
            size = sum(file.stat().st_size for file in Path(directory).iterdir())
            asked = list(_asked(index, scale.rounds))
    figures = (
        Figure("indexed", "letters/s", (rate,), _RATE),
        Figure("a letter in the index", "bytes", (size / letters,)),
        *asked,
    )
    return Result(figures, notes=(f"{letters:,} letters of {_ERRORS} errors",))


def _letters(letters: int) -> Iterator[Record]:
    for number in range(letters):
        partition, offset = number % PARTITIONS, number // PARTITIONS
        message = f"order {number} refused: payments-{number % _ERRORS}:8080 answered 503"
        headers = headers_of_letter("orders", partition, offset, message)
        yield partition, b"customer-%d" % (number % 1000), b"{}", headers


def _asked(index: Index, rounds: int) -> Iterator[Figure]:
    everything = LetterFilter(states=())
    all_of_it = queries.search(index, everything)
    last = queries.page(index, all_of_it, limit=_PAGE)[-1].place
    pages = {
        "first page": LetterFilter(),
        "of one state": LetterFilter(states=(State.RESOLVED,)),
        "of one error": LetterFilter(error=ERROR.type, text="payments-299:"),
        "of one key": LetterFilter(key=b"customer-7"),
        "a text that few have": LetterFilter(text="order 4711 "),
        "a text that none has": LetterFilter(text="timeout"),
        "a text that all have": LetterFilter(text="refused"),
        "a group that none has": replace(everything, group_id="nobody"),
        "a second of a day": replace(everything, since_ms=FIRST_MS, until_ms=FIRST_MS + 1_000),
    }
    questions: dict[str, Callable[[], object]] = {
        "figures of the topic": lambda: queries.summary(index),
        "groups of errors": lambda: queries.groups(index, queries.search(index, LetterFilter())),
        "page behind the first": lambda: queries.page(index, all_of_it, limit=_PAGE, after=last),
    }
    for name, wanted in pages.items():
        questions[f"page, {name}"] = lambda wanted=wanted: _page_of(index, wanted)  # type: ignore[misc]  # each its own
    for name, ask in questions.items():
        yield Figure(name, "ms", tuple(_ms(ask) for _ in range(rounds)), _MS)


def _page_of(index: Index, wanted: LetterFilter) -> None:
    """All that a page of letters asks."""
    search = queries.search(index, wanted)
    queries.page(index, search, limit=_PAGE)
    queries.count(index, search)
    queries.groups(index, search)


def _ms(ask: Callable[[], object]) -> float:
    begun_s = time.perf_counter()
    ask()
    return (time.perf_counter() - begun_s) * 1000
