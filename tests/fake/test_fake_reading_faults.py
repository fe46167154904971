"""Each fault of pausing, seeking and reading does what it says."""

import gc

import pytest
from confluent_kafka import OFFSET_END, OFFSET_INVALID, KafkaError, KafkaException

from tests.fake.clients import COOPERATIVE, P0, alone, five_messages, joined, offsets, place
from tests.fake.cluster import FakeKafka


@pytest.fixture
def fake() -> FakeKafka:
    return five_messages()


def test_leak(fake: FakeKafka) -> None:
    """A paused partition delivers as many messages as the leak says."""
    consumer = joined(fake, P0)
    consumer.poll(0)
    consumer.pause([place(P0)])
    fake.faults.leak(P0, 2)
    assert [1, 2] == offsets(consumer)


def test_ignored_pause(fake: FakeKafka) -> None:
    """A pause is dropped, and the next one works."""
    consumer = joined(fake, P0)
    consumer.poll(0)
    fake.faults.ignore_pause()
    consumer.pause([place(P0)])
    assert [1] == offsets(consumer, 1)
    consumer.pause([place(P0)])
    assert [] == offsets(consumer)


@pytest.mark.parametrize("config", [{}, COOPERATIVE])
def test_dead_partition(fake: FakeKafka, config: dict[str, str]) -> None:
    """Resume and seek do not revive a dead partition; assigning it again does."""
    consumer = joined(fake, P0, **config)
    consumer.poll(0)
    fake.faults.kill(P0)
    consumer.pause([place(P0)])
    consumer.resume([place(P0)])
    consumer.seek(place(P0, 1))
    assert [] == offsets(consumer)
    assert [OFFSET_INVALID] == [item.offset for item in consumer.position([place(P0)])]
    if config:
        consumer.incremental_unassign([place(P0)])
        consumer.incremental_assign([place(P0, 1)])
    else:
        consumer.assign([place(P0, 1)])
    assert [1, 2, 3, 4] == offsets(consumer)


def test_late_resume(fake: FakeKafka) -> None:
    """A resumed partition delivers later, unless it is sought after the resume."""
    fake.faults.late_resume_s = 0.8
    consumer = joined(fake, P0)
    consumer.poll(0)
    started_s = fake.clock.now_s()
    consumer.pause([place(P0)])
    consumer.resume([place(P0)])
    consumer.poll(5)
    assert started_s + 0.8 == fake.clock.now_s()
    consumer.pause([place(P0)])
    consumer.resume([place(P0)])
    consumer.seek(place(P0, 4))
    assert [4] == offsets(consumer)


def test_jump(fake: FakeKafka) -> None:
    """The first message after a seek is a later one, once."""
    consumer = joined(fake, P0)
    consumer.poll(0)
    fake.faults.jump(P0, 3)
    consumer.seek(place(P0, 1))
    assert [3] == offsets(consumer, 1)
    consumer.seek(place(P0, 1))
    assert [1, 2, 3, 4] == offsets(consumer)


def test_stale(fake: FakeKafka) -> None:
    """The first message after a seek is the one before; then it goes on as sought."""
    consumer = joined(fake, P0)
    consumer.poll(0)
    fake.faults.stale(P0)
    consumer.seek(place(P0, 3))
    assert [2, 3, 4] == offsets(consumer)


def test_rewind(fake: FakeKafka) -> None:
    """Messages come again amid the others, once; not before anything has come."""
    fake.faults.rewind(P0, 2)
    consumer = joined(fake, P0)
    assert [0, 0, 1, 2, 3, 4] == offsets(consumer)
    fake.faults.rewind(P0, 2)
    assert [3, 4] == offsets(consumer)


def test_failing_seek(fake: FakeKafka) -> None:
    """A seek fails as often as set, and does nothing then."""
    consumer = joined(fake, P0)
    consumer.poll(0)
    fake.faults.fail_seek(KafkaError._STATE)
    with pytest.raises(KafkaException):
        consumer.seek(place(P0, 0))
    assert [1, 2, 3, 4] == offsets(consumer)


