"""The laws of headers, whoever has written them."""

import atexit
import random
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cache
from typing import Any, TypeAlias
from urllib.parse import unquote_to_bytes

from confluent_kafka import KafkaException, Message, Producer

from linear_retry.errors import DeadLetterError
from linear_retry.kafka.consumer.messages import foreign_group, have_no_headers, read
from linear_retry.kafka.embedded.cluster import EmbeddedKafka
from linear_retry.records.dead_letter import (
    DeadLetter,
    FailureInfo,
    parse,
    smaller_forms,
    to_dead_letter,
)
from linear_retry.records.lineage import Line
from linear_retry.records.record import Record
from linear_retry.records.retry_headers import HEADER_NAMES, REPLAY_ID
from linear_retry.records.text import UNREADABLE_NAME, Header, describe, escape_name, sendable
from tests.kafka.pipe import Pipe, RawProducer
from tests.torture.fuzz.noting import noting

Pairs: TypeAlias = list[tuple[Any, Any]]

_LONGEST_REFUSAL = 10_000
_LAST_GENERATION = 2**31 - 1
_MADE_BY_HANDLERS: tuple[Callable[[Pairs], Any], ...] = (
    list,
    tuple,
    lambda pairs: {name: value for name, value in pairs if isinstance(name, str | bytes)},
    lambda pairs: [list(pair) for pair in pairs],
    lambda pairs: [*pairs, "no pair", ("a",), ("a", b"1", b"2"), None, 5, []],
    lambda pairs: dict(enumerate(pairs)),
    lambda _: "text",
    lambda _: 7,
)


def check(pairs: Pairs, rng: random.Random) -> None:
    """Every law that needs no broker, for headers of any names and values."""
    with noting(pairs):
        _check(pairs, rng)


def _check(pairs: Pairs, rng: random.Random) -> None:
    kept = _are_sendable(pairs)
    message = Message(topic="orders", partition=0, offset=7)
    put = rng.choice(_MADE_BY_HANDLERS)(pairs) if rng.random() < 0.3 else pairs
    message.set_headers(put)
    first = _is_read(message, *rng.choice(_LOOKS))
    if put is pairs:
        assert kept == first.headers
    assert first == read(message), "read again it is another"
    _lives(first, rng)
    _is_understood_or_refused(first.headers)


def check_sent(pairs: Sequence[tuple[bytes, bytes | None]]) -> None:
    """Sent as bytes by librdkafka, they come back, and so does the letter made of them."""
    with noting(pairs):
        raw, pipe = _wire()
        raw.send(pipe.topic, pairs)
        record = _is_read(
            pipe.received(), *_LOOKS[sum(len(name) for name, _ in pairs) % len(_LOOKS)]
        )
        assert _as_they_come(pairs) == record.headers
        letter = to_dead_letter(record, FailureInfo("billing", "exhausted", 1, 1, 1, "s@1"))
        sent = tuple(letter.headers())
        back = _is_read(pipe.through(list(sent)))
        assert (sent, ()) == (back.headers, back.escaped_headers)
        assert letter == parse(back.headers, letter.key, letter.value)


def _as_they_come(pairs: Sequence[tuple[bytes, bytes | None]]) -> tuple[Header, ...]:
    """The client cuts a name at a NUL; of several that are not UTF-8 it gives none."""
    names: list[str | None] = []
    unreadable: list[bytes] = []
    for name, _ in pairs:
        cut = name.split(b"\0")[0]
        try:
            names.append(cut.decode())
        except UnicodeDecodeError:
            names.append(None)
            unreadable.append(cut)
    stands_for = escape_name(unreadable[0]) if len(unreadable) == 1 else UNREADABLE_NAME
    values = [value for _, value in pairs]
    return tuple(
        (stands_for if name is None else name, value)
        for name, value in zip(names, values, strict=True)
    )


def _are_sendable(pairs: Pairs) -> tuple[Header, ...]:
    kept, changed = sendable(pairs)
    assert len(pairs) == len(kept)
    for (name, value), (sent_name, sent_value) in zip(pairs, kept, strict=True):
        assert "\0" not in sent_name
        assert sent_name == sent_name.encode().decode()
        assert sent_value is None or type(sent_value) is bytes
        if sent_name not in changed:
            assert (name, value) == (sent_name, sent_value)
        elif sent_name != name and isinstance(name, str | bytes):
            assert _on_the_wire(name) == unquote_to_bytes(sent_name)
    assert (kept, ()) == sendable(kept), "made sendable twice it is another"
    _can_be_produced(kept)
    return kept


def _on_the_wire(name: str | bytes) -> bytes:
    return name if isinstance(name, bytes) else name.encode("utf-8", "surrogatepass")


