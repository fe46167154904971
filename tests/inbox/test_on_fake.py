"""A consumer with an inbox on the fake Kafka, whose time passes only when somebody waits."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.exc import OperationalError

from linear_retry import BatchError, ByKey, Event, LinearConsumer, events
from linear_retry.consumer.settings.inbox import InboxPlaces
from linear_retry.inbox import Inbox
from linear_retry.kafka import Message
from linear_retry.scope import Partition
from tests.consumer.group import LETTERS, TOPIC, OutageError, consumer_on
from tests.fake.cluster import FakeKafka
from tests.fake.topic import Headers
from tests.inbox.effects import Effects, effects_in, write

_ALL = 6


@pytest.fixture
def fake() -> FakeKafka:
    """Six messages in one partition."""
    kafka = FakeKafka(balanced=True)
    kafka.create_topic(TOPIC, 1)
    kafka.create_topic(LETTERS, 1)
    for number in range(_ALL):
        kafka.append(TOPIC, 0, b"%d" % number)
    return kafka


@pytest.fixture
def in_sqlite(sqlite_url: str) -> Iterator[Effects]:
    with effects_in(sqlite_url) as found:
        yield found


class _Program:
    """A program on the fake, whose handler writes its effect and then does what is asked here."""

    def __init__(self, fake: FakeKafka, effects: Effects) -> None:
        self.fake = fake
        self.effects = effects
        self.at_begin: dict[int, Callable[[], None]] = {}
        """By the number of transactions before."""
        self.then: dict[int, list[Exception]] = {}
        """What a message is to raise, the last first."""
        self.at_end: dict[int, Callable[[], None]] = {}
        """As `at_begin`, before what was written is committed."""
        self.calls: list[str] = []
        self._began = -1  # one is begun at the start, to look at it

    @contextmanager
    def begin(self) -> Iterator[Any]:
        number, self._began = self._began, self._began + 1
        self.at_begin.pop(number, lambda: None)()
        with self.effects.engine.begin() as connection:
            yield connection
            self.at_end.pop(number, lambda: None)()

    def consumer(self, **options: Any) -> LinearConsumer:
        program = self

        class Noting(Inbox):
            def places(self, *given: Any) -> Any:
                return _Noting(super().places(*given), program)

        return consumer_on(self.fake, inbox=Noting(self.begin, store=self.effects.url), **options)

    def run(self, **options: Any) -> None:
        with self.consumer(**options) as consumer:

            def handler(message: Message, transaction: Any) -> None:
                write(message, transaction)
                if message.offset() == _ALL - 1:
                    consumer.stop()
                if errors := self.then.get(message.offset() or 0):
                    raise errors.pop()

            consumer.run(handler)

    def loop(self, consumer: LinearConsumer) -> list[str]:
        """The attempts of a loop of one's own, and what became of each, until the last message."""
        told: list[str] = []
        for attempt in consumer:
            with attempt as message:
                write(message, attempt.transaction)
                if errors := self.then.get(message.offset() or 0):
                    raise errors.pop()
            told.append(f"{message.offset()} {attempt.state}")
            if message.offset() == _ALL - 1:
                break
        return told

    def letters(self) -> int:
        log = self.fake.log_of((LETTERS, 0))
        assert log is not None
        return log.end


class _Noting:
    """Notes in which order the consumer asks its inbox, and how many letters there are by then."""

    def __init__(self, places: InboxPlaces, program: _Program) -> None:
        self._places = places
        self._program = program

    def __getattr__(self, name: str) -> Any:
        return getattr(self._places, name)

    def leave(self, message: Message) -> None:
        self._program.calls.append(f"{message.offset()} leaves, letters: {self._program.letters()}")
        self._places.leave(message)

    def passed(self, next_offsets: Mapping[Partition, int], ended: Message | None = None) -> None:
        if self._program.letters():
            self._program.calls.append(f"passed to {max(next_offsets.values())}")
        self._places.passed(next_offsets, ended)


@pytest.fixture
def program(fake: FakeKafka, in_sqlite: Effects) -> _Program:
    return _Program(fake, in_sqlite)


def test_it_is_noted_that_a_letter_leaves_before_it_does(program: _Program) -> None:
    """And that it has left, afterwards."""
    program.then = {2: [ValueError("poison")]}
    program.run()
    assert ["2 leaves, letters: 0", "passed to 3"] == program.calls[:2]
    assert [0, 1, 3, 4, 5] == program.effects.of()


def test_a_place_that_another_member_has_is_no_failure(program: _Program) -> None:
    """Even where a failure would end the consumer at once."""

    def another() -> None:
        with program.effects.engine.begin() as connection:
            connection.execute(text("UPDATE linear_retry_inbox_place SET epoch = epoch + 1"))

    program.at_begin = {3: another}
    program.run(strategy=[], on_exhausted="stop", on_permanent="stop")
    assert [*range(_ALL)] == program.effects.of()


def test_a_database_that_becomes_an_older_copy(program: _Program) -> None:
    """As after a failover that lost transactions: what it lacks is handled again, in order."""
    program.at_begin = {4: lambda: program.effects.set_place(1)}
    program.run(strategy=[], on_exhausted="stop", on_permanent="stop")
    assert [*range(_ALL)] == program.effects.of()


def test_it_is_seen_though_no_message_comes(program: _Program) -> None:
    """Some seconds after the last message."""
    looks: list[int] = []
    with program.consumer() as consumer:

        def handler(message: Message, transaction: Any) -> None:
            write(message, transaction)
            if message.offset() == _ALL - 1:
                looks.append(1)
                if len(looks) == 2:
                    consumer.stop()

        program.fake.clock.at(30.0, lambda: program.effects.set_place(3))
        consumer.run(handler)
    assert [*range(_ALL)] == program.effects.of()
    assert 2 == len(looks)