def test_gaps(fake: FakeKafka) -> None:
    """Offsets may have gaps, and markers after the last message move the end."""
    fake.append("orders", 0, gap=3)
    fake.topics["orders"].partitions[0].mark(2)
    consumer = joined(fake, P0)
    assert [0, 1, 2, 3, 4, 8] == offsets(consumer)
    (end,) = consumer.offsets_for_times([place(P0, OFFSET_END)])
    assert 11 == end.offset


def test_race(fake: FakeKafka) -> None:
    """Paused right after the assign a partition delivers all the same, until it is paused again."""
    fake.faults.race(P0)
    consumer = alone(fake)
    consumer.assign([place(P0, 0)])
    consumer.pause([place(P0)])
    assert [0, 1] == offsets(consumer, 2)
    consumer.pause([place(P0)])
    assert [] == offsets(consumer)
    consumer.resume([place(P0)])
    consumer.assign([place(P0, 2)])
    consumer.pause([place(P0)])
    assert [] == offsets(consumer)


def test_lost_seek(fake: FakeKafka) -> None:
    """A pause undoes the seek before it, and not one that has delivered, nor one after it."""
    fake.faults.pause_loses_seek = True
    consumer = joined(fake, P0)
    consumer.poll(0)
    consumer.seek(place(P0, 4))
    consumer.pause([place(P0)])
    consumer.resume([place(P0)])
    assert [1] == offsets(consumer, 1)
    consumer.pause([place(P0)])
    consumer.seek(place(P0, 4))
    consumer.resume([place(P0)])
    assert [4] == offsets(consumer)


def test_early_seek(fake: FakeKafka) -> None:
    """A seek before the first message is refused, so often; after it none is."""
    fake.faults.refuse_early_seek(P0, 2)
    consumer = alone(fake)
    consumer.assign([place(P0, 0)])
    for _ in range(2):
        with pytest.raises(KafkaException, match="_STATE"):
            consumer.seek(place(P0, 3))
    consumer.seek(place(P0, 3))
    assert [3, 4] == offsets(consumer)
    fake.faults.refuse_early_seek(P0)
    consumer.seek(place(P0, 4))
    assert ["early_seeks"] == fake.faults.left()


def test_late_fetch(fake: FakeKafka) -> None:
    """The first message after an assign or a seek takes its time."""
    fake.faults.late_fetch_s = 7.0
    consumer = alone(fake)
    consumer.assign([place(P0, 0)])
    for _ in range(2):
        asked_s = fake.clock.now_s()
        assert consumer.poll(10) is not None
        assert 7.0 == fake.clock.now_s() - asked_s
        assert [1] == offsets(consumer, 1)
        consumer.seek(place(P0, 0))


def test_jump_is_never_repeated(fake: FakeKafka) -> None:
    """The same later message from the same place comes once only: twice it would be a gap."""
    consumer = joined(fake, P0)
    consumer.poll(0)
    for first in (3, 1, 2, 1):
        fake.faults.jump(P0, 2 if first == 2 else 3)
        consumer.seek(place(P0, 1))
        assert [first] == offsets(consumer, 1)


@pytest.mark.parametrize("low", [0, 3])
def test_echo(fake: FakeKafka, low: int) -> None:
    """That no offset is committed, or which is gone, is reported again when it reads on already."""
    fake.delete_records("orders", 0, low)
    if low:
        fake.group("group")[P0] = 1
    consumer = joined(fake, P0, auto_offset_reset="error")
    missing = 1 if low else None
    assert [missing] == offsets(consumer)
    consumer.assign([place(P0, low)])
    assert [low] == offsets(consumer, 1)
    fake.faults.echo(P0)
    (echo, *others) = consumer.consume(10, 0)
    error = echo.error()
    assert error is not None
    assert (KafkaError._AUTO_OFFSET_RESET, missing) == (error.code(), echo.offset())
    assert [*range(low + 1, 5)] == [message.offset() for message in others]


def test_spoilt_headers(fake: FakeKafka) -> None:
    """The first `headers()` raises; what later ones give has a null pointer for the name."""
    fake.faults.spoil_headers(P0)
    consumer = joined(fake, P0)
    (message, *others) = consumer.consume(2, 0)
    with pytest.raises(SystemError):
        message.headers()
    (pair,) = message.headers() or []
    assert [b"value"] == gc.get_referents(pair)
    assert [None] == [other.headers() for other in others]
