"""Retry topics whose settings change, that are deleted, and readers whose clocks are wrong."""

from functools import partial
from typing import Any

import pytest

from linear_retry import ConfigurationError, RetryTopics, events
from linear_retry.consumer.settings.consumer_config import Dependencies
from linear_retry.kafka import Message
from linear_retry.kafka.consumer.messages import read
from linear_retry.retry.clock import SystemClock
from linear_retry.testing import AttemptStarted
from tests.kafka_operations import wait_until
from tests.scenarios.handlers import OutageError
from tests.scenarios.protocols import both_protocols
from tests.scenarios.retry_scene import Outage, RetryScene, RetrySceneFactory
from tests.scenarios.scene import Member
from tests.scenarios.test_gaps import COMPACTED

pytestmark = pytest.mark.broker

_MINUTES_S = 300
_DELAY_S = 2.0
_STAMPED = {"message.timestamp.type": "LogAppendTime"}
_QUICK_TO_FIND = {"topic.metadata.refresh.interval.ms": 300}


class _WrongClock(SystemClock):
    """A machine whose clock is set wrong. The broker's cannot be: the difference is what counts."""

    def __init__(self, ahead_s: int) -> None:
        self._ahead_ms = ahead_s * 1000

    def utc_ms(self) -> int:
        return super().utc_ms() + self._ahead_ms


def _on(ahead_s: int) -> dict[str, Any]:
    return {"_dependencies": Dependencies(clock=_WrongClock(ahead_s))}


def _one(prefix: str, delay_s: float = _DELAY_S) -> RetryTopics:
    return RetryTopics(prefix, strategy=[delay_s], limit=None)


def _waits_s(group: RetryScene) -> list[float]:
    """How long each retry had been in its topic, by clocks that are right."""
    attempts = [each for each in group.log() if isinstance(each, AttemptStarted)]
    return [each.hop.waited_s for each in attempts if each.hop is not None]


def _wait_for_waiting(group: RetryScene, member: Member, count: int) -> None:
    """Until so many are in its memory."""
    wait_until(
        lambda: member.consumer.health().waiting == count, f"{count} wait", detail=group.story
    )


def _offsets(group: RetryScene) -> list[int]:
    """Those in the first partition of the retry topic."""
    return group.visible().get((group.retries.topics[0], 0), [])


@pytest.mark.parametrize("writer_s", [-_MINUTES_S, _MINUTES_S], ids=["behind", "ahead"])
def test_the_writers_clock(retry_scene: RetrySceneFactory, writer_s: int) -> None:
    """Minutes off, it puts a wrong time for people into the headers, and no attempt is early or
    late for it."""
    group = retry_scene(_one, strategy=[])
    group.write([(0, None, b"saved 1", ())])
    dependency = Outage()
    group.live(dependency, **_on(writer_s))
    group.retry(dependency)
    group.wait_for_ends(1)
    assert [] == group.end_well()
    (record,) = group.kafka.read(group.retries.topics[0])
    for_people_ms = int(dict(read(record).headers)["retry-at-ms"] or 0)
    off_s = (for_people_ms - record.timestamp()[1]) / 1000 - _DELAY_S
    assert pytest.approx(writer_s, abs=_MINUTES_S / 2) == off_s


@pytest.mark.parametrize("reader_s", [-_MINUTES_S, _MINUTES_S], ids=["behind", "ahead"])
def test_the_readers_clock(retry_scene: RetrySceneFactory, reader_s: int) -> None:
    """Minutes behind the broker's, it makes an attempt late by one delay at most; minutes ahead,
    early by that much at most."""
    delay_s = _DELAY_S if reader_s < 0 else _MINUTES_S / 2
    group = retry_scene(partial(_one, delay_s=delay_s), strategy=[])
    group.write([(0, None, b"saved 1", ()), (1, None, b"saved too 1", ())])
    dependency = Outage()
    group.live(dependency)
    group.retry(dependency, **_on(reader_s))
    group.wait_for_ends(2)
    assert [] == group.end_well(skew_s=max(reader_s, 0))
    assert [reader_s > 0] * 2 == [wait_s < delay_s for wait_s in _waits_s(group)]


