"""Fuzzes the reading of messages, and the letters that are made of them."""

import ast
import random
from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from linear_retry.records.dead_letter import DeadLetter, to_dead_letter
from linear_retry.records.retry_headers import HEADER_NAMES
from linear_retry.records.text import UNREADABLE_NAME
from tests.torture.fuzz.header_laws import Pairs, any_death, check, check_sent, record_of
from tests.torture.layer import Counts

CORPUS = Path(__file__).parent / "corpus" / "headers"

_OWN = tuple(sorted(HEADER_NAMES))
_NAMES: tuple[Any, ...] = (
    *("", "a", "a,b", ",", "100%", "%FF", "naïve", "🦊", "retry-foo", "Retry-Id", "retry-id "),
    *("\ud800", "\udfff", "a\0b", "\0", "\x1b[31m", "\n", "n" * 2000, UNREADABLE_NAME),
    *(b"a", b"\xff", b"\xff\xfe", b"\xc0\x80", b"\xed\xa0\x80", b"\0", b"a,\xff", None, 7, ("t",)),
)
_VALUES: tuple[Any, ...] = (
    *(None, b"", b"1", b"0", b"-1", b"-0", b"007", b"+1", b" 1", b"1_0", b"1.0", b"1e3", b"NaN"),
    *(b"9223372036854775807", b"9223372036854775808", b"2147483647", b"2147483648", b"9" * 5000),
    *("١".encode(), b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\0", b"a,b", b",", b"x" * 70_000),
    *(b"orders", b"billing", b"dead-letter", b"retry", b"2", b"\xef\xbb\xbf1", b"1\n"),
)
_FOREIGN_VALUES: tuple[Any, ...] = (
    "text",
    "\ud800",
    7,
    10**4000,
    1.5,
    float("nan"),
    bytearray(b"x"),
)


def play_garbled(rng: random.Random) -> Counts:
    """Headers out of the drawer of nasty ones, or of a letter, changed a little."""
    check(_garbled(rng), rng)
    return Counter({"garbled headers": 1})


def play_sent(rng: random.Random) -> Counts:
    """Headers as bytes that librdkafka has sent and given back, and the letter made of them."""
    count = rng.choice((1, 1, 2, 3, 8))
    pairs = [(_wire_name(rng), rng.choice(_VALUES)) for _ in range(count)]
    check_sent(pairs)
    return Counter({"headers sent by librdkafka": 1})


@cache
def corpus() -> dict[str, Pairs]:
    """By name: each file is a list of pairs, as Python writes it."""
    return {
        path.name: ast.literal_eval(path.read_text("utf-8")) for path in sorted(CORPUS.glob("*"))
    }


@cache
def _mixed_in() -> list[Pairs]:
    return [pairs for pairs in corpus().values() if len(repr(pairs)) < 5000]


def _garbled(rng: random.Random) -> Pairs:
    pairs: Pairs = []
    if rng.random() < 0.5:
        pairs += _letter(rng).headers()
    if rng.random() < 0.2:
        pairs += rng.choice(_mixed_in())
    for _ in range(rng.choice((0, 1, 1, 2, 3, 6))):
        _change(pairs, rng)
    return pairs


def _change(pairs: Pairs, rng: random.Random) -> None:
    at = rng.randrange(len(pairs)) if pairs else 0
    value = rng.choice(_VALUES if rng.random() < 0.8 else _FOREIGN_VALUES)
    name = rng.choice(_OWN) if rng.random() < 0.5 else rng.choice(_NAMES)
    match rng.randrange(6):
        case 0 if pairs:
            del pairs[at]
        case 1 if pairs:
            pairs[at] = (pairs[at][0], value)
        case 2 if pairs:
            pairs.insert(rng.randint(0, len(pairs)), pairs[at])
        case 3 if pairs:
            pairs[at] = (pairs[at][0], rng.randbytes(rng.randrange(6)))
        case _:
            pairs.insert(at, (name, value))


def _letter(rng: random.Random) -> DeadLetter:
    letter = to_dead_letter(record_of((("trace", b"1"),)), any_death(rng))
    again = rng.choice((None, "r-1", ""))
    return letter if again is None else replace(letter, replay_id=again, replay_count=1)


def _wire_name(rng: random.Random) -> bytes:
    name = rng.choice((*_NAMES, *_OWN))
    if isinstance(name, str):
        return name.encode("utf-8", "surrogatepass")
    return name if isinstance(name, bytes) else rng.randbytes(3)
