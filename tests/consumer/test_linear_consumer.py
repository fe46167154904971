"""What the consumer promises to the program that holds it."""

import logging
import os
import threading
from collections.abc import Callable

import pybreaker
import pytest
from confluent_kafka import KafkaError

from linear_retry import (
    BrokerError,
    ConfigurationError,
    FencedError,
    LinearConsumer,
    Scope,
    Strategy,
    UsageError,
)
from linear_retry.events import (
    CircuitOpened,
    DeadLettered,
    Event,
    HandlerTooSlow,
    Revoked,
    Stopped,
)
from linear_retry.kafka import Message
from tests.consumer.group import GROUP, LETTERS, TOPIC, OutageError, consumer_on
from tests.consumer.runners.own_life import OwnLife, raising
from tests.fake.cluster import FakeKafka


def stopping_after(
    consumer: LinearConsumer, count: int
) -> tuple[list[bytes | None], Callable[[Message], None]]:
    seen: list[bytes | None] = []

    def handler(message: Message) -> None:
        seen.append(message.value())
        if len(seen) == count:
            consumer.stop()

    return seen, handler


def test_stop_ends_run_after_the_message_in_hand(fake: FakeKafka) -> None:
    """`stop` in the handler: this message is done and committed at close, and no other."""
    with consumer_on(fake) as consumer:
        seen, handler = stopping_after(consumer, 3)
        consumer.run(handler)
    assert (3, 3) == (len(seen), sum(fake.group(GROUP).values()))


def test_stop_before_run(fake: FakeKafka) -> None:
    """A stop asked for before `run` is not forgotten: nothing is handled."""
    with consumer_on(fake) as consumer:
        consumer.stop()
        consumer.run(lambda _: pytest.fail("handled"))
    assert {} == fake.group(GROUP)


def test_construction_does_no_io(fake: FakeKafka) -> None:
    """The constructor makes no client."""
    consumer_on(fake).close()
    assert [] == fake.consumers


def test_close_is_idempotent(fake: FakeKafka) -> None:
    """Closed twice, and by `with` once more: one goodbye."""
    events: list[Event] = []
    with consumer_on(fake, listeners=[events.append]) as consumer:
        _, handler = stopping_after(consumer, 1)
        consumer.run(handler)
        consumer.close()
        consumer.close()
    assert [Stopped(left_group=True)] == [event for event in events if isinstance(event, Stopped)]


def test_run_after_close(fake: FakeKafka) -> None:
    """A closed consumer says so."""
    consumer = consumer_on(fake)
    consumer.close()
    with pytest.raises(UsageError, match="closed"):
        consumer.run(print)


def test_run_within_the_handler(fake: FakeKafka) -> None:
    """`run` from within the handler is refused, whatever the handler makes of it."""
    with consumer_on(fake) as consumer:
        refused: list[UsageError] = []

        def handler(_: Message) -> None:
            try:
                consumer.run(print)
            except UsageError as error:
                refused.append(error)
            consumer.stop()

        consumer.run(handler)
    assert 1 == len(refused)


def test_run_in_another_thread(fake: FakeKafka) -> None:
    """The owner is whoever called `run` first, as long as that thread lives."""
    refused: list[UsageError] = []

    def intrude() -> None:
        try:
            consumer.run(print)
        except UsageError as error:
            refused.append(error)

    def handler(_: Message) -> None:
        thread = threading.Thread(target=intrude)
        thread.start()
        thread.join()
        consumer.stop()

    with consumer_on(fake) as consumer:
        consumer.run(handler)
    assert 1 == len(refused)


def test_run_after_a_fork(fake: FakeKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a child process librdkafka's threads are missing: refused."""
    consumer = consumer_on(fake)
    own = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: own + 1)
    with pytest.raises(UsageError, match="fork"):
        consumer.run(print)


def test_fenced(fake: FakeKafka) -> None:
    """Another member has taken our place: `FencedError`, and not even what is done is committed."""

    def handler(_: Message) -> None:
        fake.fence(fake.consumers[0])

    with consumer_on(fake) as consumer, pytest.raises(FencedError):
        consumer.run(handler)
    commits = [entry for entry in fake.log if entry[2] == "commit" and entry[3][1]]
    assert [] == [offsets for _, _, _, (offsets, _) in commits if any(o[2] > 0 for o in offsets)]


def test_missing_topics(fake: FakeKafka) -> None:
    """Each missing topic is named, the dead-letter topic too."""
    fake.topics.clear()
    with consumer_on(fake) as consumer, pytest.raises(ConfigurationError) as caught:
        consumer.run(print)
    assert TOPIC in str(caught.value)
    assert LETTERS in str(caught.value)


def test_unreachable_brokers(fake: FakeKafka) -> None:
    """A clear error after `start_timeout_s`, of virtual time."""
    fake.faults.brokers_down = True
    begun_s = fake.clock.now_s()
    with (
        consumer_on(fake, start_timeout_s=7) as consumer,
        pytest.raises(BrokerError, match="fake:9092"),
    ):
        consumer.run(print)
    assert 7 <= fake.clock.now_s() - begun_s < 10


def test_what_a_raising_predicate_decides(fake: FakeKafka) -> None:
    """`transient=` that raises is a bug of the program's: it ends, and nothing is decided."""

    def predicate(_: BaseException) -> bool:
        raise KeyError("oops")

    def handler(_: Message) -> None:
        raise OutageError

    with (
        consumer_on(fake, transient=predicate) as consumer,
        pytest.raises(UsageError, match="oops"),
    ):
        consumer.run(handler)
    assert [] == [one for log in fake.topics[LETTERS].partitions for one in log.records]


