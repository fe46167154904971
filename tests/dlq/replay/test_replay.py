"""Each letter goes back to where it came from, in order, once."""

import json
import random
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource  # type: ignore[attr-defined]  # exported by import only
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from linear_retry.dlq import NO_LETTER, Filter, RefusedError, State
from linear_retry.dlq.reading.reading import read_resolutions
from linear_retry.dlq.reading.resolutions import Resolutions
from linear_retry.dlq.replay.plan import AMBIGUOUS
from linear_retry.errors import BrokerError, UnknownTopicError
from linear_retry.kafka.consumer.messages import read
from linear_retry.kafka.topics.reader import TopicReader
from linear_retry.records.dead_letter import (
    FailureInfo,
    reference,
    resolutions_topic,
    to_dead_letter,
)
from linear_retry.records.record import Record
from tests.conftest import TopicFactory
from tests.dlq.scene import FIRST_MS, NewScene, Scene
from tests.docs.markdown import page
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.broker

_PLACES = st.tuples(st.integers(0, 1), st.integers(0, 8), st.integers(1, 2))
_FILTERS = st.builds(
    Filter,
    reasons=st.sampled_from([(), ("exhausted",)]),
    keys=st.sampled_from([(), (b"a",)]),
    limit=st.none() | st.integers(0, 8),
)


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(_PLACES, max_size=25), _FILTERS, st.randoms(use_true_random=False))
def test_each_arrives_once_in_order_for_any_filter(
    scene: NewScene, places: list[tuple[int, int, int]], meant: Filter, rng: random.Random
) -> None:
    """Whatever the order of arrival, and whatever is left out: by offset, then generation.

    What the filter leaves out comes with the next replay, in its order.
    """
    given = scene(2)
    letters = [
        given.letter(
            *place,
            key=b"a" if place[1] % 3 else b"b",
            reason="exhausted" if place[1] % 2 else "permanent",
        )
        for place in places
    ]
    for letter in letters:
        given.add_letters([letter], rng.randrange(2))
    everything = {(partition, (offset, generation)) for partition, offset, generation in places}
    matching = {
        (partition, life)
        for partition, life in everything
        if (not meant.reasons or life[0] % 2) and (not meant.keys or life[0] % 3)
    }
    sent = given.replay(meant)
    first = given.arrived()
    chosen = {(partition, life) for partition, lives in first.items() for life in lives}
    assert chosen <= matching
    assert sent == len(chosen) == min(len(matching), 99 if meant.limit is None else meant.limit)
    for number in range(2):  # a limit takes a beginning: what is left of it comes behind
        of_it = sorted(life for partition, life in matching if partition == number)
        taken = first.get(number, [])
        assert of_it[: len(taken)] == taken
    assert [len(everything - chosen), 0] == [given.replay(), given.replay()]
    expected: dict[int, list[tuple[int, int]]] = {}
    for part in (chosen, everything - chosen):
        for partition, life in sorted(part):
            expected.setdefault(partition, []).append(life)
    assert expected == given.arrived()
    assert {"replayed"} >= set(given.states())


def test_a_replayed_message_is_the_message(scene: NewScene) -> None:
    """Key, value and own headers byte for byte, a tombstone too; the time is that of sending."""
    given = scene()
    begun_ms = time.time_ns() // 1_000_000
    given.add_letters([given.letter(0, 1), given.letter(0, 2, key=None, value=None, headers=())])
    given.replay()
    first, second = map(read, given.kafka.read(given.source))
    assert (b"key", b"value", ("tenant", b"acme")) == (first.key, first.value, first.headers[0])
    assert (None, None) == (second.key, second.value)
    assert first.timestamp_ms >= begun_ms - 1000
    assert "retry-reason" not in dict(first.headers)


