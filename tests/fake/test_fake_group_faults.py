"""Each fault of members, their commits and the brokers does what it says."""

import threading
from contextlib import nullcontext
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from tests.fake.clients import COOPERATIVE, P0, P1, calls, five_messages, joined, offsets, place
from tests.fake.cluster import FakeKafka

Answers = list[tuple[int | None, list[tuple[int, int | None]]]]


@pytest.fixture
def fake() -> FakeKafka:
    return five_messages()


def noted(answers: Answers) -> Any:
    """An `on_commit` that keeps codes: of the whole, and of each partition."""

    def note(error: KafkaError | None, partitions: list[TopicPartition]) -> None:
        each = [(item.partition, item.error.code() if item.error else None) for item in partitions]
        answers.append((error.code() if error else None, each))

    return note


def test_raising_poll(fake: FakeKafka) -> None:
    """What a poll had taken when it raised is gone."""
    consumer = joined(fake, P0)
    fake.faults.raise_in_poll(RuntimeError("in poll"))
    with pytest.raises(RuntimeError, match="in poll"):
        consumer.poll(0)
    assert [1, 2, 3, 4] == offsets(consumer)


def test_raising_call(fake: FakeKafka) -> None:
    """A call raises what is set, as often, and does nothing."""
    consumer = joined(fake, P0)
    consumer.poll(0)
    fake.faults.raise_in_call("pause", KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        consumer.pause([place(P0)])
    assert [1] == offsets(consumer, 1)
    consumer.pause([place(P0)])
    assert [] == offsets(consumer)


@pytest.mark.parametrize("stay", [False, True])
def test_outdated(fake: FakeKafka, stay: bool) -> None:
    """Whether a consume returns what it had taken of a partition that is revoked inside it."""
    fake.faults.outdated_stay = stay
    consumer = joined(fake, P0)
    consumer.poll(0)
    fake.assign(consumer, [P1], after=2)
    assert ([1, 2] if stay else []) == offsets(consumer)


def test_slow_close(fake: FakeKafka) -> None:
    """`close` takes virtual time, or hangs until it is let go."""
    fake.faults.close_takes_s = 45.0
    consumer, hanging = joined(fake, P0), joined(fake)
    asked_s = fake.clock.now_s()
    consumer.close()
    assert 45.0 == fake.clock.now_s() - asked_s
    go = fake.faults.close_hangs = threading.Event()
    closing = threading.Thread(target=hanging.close)
    closing.start()
    assert not hanging.closed
    go.set()
    closing.join()
    assert hanging.closed


@pytest.mark.parametrize("config", [{}, COOPERATIVE])
def test_empty_callbacks(fake: FakeKafka, config: dict[str, str]) -> None:
    """A rebalance of nothing: with an eager assignment only a member that has nothing sees it."""
    consumer, idle = joined(fake, P0, **config), joined(fake, **config)
    for one in (consumer, idle):
        one.poll(0)
        fake.call_back_empty(one, "revoke")
        one.poll(0)
    reported = calls(fake, "on_revoke")
    assert [("on_revoke", ())] * (2 if config else 1) == reported
    assert consumer.has(P0)


def test_a_loss_inside_a_commits_callback_is_reported_once(fake: FakeKafka) -> None:
    """And what the group wants then is served after it."""

    def answered(*_: object) -> None:
        fake.lose(consumer)
        fake.assign(consumer, [P0])

    consumer = joined(fake, P0, on_commit=answered)
    consumer.poll(0)
    consumer.commit(offsets=[place(P0, 1)])
    for _ in range(3):
        consumer.poll(0)
    reported = [call for _, _, call, _ in fake.log if call.startswith("on_")]
    assert ["on_assign", "on_lost", "on_assign"] == reported


def test_fenced_rejoins(fake: FakeKafka) -> None:
    """Polled on, a fenced member is given what it had: librdkafka joins once more."""
    consumer = joined(fake, P0)
    consumer.poll(0)
    fake.fence(consumer, rejoins=True)
    error = consumer.poll(0)
    assert error is not None
    assert not consumer.has(P0)
    consumer.poll(0)
    assert consumer.has(P0)


def test_zombie_commits(fake: FakeKafka) -> None:
    """A member that is out commits until another is given the partition, and not after."""
    fake.faults.zombies_commit = True
    zombie, heir = joined(fake, P0, P1), joined(fake)
    zombie.poll(0)
    fake.lose(zombie)
    zombie.commit(offsets=[place(P0, 1)], asynchronous=False)
    fake.assign(heir, [P0])
    with pytest.raises(KafkaException, match="UNKNOWN_MEMBER_ID"):
        zombie.commit(offsets=[place(P0, 2)], asynchronous=False)
    zombie.commit(offsets=[place(P1, 1)], asynchronous=False)
    fake.assign(heir, [])
    with pytest.raises(KafkaException, match="UNKNOWN_MEMBER_ID"):
        zombie.commit(offsets=[place(P0, 2)], asynchronous=False)
    assert {P0: 1, P1: 1} == fake.group("group")


def test_deleted_topic(fake: FakeKafka) -> None:
    """Who is subscribed to it learns of it once, and reads nothing of it."""
    consumer = joined(fake, P0)
    consumer.poll(0)
    fake.delete_topic("orders")
    (message,) = consumer.consume(10, 0)
    error = message.error()
    assert error is not None
    assert KafkaError.UNKNOWN_TOPIC_OR_PART == error.code()
    assert [] == offsets(consumer)


def test_failing_commit(fake: FakeKafka) -> None:
    """A failed commit stores nothing."""
    consumer = joined(fake, P0)
    consumer.poll(0)
    fake.faults.fail_commit(KafkaError.REBALANCE_IN_PROGRESS)
    with pytest.raises(KafkaException):
        consumer.commit(offsets=[place(P0, 1)], asynchronous=False)
    assert {} == fake.group("group")


def test_commit_that_lands(fake: FakeKafka) -> None:
    """The broker has it, whatever the answer says."""
    answers: Answers = []
    consumer = joined(fake, P0, on_commit=noted(answers))
    consumer.poll(0)
    fake.faults.fail_commit(KafkaError._TIMED_OUT, 2, lands=True)
    with pytest.raises(KafkaException):
        consumer.commit(offsets=[place(P0, 1)], asynchronous=False)
    consumer.commit(offsets=[place(P0, 2)])
    consumer.poll(0)
    assert [(KafkaError._TIMED_OUT, [(0, None)])] == answers
    assert {P0: 2} == fake.group("group")


def test_partly_refused_commit(fake: FakeKafka) -> None:
    """One partition's offset is refused in its own entry, and the others are there."""
    answers: Answers = []
    consumer = joined(fake, P0, P1, on_commit=noted(answers))
    consumer.poll(0)
    fake.faults.fail_commit_of(P1, KafkaError.NOT_COORDINATOR)
    consumer.commit(offsets=[place(P0, 1), place(P1, 1)])
    consumer.poll(0)
    assert [(None, [(0, None), (1, KafkaError.NOT_COORDINATOR)])] == answers
    assert {P0: 1} == fake.group("group")


@pytest.mark.parametrize("late", [False, True])
def test_unanswered_commit(fake: FakeKafka, late: bool) -> None:
    """Arrived or not, its answer never comes; a later synchronous one arrives after it."""
    answers: Answers = []
    consumer = joined(fake, P0, on_commit=noted(answers))
    consumer.poll(0)
    fake.faults.commit_answer_s, fake.faults.commits_land_late = None, late
    consumer.commit(offsets=[place(P0, 1)])
    consumer.consume(10, 60)
    assert ({} if late else {P0: 1}, []) == (fake.group("group"), answers)
    consumer.commit(offsets=[place(P0, 2)], asynchronous=False)
    assert {P0: 2} == fake.group("group")


def test_no_commit_overtakes_another(fake: FakeKafka) -> None:
    """One that was sent before arrives before, also where they are no longer late: of a lower
    offset that arrived last the group would keep that, and nobody would commit again."""
    consumer = joined(fake, P0)
    consumer.poll(0)
    fake.faults.commit_answer_s, fake.faults.commits_land_late = 2.0, True
    consumer.commit(offsets=[place(P0, 1)])
    fake.faults.clear()
    consumer.commit(offsets=[place(P0, 2)])
    consumer.consume(10, 60)
    assert {P0: 2} == fake.group("group")


@pytest.mark.parametrize(("back_s", "took_s"), [(20.0, 20.0), (60.0, 45.0)])
def test_blocking_commit(fake: FakeKafka, back_s: float, took_s: float) -> None:
    """A synchronous commit waits for brokers that are down, and not for ever."""
    consumer = joined(fake, P0)
    consumer.poll(0)
    fake.faults.brokers_down, fake.faults.commit_blocks_s = True, 45.0
    fake.clock.at(back_s, fake.faults.clear)
    asked_s = fake.clock.now_s()
    with nullcontext() if back_s < took_s + 1 else pytest.raises(KafkaException):
        consumer.commit(offsets=[place(P0, 1)], asynchronous=False)
    assert took_s == fake.clock.now_s() - asked_s
    assert (back_s < 45) == (fake.group("group") == {P0: 1})


def test_brokers_down(fake: FakeKafka) -> None:
    """Nothing comes and nothing is committed while the brokers are down."""
    consumer = joined(fake, P0)
    consumer.poll(0)
    fake.faults.brokers_down = True
    assert [] == offsets(consumer)
    with pytest.raises(KafkaException):
        consumer.commit(offsets=[place(P0, 1)], asynchronous=False)
    fake.faults.clear()
    assert [1, 2, 3, 4] == offsets(consumer)


def test_error_storm(fake: FakeKafka) -> None:
    """With the brokers down `error_cb` learns of it in each poll; else nothing is reported."""
    received: list[KafkaError] = []
    consumer = joined(fake, P0, error_cb=received.append)
    fake.faults.errors_per_poll = 100
    consumer.poll(0)
    assert [] == received
    fake.faults.brokers_down = True
    consumer.poll(0)
    assert 100 == len(received)
