"""Letters are replayed into a retry topic of their group, where its retry line finds them."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linear_retry.dlq import NO_LETTER, DeadLetterTopic, Filter, RefusedError
from linear_retry.dlq.letters.letter import Letter, State, read_letter
from linear_retry.dlq.replay.outgoing import (
    NO_IDENTITY,
    NotReplayableError,
    Outgoing,
    outgoing,
    unpacked,
)
from linear_retry.dlq.replay.plan import IN_RETRY
from linear_retry.kafka.consumer.messages import read
from linear_retry.records.dead_letter import FailureInfo, to_dead_letter
from linear_retry.records.lineage import Hop, Line, check_retried, lineage_of
from linear_retry.records.record import Record
from linear_retry.records.topics.names import delay_of
from tests.dlq.sample_letters import REPLAYED, our_letter
from tests.dlq.scene import NewScene, Scene

_PREFIX = "orders.billing.retry"
_TOPIC = f"{_PREFIX}.5m"
_DELAY_MS = 300_000
_LINE = Line("billing", lambda topic: delay_of(topic, _PREFIX))
_KEPT = {"message.timestamp.type": "LogAppendTime", "retention.ms": "1209600000"}


def _to_retry(letter: Letter, delay_ms: int | None = _DELAY_MS) -> Outgoing:
    sent = outgoing(letter, "run-1", lambda *_: None)
    return sent.to_retry(delay_ms, 1_000_000)


def _in_retry(sent: Outgoing, offset: int = 40) -> Record:
    return Record(_TOPIC, 3, offset, 9, sent.key, sent.value, tuple(sent.headers))


def _failure(hop: Hop | None) -> FailureInfo:
    return FailureInfo("billing", "transient" if hop else "exhausted", 1, 5, 6, "s@1", hop=hop)


def test_the_headers_of_a_letter_in_a_retry_topic() -> None:
    """Who it is, which replay sent it, that it waits, until when; neither step nor failures."""
    expected = [
        *REPLAYED,
        ("retry-version", b"1"),
        ("retry-send-to", b"retry"),
        ("retry-reason", b"replayed"),
        ("retry-at-ms", b"1300000"),
    ]
    assert expected == _to_retry(our_letter(7)).headers
    assert expected[:-1] == _to_retry(our_letter(7), None).headers
    # Sent later than it was planned: it waits from then on.
    later = _to_retry(our_letter(7)).to_retry(_DELAY_MS, 2_000_000)
    assert [*expected[:-1], ("retry-at-ms", b"2300000")] == later.headers


@given(st.lists(st.integers(0, 4), min_size=1, max_size=4))
def test_each_journey_through_the_retry_topics_is_one_generation(journeys: list[int]) -> None:
    """Replayed to retry, retried so many times, dead-lettered: the same id, one generation more."""
    letter = our_letter(7)
    for number, hops in enumerate(journeys, start=1):
        record = _in_retry(_to_retry(letter))
        check_retried(record)
        lineage = lineage_of(record, _LINE)
        assert (0, number, 0) == (lineage.failures, lineage.replay_count, lineage.hop and 0)
        for step in range(1, hops + 1):
            hop = Hop(_TOPIC, step, "s@1", 7)
            died = to_dead_letter(record, _failure(hop), lineage_of(record, _LINE))
            assert (number, step) == (died.generation, died.step)
            record = replace(record, headers=tuple(died.headers()))
        died = to_dead_letter(record, _failure(None), lineage_of(record, _LINE))
        assert (
            "billing/orders/3/7/158a9adb838c",
            number + 1,
            hops + 1,
            hops or None,
        ) == (
            died.retry_id,
            died.generation,
            died.failures,
            died.step,
        )
        letter = read_letter(replace(record, topic="orders.dlq", headers=tuple(died.headers())))
        assert ("dead-letter", hops or None, False) == (
            letter.send_to,
            letter.step,
            letter.is_retry,
        )


def test_a_replay_to_retry_of_the_last_generation_starts_a_new_life() -> None:
    """As any replay: the letter after it could not be read."""
    sent = _in_retry(_to_retry(our_letter(7)))
    last = dict(sent.headers) | {"retry-generation": b"2147483647"}
    record = replace(sent, headers=tuple(last.items()))
    died = to_dead_letter(record, _failure(None), lineage_of(record, _LINE))
    assert (1, _TOPIC) == (died.generation, died.destination)


def test_what_waits_in_a_retry_topic_is_no_letter() -> None:
    """It is read with its step and time, and says so."""
    hop = Hop(_TOPIC, 2, "s@1", 77)
    waiting = to_dead_letter(Record("orders", 3, 7, 1, b"k", b"v"), _failure(hop))
    letter = read_letter(Record(_TOPIC, 3, 1, 9, b"k", b"v", tuple(waiting.headers())))
    assert ("retry", 2, 77, True) == (
        letter.send_to,
        letter.step,
        letter.retry_at_ms,
        letter.is_retry,
    )


def test_a_letter_without_a_place_cannot_wait() -> None:
    """A retry line would take it for a foreign record, and dead-letter it."""
    headers = (("kafka_dlt-original-topic", b"orders"),)
    letter = read_letter(Record("orders.dlq", 0, 1, 9, b"k", b"v", headers))
    with pytest.raises(NotReplayableError, match=NO_IDENTITY):
        _to_retry(letter)


# -- on a real broker ----------------------------------------------------------------------


def _retry_topic(given: Scene, delay: str = "5m", **settings: str) -> str:
    topic = f"{given.source}.billing.retry.{delay}"
    given.kafka.create_topic(
        topic, 2, _KEPT | {k.replace("_", "."): v for k, v in settings.items()}
    )
    return topic


@pytest.mark.broker
def test_letters_go_to_the_retry_topic_in_their_order(scene: NewScene) -> None:
    """Each partition to its own, in the original order; they are recorded as replayed, once."""
    given = scene(2)
    topic = _retry_topic(given)
    given.add_letters([given.letter(1, n) for n in (5, 3, 4)] + [given.letter(0, 2)])
    assert [4, 0] == [given.replay(to_retry=topic) for _ in range(2)]
    assert {0: [(2, 1)], 1: [(3, 1), (4, 1), (5, 1)]} == given.arrived(topic)
    assert {} == given.arrived()
    assert ["replayed"] * 4 == given.states()
    found = [read(message) for message in given.kafka.read(topic)]
    for record in found:
        check_retried(record)
        letter = read_letter(record)
        at_ms = letter.retry_at_ms or 0
        assert abs(at_ms - record.timestamp_ms - _DELAY_MS) < 60_000
    assert all(one.offset < two.offset for one, two in pairwise(found[1:]))


@pytest.mark.broker
def test_messages_of_a_retry_topic_are_neither_replayed_nor_resolved(scene: NewScene) -> None:
    """A replay would double them: they are named and left, and a purge refuses them."""
    given = scene(1)
    topic = _retry_topic(given)
    given.add_letters([given.letter(0, 2)])
    given.replay(to_retry=topic)
    with DeadLetterTopic(topic, given.config) as retry:
        assert [State.RETRY] == [state for _, state in retry.letters()]
        with retry.plan_replay() as plan:
            assert (0, {IN_RETRY: 1}) == (plan.letters, dict(plan.not_replayable))
        assert [0, 0] == [retry.resolve(by="test"), retry.reopen()]
        with pytest.raises(RefusedError, match="it holds no dead letter"):
            retry.plan_purge()
        stats = retry.stats()
        assert (1, 0) == (stats.states[State.RETRY], stats.states[State.OPEN])


@pytest.mark.broker
def test_what_is_no_letter_does_not_go_to_a_retry_topic(scene: NewScene) -> None:
    """Not even though a topic is named for it: nobody could say which message it is."""
    given = scene(1)
    topic = _retry_topic(given)
    given.write(("tenant", b"acme"))
    with given.topic as letters, letters.plan_replay(to_retry=topic) as plan:
        assert {NO_LETTER: 1} == dict(plan.not_replayable)


@pytest.mark.broker
@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"message_timestamp_type": "CreateTime"}, "message.timestamp.type=CreateTime"),
        ({"retention_ms": "300000"}, "is no longer than the delay, 5m"),
        ({"cleanup_policy": "compact"}, "cleanup.policy has compact"),
    ],
)
def test_a_topic_that_cannot_hold_them_is_refused(
    scene: NewScene, settings: dict[str, str], problem: str
) -> None:
    """By the rules of `topics check`, before anything is sent."""
    given = scene(1)
    topic = _retry_topic(given, **settings)
    given.add_letters([given.letter(0, 2)])
    with pytest.raises(RefusedError, match=problem), given.topic as letters:
        letters.plan_replay(to_retry=topic)
    assert ["open"] == given.states()


@pytest.mark.broker
def test_a_retry_topic_is_one_groups(scene: NewScene) -> None:
    """Letters of two groups are refused, unless all are sent for one; so is every group."""
    given = scene(1)
    topic = _retry_topic(given)
    given.add_letters([given.letter(0, 2), replace(given.letter(0, 3), group_id="audit")])
    with given.topic as letters:
        with pytest.raises(RefusedError, match=r"dead letters of 2 groups \(audit, billing\)"):
            letters.plan_replay(to_retry=topic)
        with pytest.raises(RefusedError, match="a retry topic is one group's; name it"):
            letters.plan_replay(to_retry=topic, for_group="")
        with pytest.raises(RefusedError, match="name only one of them"):
            letters.plan_replay(to=topic, to_retry=topic)
        mine = Filter(headers=(("retry-group-id", b"audit"),))
        with letters.plan_replay(mine, to_retry=topic) as plan:
            assert ("audit.retry",) == letters.absent_groups(plan)
        with letters.plan_replay(to_retry=topic, for_group="audit") as plan:
            groups = {unpacked(entry.content).group_in(topic) for entry in plan.order}
            assert {"audit"} == groups


@pytest.mark.broker
def test_the_source_is_no_retry_topic(scene: NewScene) -> None:
    """Though the broker stamps it: the live line would take the letters for retries."""
    given = scene(1, _KEPT)
    given.add_letters([given.letter(0, 2)])
    with pytest.raises(RefusedError, match="dead letters come from there"), given.topic as letters:
        letters.plan_replay(to_retry=given.source)