def test_what_is_recorded(scene: NewScene) -> None:
    """By whom, when, why, by which replay; the topic for it is compacted, and of the same shape."""
    given = scene(3)
    given.add_letters([given.letter(2, 7)])
    given.replay()
    ((key, value),) = given.recorded()
    output = json.loads(value or b"")
    assert f"{given.letter(2, 7).retry_id}#1".encode() == key
    assert ("replayed", "test", "again") == (output["state"], output["by"], output["why"])
    (message,) = map(read, given.kafka.read(given.source))
    assert dict(message.headers)["retry-replay-id"] == output["replay_id"].encode()
    facts = given.cluster.topics.describe([resolutions_topic(given.letters)])
    (fact,) = facts.values()
    assert fact is not None
    assert (3, 1, True, False) == (
        *(fact.partitions, fact.replication, fact.is_compacted, fact.is_deleted),
    )
    resource = ConfigResource(ConfigResource.Type.TOPIC, resolutions_topic(given.letters))
    admin = AdminClient(given.config)  # kept until the answer is there
    settings = admin.describe_configs([resource])[resource].result(PATIENCE_S)
    output = dict(re.findall(r"`([a-z.]+)=([0-9.]+)`", page("docs/dead-letters/replay.md")))
    assert {"segment.ms", "segment.bytes", "min.cleanable.dirty.ratio"} < output.keys()
    assert output == {key: settings[key].value for key in output}


def test_a_plan_changes_nothing(scene: NewScene) -> None:
    """Not even the topic for resolutions is made; and its numbers are right."""
    given = scene(2)
    given.add_letters(
        [given.letter(0, n) for n in (4, 2)] + [given.letter(1, 9), given.letter(1, 9)]
    )
    with given.topic as topic, topic.plan_replay() as plan:
        lanes = {lane.source.partition: lane for lane in plan.partitions}
    assert (2, 2, 4) == (lanes[0].letters, lanes[0].first, lanes[0].last)
    assert (1, 9, 9) == (lanes[1].letters, lanes[1].first, lanes[1].last)
    assert (FIRST_MS + 2, FIRST_MS + 4) == (lanes[0].oldest_ms, lanes[0].newest_ms)
    assert {} == given.arrived()
    (fact,) = given.cluster.topics.describe([resolutions_topic(given.letters)]).values()
    assert fact is None


def test_a_plan_that_others_have_overtaken_sends_nothing_twice(scene: NewScene) -> None:
    """Between the plan and its execution another replay and a purge may have passed.

    A purge deletes what is recorded of the letters that it deletes: what is not there any more is
    not sent, whatever the records say.
    """
    given = scene(2)
    given.add_letters([given.letter(0, 1), given.letter(0, 2), given.letter(1, 3)])
    with given.topic as topic, topic.plan_replay() as plan:
        given.replay(Filter(origins=((given.source, 0),)))
        with given.topic as other:
            other.purge()
        assert [] == [value for _, value in given.recorded() if value and b"replayed" not in value]
        assert 1 == topic.replay(plan, by="late")
    assert {0: [(1, 1), (2, 1)], 1: [(3, 1)]} == given.arrived()


def test_what_was_dealt_with_since_the_plan_is_not_sent(scene: NewScene) -> None:
    """Another replay, or somebody's word, may have come between; what is still open is sent."""
    given = scene()
    given.add_letters([given.letter(0, n) for n in range(4)])
    with given.topic as topic, topic.plan_replay() as plan:
        assert 1 == given.replay(Filter(limit=1))
        with given.topic as other:
            assert 1 == other.resolve(Filter(limit=1), by="test")
        assert 2 == topic.replay(plan, by="late")
    assert {0: [(0, 1), (2, 1), (3, 1)]} == given.arrived()