@pytest.mark.parametrize("reader_s", [0, _MINUTES_S], ids=["right", "ahead"])
def test_a_duration_is_measured_by_two_clocks(
    retry_scene: RetrySceneFactory, reader_s: int
) -> None:
    """`max_duration` counts from a failure that the live line's clock has stamped: a retry line
    that is minutes ahead gives a message up at its first retry."""

    def single(prefix: str) -> RetryTopics:
        return RetryTopics.single(prefix, every=0.3, max_duration=_MINUTES_S / 2)

    group = retry_scene(single, strategy=[])
    group.write([(0, None, b"saved 3", ())])
    dependency = Outage()
    group.live(dependency)
    group.retry(dependency, **_on(reader_s))
    group.wait_for_ends(1)
    assert [] == group.end_well(skew_s=reader_s)
    assert (reader_s > 0) == (group.dead_letters() != [])


@pytest.mark.parametrize("transactional", [False, True], ids=["plain", "transactional"])
def test_huge_headers(retry_scene: RetrySceneFactory, transactional: bool) -> None:
    """900 KB of them go through the retry topics to the dead letters byte for byte."""
    group = retry_scene(_six_hundred, strategy=[], transactional=transactional)
    headers = [(f"trace-{number}", bytes([number % 256]) * 890) for number in range(1000)]
    group.write([(0, b"key", b"lost", headers)])
    seen: list[Any] = []

    def handle(message: Message) -> None:
        seen.append(read(message).headers[: len(headers)])
        raise OutageError("x" * 2000)

    group.live(handle)
    group.retry(handle)
    group.wait_for_ends(1)
    assert [] == group.end_well()
    assert [tuple(headers)] * 3 == list(map(tuple, seen))
    (letter,) = group.dead_letters()
    assert (b"lost", tuple(headers), 2) == (letter.value, letter.original_headers, letter.step)


def _six_hundred(prefix: str) -> RetryTopics:
    return RetryTopics(prefix, strategy=["300ms", "600ms"], limit=None)


@pytest.mark.parametrize("transactional", [False, True], ids=["plain", "transactional"])
def test_headers_that_a_retry_topic_does_not_take(
    retry_scene: RetrySceneFactory, transactional: bool
) -> None:
    """The message is held, and said to be too large for that topic, until it takes more."""
    group = retry_scene(_one, strategy=[], transactional=transactional)
    (topic,) = group.retries.topics
    group.kafka.set_topic(topic, {"max.message.bytes": "20000"})
    headers = [(f"trace-{number}", bytes(190)) for number in range(100)]
    group.write([(0, None, b"saved 1", headers), (0, None, b"fine 0", ())])
    dependency = Outage()
    group.live(dependency)
    group.retry(dependency)
    failed = group.wait_for(events.DeadLetterFailed)
    assert (topic, 0) == (failed.dead_letter_topic, failed.offset)
    assert "raise that topic's max.message.bytes" in failed.error
    assert [] == dependency.seen
    group.kafka.set_topic(topic, {"max.message.bytes": "40000"})
    group.wait_for_ends(2)
    assert [] == group.end_well()
    assert [(b"fine 0", 1), (b"saved 1", 2)] == sorted(dependency.seen)


def test_compaction(retry_scene: RetrySceneFactory, caplog: pytest.LogCaptureFixture) -> None:
    """Switched on while records of one key wait, it takes none from a reader's memory. From a topic
    it takes all but the last, and no reader can know: each that starts then warns of it."""
    group = retry_scene(_one, strategy=[])
    dependency, (topic,) = Outage(), group.retries.topics
    group.live(dependency)
    first = group.retry(dependency, "first")
    group.write([(0, b"a", b"a%d 1" % number, ()) for number in range(3)])
    _wait_for_waiting(group, first, 3)
    group.kafka.set_topic(topic, COMPACTED)
    _wait_until_compacted(group, 0)
    group.wait_until_done()
    first.stop()
    assert {b"a0 1", b"a1 1", b"a2 1"} <= {name for name, _ in dependency.seen}
    assert [] == [each for each in caplog.messages if "has compact" in each]
    begin = group.kafka.end_offsets(topic)[0]
    group.write([(0, b"b", b"b%d 1" % number, ()) for number in range(3)])
    _wait_until_compacted(group, begin)
    group.retry(dependency, "second")
    group.wait_until_done()
    assert [] == group.end_well()
    assert [] == group.emitted(events.DataLost)
    names = {name for name, _ in dependency.seen}
    assert (False, True) == (b"b0 1" in names, b"b2 1" in names)
    assert 1 == len([each for each in caplog.messages if f"{topic}: cleanup.policy has" in each])