def test_a_database_that_is_away_is_an_outage(program: _Program) -> None:
    """Its errors are not among `transient`."""

    def away() -> None:
        raise OperationalError("BEGIN", {}, ConnectionError("the connection is lost"))

    program.at_begin = {2: away, 3: away}
    program.run()
    assert [*range(_ALL)] == program.effects.of()
    assert 0 == program.letters()


def test_nothing_of_a_batch_is_done_where_one_fails(program: _Program) -> None:
    """`BatchError` says which has failed; what was written for those before it is gone too."""
    failures: list[Exception] = [BatchError(2, OutageError("down")), OutageError("down")]
    with program.consumer() as consumer:

        def handler(batch: list[Message], transaction: Any) -> None:
            for message in batch:
                write(message, transaction)
            if failures:
                raise failures.pop(0)
            if batch[-1].offset() == _ALL - 1:
                consumer.stop()

        consumer.run_batches(handler)
    assert [*range(_ALL)] == program.effects.of()
    assert 0 == program.letters()


def test_the_note_does_not_say_what_is_done(fake: FakeKafka, in_postgres: Effects) -> None:
    """A restored database lacks what the group's commit and its note have as done of keys."""
    program, held = _Program(fake, in_postgres), {0}

    def run(successes: int) -> None:
        with program.consumer(scope=ByKey(unkeyed="any"), concurrency=1) as consumer:
            done: list[int | None] = []

            def handler(message: Message, transaction: Any) -> None:
                write(message, transaction)
                if message.offset() in held:
                    raise OutageError("held")
                done.append(message.offset())
                if len(done) == successes:
                    consumer.stop()

            consumer.run(handler)

    run(_ALL - 1)
    assert [*range(1, _ALL)] == in_postgres.of()
    with in_postgres.engine.begin() as connection:
        for table in ("effect", "linear_retry_inbox_key"):
            connection.execute(text(f"DELETE FROM {table}"))
    held.clear()
    run(_ALL)
    assert [*range(_ALL)] == sorted(in_postgres.of())


def test_a_loop_of_ones_own(program: _Program) -> None:
    """A failure takes the effect of its attempt back; what becomes a letter has none."""
    program.then = {1: [OutageError("down")], 3: [ValueError("poison")]}
    with program.consumer() as consumer:
        told = program.loop(consumer)
    assert ["0 done", "1 failed", "1 done", "2 done", "3 failed", "4 done", "5 done"] == told
    assert [0, 1, 2, 4, 5] == program.effects.of()
    assert 1 == program.letters()


@pytest.mark.parametrize("first", [0, 2])
def test_no_attempt_is_offered_without_a_transaction(program: _Program, first: int) -> None:
    """A database that is away is an outage there too: at the first message, or among others."""

    def away() -> None:
        raise OperationalError("BEGIN", {}, ConnectionError("the connection is lost"))

    program.at_begin = {first: away, first + 1: away}
    seen: list[Event] = []
    with program.consumer(listeners=[seen.append]) as consumer:
        told = program.loop(consumer)
    assert [f"{n} done" for n in range(_ALL)] == told
    assert [*range(_ALL)] == program.effects.of()
    opened = [event for event in seen if isinstance(event, events.CircuitOpened)]
    assert [first] == [event.offset for event in opened]


def test_an_attempt_fails_that_cannot_be_committed(program: _Program) -> None:
    """Whatever its block did: nothing of it is there, and the message is attempted again."""

    def away() -> None:
        raise OperationalError("COMMIT", {}, ConnectionError("the connection is lost"))

    program.at_end = {1: away}
    with program.consumer() as consumer:
        told = program.loop(consumer)
    assert ["0 done", "1 failed", "1 done"] == told[:3]
    assert [*range(_ALL)] == program.effects.of()


def test_what_was_done_before_is_not_offered(program: _Program) -> None:
    """Such as a message that is replayed twice, between others."""
    came_back: Headers = [("retry-replay-id", b"1"), ("retry-message-id", b"of its first life")]
    program.fake.append(TOPIC, 0, b"again", headers=came_back)
    program.fake.append(TOPIC, 0, b"again", headers=came_back)
    program.fake.append(TOPIC, 0, b"last")
    seen: list[int | None] = []
    with program.consumer() as consumer:
        for attempt in consumer:
            with attempt as message:
                write(message, attempt.transaction)
                seen.append(message.offset())
            if message.offset() == _ALL + 2:
                break
    assert [*range(_ALL + 1), _ALL + 2] == seen == program.effects.of()


def test_what_an_interrupted_attempt_wrote_is_taken_back(program: _Program) -> None:
    """In its block, at the start of its end, and before it was entered: each comes again."""
    program.then = {1: [KeyboardInterrupt()]}  # type: ignore[list-item]
    # What was still open would lock the file: a failure ends it.
    with program.consumer(strategy=[], on_exhausted="stop", on_permanent="stop") as consumer:
        with suppress(KeyboardInterrupt):
            program.loop(consumer)
        assert [0] == program.effects.of()
        attempt = next(consumer)
        write(attempt.__enter__(), attempt.transaction)
        told = program.loop(consumer)
    assert [f"{n} done" for n in range(1, _ALL)] == told
    assert [*range(_ALL)] == program.effects.of()


def test_an_attempt_that_nobody_entered_writes_nothing(program: _Program) -> None:
    """The consumer is closed then; the next one gets its message."""
    with program.consumer() as consumer:
        next(consumer)
    with program.consumer() as consumer:
        program.loop(consumer)
    assert [*range(_ALL)] == program.effects.of()