def test_what_was_read_for_the_plan_is_not_read_again(scene: NewScene) -> None:
    """A replay read the whole record of what is dealt with twice: to plan, and again to send."""
    given = scene(2)
    given.add_letters([given.letter(p, n) for p in range(2) for n in range(20)])
    given.replay(Filter(origins=((given.source, 0),)))
    read_from: list[dict[int, int]] = []

    class Counting(TopicReader):
        def read(self, topic: str, *more: Any) -> Iterator[list[Record]]:
            for records in super().read(topic, *more):
                if topic == resolutions_topic(given.letters):
                    read_from.append({record.partition: record.offset for record in records})
                yield records

    kafka = Counting(given.config)
    with Resolutions() as resolutions:
        read_resolutions(kafka, given.letters, resolutions)
        assert 20 == sum(resolutions.has(key) for key in resolutions.resolution_keys())
        read_from.clear()
        read_resolutions(kafka, given.letters, resolutions)
        assert [] == read_from
        given.replay(Filter(limit=1))
        read_resolutions(kafka, given.letters, resolutions)
        assert (1, 21) == (len(read_from), len(list(resolutions.resolution_keys())))


def test_a_new_record_of_resolutions_is_read_again(scene: NewScene) -> None:
    """What is there no longer counts no more, and what lies at its place does."""
    given = scene()
    given.add_letters([given.letter(0, n) for n in range(5)])
    given.replay()
    name = resolutions_topic(given.letters)
    with Resolutions() as resolutions:
        read_resolutions(TopicReader(given.config), given.letters, resolutions)
        given.kafka.delete_topic(name)
        read_resolutions(TopicReader(given.config), given.letters, resolutions)
        assert [] == list(resolutions.resolution_keys())
        given.replay(Filter(limit=2))
        read_resolutions(TopicReader(given.config), given.letters, resolutions)
        assert 2 == len(list(resolutions.resolution_keys()))
        resolutions.next_offsets[0] = 99
        given.replay(Filter(limit=1))
        read_resolutions(TopicReader(given.config), given.letters, resolutions)
        assert 3 == len(list(resolutions.resolution_keys()))


def test_what_died_again_is_replayed_again(scene: NewScene) -> None:
    """Generation 2 is another letter of the same message: open, and then replayed."""
    given = scene()
    given.add_letters([given.letter(0, 5)])
    given.replay()
    (message,) = map(read, given.kafka.read(given.source))
    died = to_dead_letter(message, FailureInfo("billing", "exhausted", 3, 1, 2, "s@1"))
    given.add_letters([died])
    assert ["replayed", "open"] == given.states()
    assert 1 == given.replay()
    assert {0: [(5, 1), (5, 2)]} == given.arrived()
    counts = [
        dict(read(each).headers)["retry-replay-count"] for each in given.kafka.read(given.source)
    ]
    assert [b"1", b"2"] == counts


def test_to_a_topic_of_the_groups_own(scene: NewScene, topic: TopicFactory) -> None:
    """All into it, each origin partition into one of its: in order there too."""
    given, retry = scene(4), topic(3)
    given.add_letters([given.letter(p, n) for n in (3, 1, 2) for p in range(4)])
    assert 12 == given.replay(to=retry)
    arrived = given.arrived(retry)
    assert [(1, 1), (2, 1), (3, 1)] == arrived[1] == arrived[2]
    assert [(offset, 1) for offset in (1, 1, 2, 2, 3, 3)] == arrived[0]  # of two partitions
    assert {} == given.arrived()


def test_a_record_that_is_no_dead_letter_is_sent_only_where_a_topic_is_named(
    scene: NewScene, topic: TopicFactory
) -> None:
    """It is told how many are left, and stays open."""
    given, other = scene(), topic(2)
    given.write(("a", b"1"))
    given.write(("retry-version", b"1"), ("retry-id", b"x"))
    with given.topic as dlq, dlq.plan_replay() as plan:
        assert {NO_LETTER: 2} == plan.not_replayable
        assert 0 == dlq.replay(plan, by="test")
    assert ["open", "open"] == given.states()
    assert 2 == given.replay(to=other)
    assert [b"value"] * 2 == [each.value() for each in given.kafka.read(other)]
    assert ["replayed", "replayed"] == given.states()