def _wait_until_compacted(group: RetryScene, offset: int) -> None:
    """Until this record is gone; the newest segment is never compacted, so there are newer ones."""

    def is_gone() -> bool:
        found = _offsets(group)
        number = found[-1] if found else 0
        group.write([(0, b"key %d" % number, b"nudge %d 1" % number, ())])
        return len(found) > offset and offset not in found

    wait_until(is_gone, "it is compacted", detail=group.story)


def test_retention_no_longer_than_the_delay(retry_scene: RetrySceneFactory) -> None:
    """Neither line starts; both figures are named."""
    group = retry_scene(_one, strategy=[])
    group.kafka.set_topic(group.retries.topics[0], {"retention.ms": "1500"})
    for join in (group.live, group.retry):
        with pytest.raises(ConfigurationError) as refused:
            join(Outage()).result()
        assert "retention.ms=1500 (1500ms) is no longer than the delay, 2s" in str(refused.value)


def test_the_head_is_removed_before_the_first_commit(retry_scene: RetrySceneFactory) -> None:
    """The bug: nothing was said of retries that were removed before a retry line first ran."""
    group = retry_scene(_one, strategy=[])
    dependency, (topic,) = Outage(), group.retries.topics
    group.live(dependency)
    group.write([(0, None, b"message %d 1" % number, ()) for number in range(4)])
    group.wait_for(events.SentToRetry, 4)
    group.kafka.delete_records(topic, 0, 3)
    retry = group.retry(dependency)
    group.wait_for_ends(1)
    retry.stop()
    assert [events.DataLost(topic, 0, 0, 3)] == group.emitted(events.DataLost, "retry")
    assert [b"message 3 1"] == [name for name, _ in dependency.seen]


def test_retention_that_becomes_too_short(retry_scene: RetrySceneFactory) -> None:
    """Records are removed while they wait: what is in a reader's memory is attempted all the same;
    the next reader says what it has missed, and goes on behind that."""
    group = retry_scene(_one, strategy=[])
    dependency, (topic,) = Outage(), group.retries.topics
    group.live(dependency)
    first = group.retry(dependency, "first")
    group.write([(0, None, b"kept %d 1" % number, ()) for number in range(3)])
    _wait_for_waiting(group, first, 3)
    group.kafka.set_topic(topic, {"retention.ms": "1"})
    wait_until(lambda: _offsets(group) == [], "they are removed")
    group.wait_for_ends(3)
    first.stop()
    group.write([(0, None, b"lost %d 1" % number, ()) for number in range(2)])
    group.wait_for(events.SentToRetry, 5)
    wait_until(lambda: _offsets(group) == [], "these are removed, too")
    group.kafka.set_topic(topic, {"retention.ms": "-1"})
    group.write([(0, None, b"late 1", ())])
    group.wait_for(events.SentToRetry, 6)
    group.retry(dependency, "second")
    group.wait_for_ends(4)
    assert [] == group.end_well()
    assert [events.DataLost(topic, 0, 3, 5)] == group.emitted(events.DataLost)
    assert [b"kept 0 1", b"kept 1 1", b"kept 2 1", b"late 1"] == [
        name for name, _ in dependency.seen
    ]


@both_protocols
def test_deleted_while_records_wait(
    retry_scene: RetrySceneFactory, protocol: dict[str, str]
) -> None:
    """What waits in a deleted retry topic is gone with it. What is to go there next is held, until
    there is such a topic again, and then goes and comes back; nothing else is lost."""

    def two(prefix: str) -> RetryTopics:
        # Long enough that the deletion is noticed before what waits is due, on a busy machine too.
        return RetryTopics(prefix, strategy=["300ms", "9s"], limit=None)

    group = retry_scene(two, strategy=[], config=protocol | _QUICK_TO_FIND)
    dependency, (short, long) = Outage(), group.retries.topics
    group.live(dependency)
    retry = group.retry(dependency)
    group.write([(0, None, b"gone %d 2" % number, ()) for number in range(2)])
    group.wait_for(events.SentToRetry, 4)
    _wait_for_waiting(group, retry, 2)
    group.kafka.delete_topic(long)
    group.write([(0, None, b"held 2", ()), (0, None, b"behind 1", ())])
    wait_until(
        lambda: (short, 0, 2) in group.failed("retry"), "its next step is due", detail=group.story
    )
    assert [] == dependency.seen
    group.kafka.create_topic(long, 2, _STAMPED)
    group.wait_for_ends(2)
    assert [] == group.end_well()
    assert [(b"behind 1", 2), (b"held 2", 3)] == sorted(dependency.seen)
    assert [] == group.emitted(events.DeadLettered)
