"""Measures the console with a large dead-letter topic: its index, its answers, its first paint."""

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from itertools import count
from pathlib import Path
from urllib.parse import urlencode

import httpx
from playwright.sync_api import Browser, Page

from benchmarks.figures import Figure, Result, Target, percentile
from benchmarks.letters import ERROR, headers_of_letter
from benchmarks.report import say
from benchmarks.scale import Scale
from benchmarks.topics import PARTITIONS
from linear_retry.console.letters import queries
from linear_retry.console.letters.conditions import LetterFilter
from linear_retry.console.letters.index import Index
from linear_retry.console.letters.indexer import Indexer
from linear_retry.console.letters.query_string import query_of
from linear_retry.console.letters.rows import pattern_of
from linear_retry.console.letters.schema import KINDS
from linear_retry.dlq import DeadLetterTopic, Filter, State
from tests.chromium import browser
from tests.console.browser.process import running
from tests.dlq.scene import Scene
from tests.kafka_operations import Record, wait_until
from tests.real_kafka import RealKafka

_LIMIT_S = 3600.0
_RATE = Target("at least", 2_000)
_MS = Target("at most", 300)
_PAINT = """() => new Promise((resolve) => new PerformanceObserver((list) => {
  for (const { startTime } of list.getEntriesByName("first-contentful-paint")) resolve(startTime);
}).observe({ type: "paint", buffered: true }))"""
_numbers = count(1)


def run(kafka: RealKafka, scale: Scale) -> Result:
    """Letters of as many errors as are told apart; a thousand of them are resolved.

    The console is the command, in a process of its own, and is asked as a browser asks it.
    """
    letters = scale.listed_letters
    given = Scene(kafka, "orders", f"console-letters-{next(_numbers)}.dlq")
    kafka.create_topic(given.letters, PARTITIONS)
    kafka.produce(given.letters, _letters(letters))
    with DeadLetterTopic(given.letters, given.config) as topic:
        topic.resolve(Filter(limit=1_000), by="benchmark")
    with tempfile.TemporaryDirectory() as made:
        state = Path(made) / "state"
        state.mkdir(mode=0o700)
        index = Index(state, given.letters)
        rate = letters / _built_s(index, given)
        say(f"{letters:,} letters indexed")
        size = sum(file.stat().st_size for file in state.iterdir())
        with running(given, Path(made)) as console, httpx.Client(timeout=60) as client:
            page = f"{console.url}/letters/{given.letters}"
            wait_until(lambda: ">indexed<" in client.get(page).text, "it has caught up")
            asked = [
                Figure(f"answer, {name}", "ms", _answers_ms(client, page, each, scale.rounds), _MS)
                for name, each in _filters(index).items()
            ]
            with browser() as by:
                painted = list(_painted(by, page, scale))
    figures = (
        Figure("indexed", "letters/s", (rate,) * scale.rounds, _RATE),
        Figure("a letter in the index", "bytes", (size / letters,) * scale.rounds),
        *painted,
        *asked,
    )
    return Result(figures, notes=(f"{letters:,} letters of {KINDS:,} errors",))


def _letters(letters: int) -> Iterator[Record]:
    for number in range(letters):
        partition, offset = number % PARTITIONS, number // PARTITIONS
        theirs = ("tenant", b"tenant-%d" % (number % 1000)), ("trace", b"%032x" % number)
        headers = (*theirs, *headers_of_letter("orders", partition, offset, _message(number)))
        yield partition, b"customer-%d" % (number % 1000), b"{}", headers


def _message(number: int) -> str:
    """Of which digits are left out where errors are told apart: so its host is named in letters."""
    host = "".join(chr(ord("a") + int(digit)) for digit in f"{number % KINDS:04}")
    return f"order {number} refused: payments-{host}:8080 answered 503"


def _built_s(index: Index, given: Scene) -> float:
    begun_s = time.perf_counter()
    with closing(Indexer(index, given.config)) as indexer:
        indexer.start()
        wait_until(lambda: indexer.progress.is_complete, "all is indexed", within_s=_LIMIT_S)
        return time.perf_counter() - begun_s


def _filters(index: Index) -> dict[str, LetterFilter]:
    oldest_ms = queries.summary(index).oldest_open_ms or 0
    of_a_second = LetterFilter(since_ms=oldest_ms + 1_000, until_ms=oldest_ms + 2_000)
    return {
        "first page": LetterFilter(),
        "those of one state": LetterFilter(states=(State.RESOLVED,)),
        "those of one error": LetterFilter(error=ERROR.type, pattern=pattern_of(_message(4711))),
        "those of one key": LetterFilter(key=b"customer-7"),
        "those of a second": of_a_second,
        "a group that none has": LetterFilter(group_id="nobody", states=()),
        "a text that few have": LetterFilter(text="order 4711 "),
        "a text that none has": LetterFilter(text="timeout"),
        "a text that all have": LetterFilter(text="refused"),
        "a text that none has, of parts that all have": LetterFilter(text="refused refused"),
        "three characters that all have": LetterFilter(text="503"),
        "three characters that none has": LetterFilter(text="zqx"),
        "a text of one key": LetterFilter(text="refused", key=b"customer-7"),
        "a text of a second": replace(of_a_second, text="-abcd:"),
        "a text of an error that none has": LetterFilter(error="ValueError", text="refused"),
        "those of a header": LetterFilter(header=("tenant", b"tenant-7")),
        "a header that one has": LetterFilter(header=("trace", b"%032x" % 4711)),
        "a header that none has": LetterFilter(header=("tenant", b"nobody")),
        "all without a text that few have": LetterFilter(not_text="order 4711 "),
        "all without a type that all have": LetterFilter(not_text=ERROR.type),
        "all without a text that all have": LetterFilter(not_text="refused"),
        "all of other topics": LetterFilter(not_origin="orders"),
        "those without a key": LetterFilter(no_key=True),
    }


def _answers_ms(
    client: httpx.Client, page: str, wanted: LetterFilter, rounds: int
) -> tuple[float, ...]:
    """From the request to the last byte."""
    found = []
    for _ in range(rounds):
        begun_s = time.perf_counter()
        client.get(f"{page}?{urlencode(query_of(wanted))}").raise_for_status()
        found.append((time.perf_counter() - begun_s) * 1000)
    return tuple(found)


def _painted(by: Browser, page: str, scale: Scale) -> Iterator[Figure]:
    """By a browser that has shown another page, and by one that has no styles and scripts yet."""
    context = by.new_context()
    warm = context.new_page()
    warm.goto(page)
    ways: dict[str, Callable[[], float]] = {
        "first paint": lambda: _paint_ms(warm, page),
        "first paint, nothing cached": lambda: _paint_uncached_ms(by, page),
    }
    for name, load in ways.items():
        loads = [[load() for _ in range(scale.page_loads)] for _ in range(scale.rounds)]
        middle = tuple(percentile(each, 50) for each in loads)
        yield Figure(f"{name}, p50 of {scale.page_loads}", "ms", middle, _MS)
        slowest = tuple(map(max, loads))
        yield Figure(f"{name}, slowest of {scale.page_loads}", "ms", slowest, _MS)
    context.close()


def _paint_uncached_ms(by: Browser, url: str) -> float:
    context = by.new_context()
    found = _paint_ms(context.new_page(), url)
    context.close()
    return found


def _paint_ms(page: Page, url: str) -> float:
    page.goto(url)
    found: float = page.evaluate(_PAINT)
    return found