def test_letters_of_another_system_go_to_their_origin(scene: NewScene) -> None:
    """In order of their original offsets; without a place, in order of arrival and by key."""
    given = scene(2)
    for offset in (8, 6):
        given.write(
            ("__connect.errors.topic", given.source.encode()),
            ("__connect.errors.partition", b"1"),
            ("__connect.errors.offset", b"%d" % offset),
        )
    given.write(("__connect.errors.topic", given.source.encode()), value=b"without a place")
    assert 3 == given.replay()
    records = [read(each) for each in given.kafka.read(given.source)]
    placed = [dict(each.headers).get("retry-original-offset") for each in records]
    assert [b"6", b"8"] == [offset for offset in placed if offset is not None]
    assert {(each.key, dict(each.headers).get("__connect.errors.topic")) for each in records} == {
        (b"key", None)
    }


def test_a_dead_letter_topic_that_is_made_again_has_other_letters(scene: NewScene) -> None:
    """The bug: what lay at the places of Spring's replayed letters counted as replayed. A replay
    sent none of it, and a purge deleted it."""
    given = scene(1)
    spring = ("kafka_dlt-original-topic", given.source.encode())
    given.write(spring, value=b"first")
    assert 1 == given.replay()
    given.kafka.delete_topic(given.letters)
    given.kafka.create_topic(given.letters, 1)
    given.write(spring, value=b"second")
    assert ["open"] == given.states()
    with given.topic as topic:
        assert 1 == topic.plan_purge().remaining_open
    assert 1 == given.replay()
    assert [b"first", b"second"] == [each.value() for each in given.kafka.read(given.source)]
    with given.topic as topic:
        assert [1, 0] == [topic.reopen(), topic.reopen()]
    assert ["open"] == given.states()


def test_a_replay_says_that_two_messages_have_one_id(scene: NewScene) -> None:
    """The bug: the first of them was sent, and the other counted as sent with it. Letters of
    development versions may have such ids, and those that a program writes itself."""
    given = scene(1)
    one, other, sound = (given.letter(0, n, value=b"%d" % n) for n in (1, 2, 3))
    same = replace(other, retry_id=one.retry_id, original_offset=one.original_offset)
    given.add_letters([one, one, same, sound])
    for limit in (None, 9):
        with given.topic as topic, topic.plan_replay(Filter(limit=limit)) as plan:
            assert (1, {AMBIGUOUS: 2}) == (plan.letters, dict(plan.not_replayable))
    assert 1 == given.replay()
    assert ["open", "open", "open", "replayed"] == given.states()


def test_a_reference_is_replaced_by_the_message(scene: NewScene) -> None:
    """Fetched from the topic it was read from; where it is gone, the letter stays open."""
    given = scene()
    given.kafka.produce(given.source, [(0, b"k", b"large", (("a", b"1"),)) for _ in range(2)])
    for record in map(read, given.kafka.read(given.source)):
        letter = to_dead_letter(record, FailureInfo("billing", "exhausted", 3, 1, 2, "s@1"))
        given.add_letters([reference(letter, record)])
    given.kafka.delete_records(given.source, 0, 1)
    with given.topic as topic, topic.plan_replay() as plan:
        assert ["a reference to a message that is gone"] == list(plan.not_replayable)
        assert 1 == plan.earlier_open
        assert 1 == topic.replay(plan, by="test")
    assert [b"large"] * 2 == [each.value() for each in given.kafka.read(given.source)]
    assert ["open", "replayed"] == given.states()


def _refused(given: Scene, **more: Any) -> str:
    with given.topic as topic, pytest.raises(RefusedError) as refused:
        topic.plan_replay(**more)
    assert ["open"] * len(given.states()) == given.states()
    return str(refused.value)


def test_a_topic_that_is_not_in_this_cluster(scene: NewScene) -> None:
    """Reported before anything is sent, with all else that stands in the way."""
    given = scene(3)
    elsewhere = replace(given, source=f"elsewhere-{given.source}")
    given.add_letters([elsewhere.letter(0, 1), given.letter(0, 1)])
    output = _refused(given)
    assert f"{elsewhere.source}: no such topic in this cluster" in output
    assert "within one cluster" in output
    assert {} == given.arrived()
    with given.topic as topic, pytest.raises(RefusedError, match="no such topic"):
        topic.plan_replay(to="nowhere-at-all")