def _is_read(message: Message, *looks: Callable[[Message], object]) -> Record:
    """Whatever has looked at it before: the first look at a bad name is the one that counts."""
    for look in looks:
        look(message)
    return read(message)


_LOOKS: tuple[tuple[Callable[[Message], object], ...], ...] = (
    (),
    (lambda message: have_no_headers([message]), lambda message: foreign_group(message, Line("a"))),
    (
        lambda message: foreign_group(message, Line("billing")),
        lambda message: have_no_headers([message]),
    ),
)


def _lives(record: Record, rng: random.Random) -> None:
    """It dies, is replayed, dies again: one identity, and headers that never pile up."""
    letter = _dies(record, rng)
    if letter.generation == _LAST_GENERATION:
        return  # the next would begin a new life
    replayed = replace(letter, replay_id="r-1", replay_count=1)
    again = _dies(record_of(replayed.headers(), offset=70), rng)
    assert (letter.retry_id, letter.destination) == (again.retry_id, again.destination)
    assert letter.original_offset == again.original_offset
    assert letter.original_headers == again.original_headers
    assert letter.generation + 1 == again.generation
    names = [name for name, _ in letter.original_headers]
    assert all(name in again.escaped_headers for name in letter.escaped_headers if name in names)


def _dies(record: Record, rng: random.Random) -> DeadLetter:
    letter = to_dead_letter(record, any_death(rng))
    users = [header for header in record.headers if header[0] not in HEADER_NAMES]
    for form in (letter, *smaller_forms(letter, record)):
        headers = form.headers()
        ours = [name for name, _ in headers if name in HEADER_NAMES]
        assert len(ours) == len(set(ours)), ours
        assert form == parse(headers, form.key, form.value), "it is not read back as it was"
    assert users == letter.headers()[: len(users)]
    _can_be_produced(letter.headers())
    return letter


def _is_understood_or_refused(headers: Sequence[Header]) -> None:
    """As a letter of whoever has written it."""
    letter, refusal = _parsed(headers)
    if letter is None:
        assert refusal.startswith("not a dead letter: "), refusal
        assert len(refusal) < _LONGEST_REFUSAL
        return
    assert letter == parse(letter.headers(), b"ann", None)
    assert (letter.replay_id is not None) == any(
        name == REPLAY_ID and value is not None for name, value in dict(headers).items()
    )


def _parsed(headers: Sequence[Header]) -> tuple[DeadLetter | None, str]:
    try:
        return parse(headers, b"ann", None), ""
    except DeadLetterError as error:
        return None, str(error)


def _can_be_produced(headers: Iterable[Header]) -> None:
    """librdkafka takes it, or says that it is too large; it is never sent from here."""
    producer, refusals = _unconnected(), []
    try:
        producer.produce("orders", b"book", headers=list(headers))
    except KafkaException as error:
        refusals.append(error.args[0].name())
    assert refusals in ([], ["MSG_SIZE_TOO_LARGE"])
    producer.purge()
    producer.poll(0)


@cache
def _unconnected() -> Any:
    return Producer({"bootstrap.servers": "127.0.0.1:1", "log_level": 0, "linger.ms": 60_000})


@cache
def _wire() -> tuple[RawProducer, Pipe]:
    """One broker for all that this process sends."""
    stack = ExitStack()
    atexit.register(stack.close)
    broker = stack.enter_context(EmbeddedKafka())
    pipe, raw = Pipe(broker), RawProducer(broker.bootstrap)
    stack.callback(pipe.close)
    stack.callback(raw.close)
    return raw, pipe


def record_of(headers: Iterable[Header], escaped: tuple[str, ...] = (), offset: int = 7) -> Record:
    return Record("orders", 0, offset, -1, b"ann", b"book", tuple(headers), escaped)


class _HostileError(Exception):
    def __str__(self) -> str:
        raise LookupError("no text")


def any_death(rng: random.Random) -> FailureInfo:
    errors = (
        None,
        _HostileError(),
        ValueError("\ud800" * 2000),
        ExceptionGroup("g", [OSError("\0")]),
    )
    error = rng.choice(errors)
    return FailureInfo(
        group_id=rng.choice(("billing", "b\udcffg", "🦊/", "b,i")),
        reason=rng.choice(("exhausted", "permanent", "given-up")),
        failures=rng.choice((0, 1, 1001)),
        first_failure_ms=rng.choice((0, -1, 1_700_000_000_000)),
        last_failure_ms=1_700_000_009_000,
        strategy=rng.choice(("s@1", "n\udcffight@0", "")),
        error=None if error is None else describe(error),
    )