def test_a_raising_listener_disturbs_nothing(fake: FakeKafka) -> None:
    """A listener that raises is logged; the consumer continues, and others learn of it."""
    received: list[Event] = []

    def raising(_: Event) -> None:
        raise ValueError("listener")

    with consumer_on(fake, listeners=[raising, received.append]) as consumer:
        seen, handler = stopping_after(consumer, 6)
        consumer.run(handler)
    assert 6 == len(seen)
    assert received


def test_nothing_that_listeners_and_log_handlers_do_ends_run(
    fake: FakeKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log server that is down is an outage's likeliest companion. The bug: a listener raised, the
    line about that was written, and what the log handler then raised ended `run`."""

    class Unreachable(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise ConnectionRefusedError

    def unreachable(*_: object) -> None:
        raise ConnectionRefusedError

    class Unwell(pybreaker.CircuitBreakerListener):
        def state_change(self, *_: object) -> None:
            unreachable()

    life = OwnLife(fake, listeners=[unreachable])
    life.consumer.breaker().add_listener(Unwell())
    act = raising({2: OutageError(), 3: OutageError()}, life)

    def handler(message: Message) -> None:
        life.handle(message, act)
        life.stop_after(8)

    monkeypatch.setattr(logging.getLogger("linear_retry"), "handlers", [Unreachable()])
    with life.consumer:
        life.consumer.run(handler)
    assert (6, "closed") == (life.committed, life.consumer.circuits[Scope()].state)
    assert [] == life.violations(finished=True)


def test_a_listener_that_ends_the_program(fake: FakeKafka) -> None:
    """What it was told is so: another `run` goes on behind the dead letter. The bug: the circuit
    held the message still, and its letter was sent once more."""
    reported: list[Event] = []

    def leave(event: Event) -> None:
        if isinstance(event, DeadLettered):
            reported.append(event)
            raise SystemExit

    with consumer_on(fake, strategy=Strategy([1]), listeners=[leave]) as consumer:
        seen, handler = stopping_after(consumer, 7)

        def failing(message: Message) -> None:
            handler(message)
            if message.value() == b"0":
                raise OutageError

        with pytest.raises(SystemExit):
            consumer.run(failing)
        assert "closed" == consumer.circuits[Scope()].state
        consumer.run(failing)
    assert (2, 1) == (seen.count(b"0"), len(reported))


@pytest.mark.parametrize("last", [Revoked, Stopped])
def test_a_listener_that_ends_the_program_at_close(fake: FakeKafka, last: type[Event]) -> None:
    """The group is left all the same. The bug: the member stayed, and where the process went on its
    partitions stood still until the group missed its polls."""

    def leave(event: Event) -> None:
        if isinstance(event, last):
            raise SystemExit

    with pytest.raises(SystemExit), consumer_on(fake, listeners=[leave]) as consumer:
        consumer.run(stopping_after(consumer, 6)[1])
    assert fake.consumers[0].closed
    assert 6 == sum(fake.group(GROUP).values())


def test_ctrl_c_at_close(fake: FakeKafka) -> None:
    """While the last commit is awaited: the group is left all the same."""
    fake.faults.commit_answer_s = 60.0
    consumer = consumer_on(fake)
    consumer.run(stopping_after(consumer, 6)[1])
    fake.faults.raise_in_poll(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        consumer.close()
    assert fake.consumers[0].closed


def test_circuits_while_open(fake: FakeKafka) -> None:
    """Any thread sees what is held, since how many failures, and until when."""
    views = []

    def look(event: Event) -> None:
        if isinstance(event, CircuitOpened):
            views.append(consumer.circuits[Scope()])
            consumer.stop()

    def handler(_: Message) -> None:
        raise OutageError

    with consumer_on(fake, listeners=[look]) as consumer:
        assert "closed" == consumer.circuits[Scope()].state
        consumer.run(handler)
    assert [("open", 1, TOPIC, 0)] == [(v.state, v.failures, v.topic, v.offset) for v in views]
    assert "open" == consumer.breaker().current_state


def test_a_run_goes_on_after_an_error(fake: FakeKafka) -> None:
    """After an error out of `run`, another `run` begins at the first message that is not done."""
    with consumer_on(fake) as consumer:
        seen, handler = stopping_after(consumer, 6)
        calls: list[bytes | None] = []

        def interrupted(message: Message) -> None:
            calls.append(message.value())
            if len(calls) == 3:
                raise KeyboardInterrupt
            handler(message)

        with pytest.raises(KeyboardInterrupt):
            consumer.run(interrupted)
        consumer.run(handler)
    assert sorted(b"%d" % number for number in range(6)) == sorted(filter(None, seen))


def test_a_commit_that_was_refused_for_good(fake: FakeKafka) -> None:
    """A commit that can never succeed is an error, not a log line."""
    with consumer_on(fake) as consumer:
        _, handler = stopping_after(consumer, 1_000)

        def fail_then_handle(message: Message) -> None:
            fake.faults.fail_commit(KafkaError.GROUP_AUTHORIZATION_FAILED, 5)
            handler(message)

        with pytest.raises(BrokerError):
            consumer.run(fail_then_handle)


def test_too_slow_in_the_midst_of_a_batch(fake: FakeKafka) -> None:
    """The message behind it was blamed, which nobody had attempted."""
    for _ in range(10):
        fake.append(TOPIC, 0)
    slow: list[tuple[str, int, int]] = []

    def listen(event: Event) -> None:
        if isinstance(event, HandlerTooSlow):
            slow.append((event.topic, event.partition, event.offset))
            consumer.stop()

    def handler(message: Message) -> None:
        if message.partition() == 0 and message.offset() == 3:
            fake.clock.advance(301)

    with consumer_on(fake, listeners=[listen]) as consumer:
        consumer.run(handler)
    assert [(TOPIC, 0, 3)] == slow