def test_a_topic_with_fewer_partitions(scene: NewScene, topic: TopicFactory) -> None:
    """A topic that was made again, smaller."""
    given = scene(3)
    smaller = replace(given, source=topic(2))
    given.add_letters([smaller.letter(2, 1), smaller.letter(1, 1)])
    assert "it has 2 partitions, and 1 dead letters come from partitions up to 2" in _refused(given)


def test_what_is_just_not_too_large_is_sent(scene: NewScene) -> None:
    """The largest that the broker takes is not refused, and the next is: to the byte."""
    given = scene(config={"max.message.bytes": "2000"})
    given.add_letters([given.letter(0, 1, value=b"v" * 1400)])
    with given.topic as topic, topic.plan_replay() as plan:
        (content,) = (entry.content for entry in plan.order)
    from linear_retry.dlq.replay.outgoing import unpacked

    room = 2000 - unpacked(content).size_bytes()
    given.add_letters([given.letter(0, 2, value=b"v" * (1400 + room))])
    assert 2 == given.replay()
    given.add_letters([given.letter(0, 3, value=b"v" * (1401 + room))])
    why = "its max.message.bytes is 2000, and 1 dead letters need more, up to 2001"
    with given.topic as topic, pytest.raises(RefusedError, match=why):
        topic.plan_replay()


def test_many_small_messages_for_a_topic_with_a_small_limit(scene: NewScene) -> None:
    """The broker refuses a batch that is larger, so none is made."""
    given = scene(config={"max.message.bytes": "2000"})
    given.add_letters([given.letter(0, n) for n in range(200)])
    assert 200 == given.replay()


def test_the_time_is_kept_where_that_is_asked_for(scene: NewScene) -> None:
    """Refused where retention would remove it at once, or the broker stamps by itself."""
    kept = scene(config={"retention.ms": "-1"})
    kept.add_letters([kept.letter(0, 1)])
    kept.replay(keep_timestamp=True)
    (message,) = map(read, kept.kafka.read(kept.source))
    assert FIRST_MS + 1 == message.timestamp_ms
    short = scene(config={"retention.ms": "3600000"})
    old = short.letter(0, 1)
    short.add_letters([replace(old, original_timestamp_ms=1)])
    assert "its retention.ms is 3600000" in _refused(short, keep_timestamp=True)
    stamped = scene(config={"message.timestamp.type": "LogAppendTime"})
    stamped.add_letters([stamped.letter(0, 1)])
    assert "LogAppendTime" in _refused(stamped, keep_timestamp=True)


def test_a_limit_takes_the_oldest_of_all_partitions(scene: NewScene) -> None:
    """It took the first that were read: those of one partition, whenever they were written."""
    given = scene(3)
    for offset in range(3):
        for partition in (2, 0, 1):
            given.add_letters([given.letter(partition, offset)])
    assert [4, 2, 3] == [given.replay(Filter(limit=limit)) for limit in (4, 2, 9)]
    lives = [(offset, 1) for offset in range(3)]
    assert dict.fromkeys(range(3), lives) == given.arrived()


def test_a_limit_breaks_no_order(scene: NewScene) -> None:
    """The letter of offset 1 was written last: what it is behind of is not sent before it."""
    given = scene(2)
    for partition, offset in ((0, 5), (0, 6), (1, 9), (0, 1)):
        given.add_letters([given.letter(partition, offset)])
    assert 1 == given.replay(Filter(limit=1))
    assert {1: [(9, 1)]} == given.arrived()
    assert [1, 2] == [given.replay(Filter(limit=limit)) for limit in (1, 2)]
    assert {0: [(1, 1), (5, 1), (6, 1)], 1: [(9, 1)]} == given.arrived()


def test_never_into_its_own_topic(scene: NewScene) -> None:
    """Letters sent to where letters lie would be letters of letters."""
    given = scene()
    given.add_letters([given.letter(0, 1)])
    assert "into their own topic" in _refused(given, to=given.letters)
    odd = replace(given, source=given.letters)
    given.add_letters([odd.letter(0, 2)])
    assert "into their own topic" in _refused(given)


def test_a_topic_for_resolutions_that_forgets_is_refused(scene: NewScene) -> None:
    """What is removed from it for its age would be sent again."""
    given = scene()
    given.kafka.create_topic(resolutions_topic(given.letters), 1, {"cleanup.policy": "delete"})
    given.add_letters([given.letter(0, 1)])
    assert "cleanup.policy is not compact alone" in _refused(given)
    with given.topic as topic, pytest.raises(BrokerError, match="not compact alone"):
        topic.resolve(by="test")


@pytest.mark.parametrize("method", ["resolve", "reopen", "purge", "plan_replay", "plan_purge"])
def test_a_topic_that_is_not_there(scene: NewScene, method: str) -> None:
    """Each says so, and makes none."""
    given = replace(scene(), letters="no-such-topic")
    arguments = {"by": "test"} if method == "resolve" else {}
    with given.topic as topic, pytest.raises(UnknownTopicError, match="no-such-topic"):
        getattr(topic, method)(**arguments)
    facts = given.cluster.topics.describe(["no-such-topic", "no-such-topic.resolved"])
    assert {"no-such-topic": None, "no-such-topic.resolved": None} == facts


def test_newer_messages(scene: NewScene) -> None:
    """By key: those behind the first letter with it, the letters' own messages left out."""
    given = scene()
    keys = [b"a", b"b", b"a", b"c", b"a", b"b"]
    given.kafka.produce(given.source, [(0, key, b"v", ()) for key in keys])
    given.add_letters([given.letter(0, n, key=keys[n]) for n in (0, 3, 5)])
    with given.topic as topic, topic.plan_replay() as plan:
        (found,) = topic.newer_messages(plan)
    assert (b"a", 0, 2, 4) == (found.key, found.letter, found.messages, found.newest)
    assert (given.source, 0) == (found.topic, found.partition)


def test_a_letters_own_replay_is_not_newer(scene: NewScene) -> None:
    """What was sent back counts with the offset that it had first."""
    given = scene()
    given.kafka.produce(given.source, [(0, b"a", b"v", ()), (0, b"a", b"w", ())])
    given.add_letters([given.letter(0, n, key=b"a") for n in (0, 1)])
    given.replay()
    given.add_letters([given.letter(0, 0, 2, key=b"a")])
    with given.topic as topic, topic.plan_replay() as plan:
        (found,) = topic.newer_messages(plan)
    assert (2, 3) == (found.messages, found.newest)
    given.add_letters([given.letter(0, 1, 2, key=b"a")])
    with given.topic as topic, topic.plan_replay() as plan:
        assert [] == list(topic.newer_messages(plan))


def test_resolve_and_reopen(scene: NewScene) -> None:
    """Dealt with without sending, taken back, and each only once."""
    given = scene()
    given.add_letters(
        [given.letter(0, n, reason="permanent" if n % 2 else "exhausted") for n in range(4)]
    )
    with given.topic as topic:
        meant = Filter(reasons=("permanent",))
        assert [2, 0] == [topic.resolve(meant, by="me", why="x") for _ in range(2)]
        assert ["open", "resolved"] * 2 == given.states()
        letter, _ = next(iter(topic.letters(Filter(states=(State.RESOLVED,)))))
        resolution = topic.resolution(letter)
        assert resolution is not None
        assert ("me", "x", None) == (resolution.by, resolution.why, resolution.replay_id)
        assert 2 == given.replay()
        assert {0: [(0, 1), (2, 1)]} == given.arrived()
        assert 1 == topic.reopen(Filter(states=(State.RESOLVED,), limit=1))
        assert [2, 0] == [topic.reopen(Filter(states=(State.REPLAYED,))) for _ in range(2)]
        assert 0 == topic.reopen(Filter(states=(State.OPEN,)))
        assert ["open", "open", "open", "resolved"] == given.states()
