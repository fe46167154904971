"""Where a partition begins whose offset the broker does not have."""

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from linear_retry import DataLossError, RetryTopics, events
from tests.consumer.group import GROUP, TOPIC, FakeGroup, Member, Protocol
from tests.consumer.joined_parts import Joined
from tests.consumer.misbehaviours.misbehaving import (
    P0,
    P1,
    all_protocols,
    begun,
    emitted,
    until,
)

_LOW = 5


def _lost_everywhere(protocol: Protocol, reset: str, partitions: int) -> FakeGroup:
    """A group whose committed offsets retention has removed, in each partition."""
    group = FakeGroup(protocol=protocol, partitions=partitions, config={"auto.offset.reset": reset})
    for topic, number in group.partitions:
        group.produce(number, 10)
        del group.visible[topic, number][: 2 if reset == "earliest" else 10]
        group.fake.group(GROUP)[topic, number] = 2
        group.fake.delete_records(topic, number, _LOW)
    group.join()
    group.share([0] * partitions)
    return group


def _logical_starts(group: FakeGroup) -> list[int]:
    """Each time a partition was begun "at the beginning" or "at the end"."""
    return [
        offset
        for _, _, call, arguments in group.fake.log
        if call in ("assign", "incremental_assign")
        for _, _, offset in arguments[0]
        if offset in (OFFSET_BEGINNING, OFFSET_END)
    ]


@all_protocols
@pytest.mark.filterwarnings("ignore:auto.offset.reset=latest")
@pytest.mark.parametrize("reset", ["earliest", "latest"])
@pytest.mark.parametrize("unanswered", [1, 2, 5])
def test_nobody_says_where_it_begins(protocol: Protocol, reset: str, unanswered: int) -> None:
    """The brokers are asked again, and nothing is begun before they answer.

    The bug: it was begun "at the beginning" or "at the end" then, and with an eager assignment of
    several partitions librdkafka went there once more half a second later: what had been handled
    was handled again, or what had come meanwhile was passed over.
    """
    group = _lost_everywhere(protocol, reset, 3)
    group.fake.faults.silence_edges(unanswered)
    group.turn(40)
    group.fake.clock.advance(0.6)
    for _, number in group.partitions:
        group.produce(number, 3)
    group.finish()
    assert [] == group.violations()
    places = [place for _, place in begun(group)]
    assert sorted(set(places)) == sorted(places)
    assert [] == _logical_starts(group)
    assert 3 == len(emitted(group.members[0], events.DataLost))


def test_an_offset_made_of_garbage() -> None:
    """It is above what comes next, which the broker has: no loss, reading goes on where it was."""
    joined = Joined({"group.protocol": "consumer"})
    joined.own(P0, done=5)
    ends = {OFFSET_BEGINNING: 0, OFFSET_END: 9}
    joined.librdkafka.answers |= {
        "assignment": [TopicPartition(*P0)],
        "offsets_for_times": lambda asked, timeout: [TopicPartition(*P0, ends[asked[0].offset])],
    }
    joined.offset_reset().lost(P0, 8680820740569200761)
    assert [] == joined.happened
    assert 5 == joined.offsets.next_offset(P0)
    assert ("incremental_assign", [(*P0, 5)]) in joined.librdkafka.calls


class _Silent:
    """Two partitions that are ours, of which no broker says where they begin."""

    def __init__(self) -> None:
        self.joined = Joined({"group.protocol": "consumer"})
        self.flow_control = self.joined.flow_control
        self.offset_reset = self.joined.offset_reset()
        self.joined.own(P0, P1)
        silent = KafkaException(KafkaError(KafkaError._TIMED_OUT, "no answer"))
        self.joined.librdkafka.answers["offsets_for_times"] = silent

    @property
    def questions(self) -> int:
        return self.joined.librdkafka.names.count("offsets_for_times")


def test_one_question_without_an_answer_at_a_time() -> None:
    """It takes a second, in which nothing is polled: of a hundred partitions that have lost their
    places at once a hundred questions in a row might cost the member its place in the group."""
    silent = _Silent()
    for partition in (P0, P1):
        silent.offset_reset.lost(partition, None)
    assert 1 == silent.questions
    for asked in (2, 3):
        silent.joined.clock.advance(60)
        silent.offset_reset.ask_again()
        assert asked == silent.questions


def test_it_was_reassigned_meanwhile() -> None:
    """By the watchdog, or with another one: librdkafka says by itself whether it still lacks its
    place, and what has gone on since is not set back."""
    silent = _Silent()
    silent.offset_reset.lost(P0, None)
    silent.flow_control.revive(P0, "it has messages, but delivered none")
    silent.joined.clock.advance(60)
    silent.offset_reset.ask_again()
    assert 1 == silent.questions


@pytest.mark.parametrize(("removed", "told"), [(0, []), (3, [(0, 3)])])
def test_the_head_of_a_retry_topic_was_removed(removed: int, told: list[tuple[int, int]]) -> None:
    """The bug: before the group had committed there, nothing was said of what was never attempted.

    All that is in a retry topic is for its group; a source may have had a past before the group.
    """
    retries = RetryTopics("orders.retry", strategy=[1])
    group = FakeGroup(partitions=1, reads=retries)
    (topic,) = retries.topics
    group.produce((topic, 0), 5)
    group.fake.delete_records(topic, 0, removed)
    member = group.join()
    group.share([0])
    until(group, lambda: 5 == group.fake.group(group.group_id).get((topic, 0)))
    assert [events.DataLost(topic, 0, *each) for each in told] == emitted(member, events.DataLost)


def test_a_source_may_have_a_past_before_the_group() -> None:
    """A new group has lost nothing of it."""
    group = FakeGroup(partitions=1)
    group.produce(0, 5)
    group.fake.delete_records(TOPIC, 0, 3)
    member = group.join()
    group.share([0])
    until(group, lambda: 5 == group.fake.group(GROUP).get(P0))
    assert [] == emitted(member, events.DataLost)


@pytest.mark.filterwarnings("ignore:auto.offset.reset=latest")
@pytest.mark.parametrize(
    ("reset", "removed", "says"),
    [
        (
            "earliest",
            0,
            "INFO orders[0]: group billing has no committed offset, and begins at the "
            "beginning, offset 0 of 5: ",
        ),
        (
            "earliest",
            3,
            "WARNING orders[0]: group billing has no committed offset, and begins at "
            "the beginning, offset 3 of 5: ",
        ),
        (
            "latest",
            0,
            "WARNING orders[0]: group billing has no committed offset, and begins at the "
            "end, offset 5 of 5: ",
        ),
    ],
)
def test_a_group_without_a_commit_says_where_it_begins(
    reset: str, removed: int, says: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It is new, or its commits have expired: then all is handled again, or passed over."""
    caplog.set_level("INFO", "linear_retry")
    group = FakeGroup(partitions=1, config={"auto.offset.reset": reset})
    group.produce(0, 5)
    group.fake.delete_records(TOPIC, 0, removed)
    group.join()
    group.share([0])
    until(group, lambda: 5 == group.fake.group(GROUP).get(P0))
    said = [f"{one.levelname} {one.getMessage()}" for one in caplog.records]
    assert 1 == len([line for line in said if line.startswith(says)])
    assert 1 == len([line for line in said if "offsets.retention.minutes" in line])


class _Truncated:
    """A member that has handled ten messages; the broker loses the last five, and gets others."""

    def __init__(self, protocol: Protocol, config: dict[str, str] | None = None) -> None:
        self.met: list[Member] = []
        self.group = FakeGroup(protocol=protocol, partitions=2, config=config)
        self.group.produce(0, 10)
        self.group.fake.group(GROUP).update({P0: 0, P1: 0})
        self.member = self.join()
        self.group.finish()

    def join(self) -> Member:
        member = self.group.join()
        self.group.share([0, 0])
        self.met.append(member)
        return member

    def truncate(self, new: int = 3) -> None:
        self.group.fake.truncate(TOPIC, 0, 5)
        for _ in range(new):
            self.group.fake.append(TOPIC, 0)

    def turn_until_committed(self, offset: int) -> None:
        until(self.group, lambda: offset == self.group.fake.group(GROUP)[P0])

    @property
    def handled(self) -> list[int]:
        return [place.offset for _, place in begun(self.group)]


@all_protocols
def test_a_truncated_log_is_read_on_where_it_was_cut(protocol: Protocol) -> None:
    """The bug: librdkafka says so without an offset, which was taken for old news of a missing
    commit; and it had stopped reading there, so the partition stood still for ever."""
    scene = _Truncated(protocol)
    scene.truncate()
    scene.turn_until_committed(8)
    assert [*range(10), 5, 6, 7] == scene.handled
    assert [events.DataLost(TOPIC, 0, 10, 5)] == emitted(scene.member, events.DataLost)


@all_protocols
def test_a_log_is_truncated_twice(protocol: Protocol) -> None:
    """The second time it is as new as the first."""
    scene = _Truncated(protocol)
    scene.truncate()
    scene.turn_until_committed(8)
    scene.truncate(1)
    scene.turn_until_committed(6)
    assert [*range(10), 5, 6, 7, 5] == scene.handled
    expected = [events.DataLost(TOPIC, 0, 10, 5), events.DataLost(TOPIC, 0, 8, 5)]
    assert expected == emitted(scene.member, events.DataLost)


@all_protocols
def test_a_log_that_was_cut_while_nobody_read_it(protocol: Protocol) -> None:
    """The bug: the next owner began at the commit, behind what had been written again below it.

    Where a log ends by its leader's epoch is looked at by a seek only, not at the start (KIP-320).
    """
    scene = _Truncated(protocol)
    scene.group.leave(scene.member)
    scene.truncate(7)
    later = scene.join()
    scene.turn_until_committed(12)
    assert [*range(10), *range(5, 12)] == scene.handled
    assert [events.DataLost(TOPIC, 0, 10, 5)] == emitted(later, events.DataLost)


def test_another_leader_has_cut_nothing() -> None:
    """It is compared once, and nothing is handled twice; nor where a commit has no epoch."""
    for has_epoch in (True, False):
        scene = _Truncated("consumer")
        scene.group.leave(scene.member)
        scene.group.fake.truncate(TOPIC, 0, 10)  # a new leader, which has all
        if not has_epoch:
            scene.group.fake.leader_epochs(GROUP).clear()
        scene.group.produce(0, 2)
        later = scene.join()
        scene.turn_until_committed(12)
        assert [*range(12)] == scene.handled
        assert [] == emitted(later, events.DataLost)


def test_another_leader_behind_a_gap_has_cut_nothing() -> None:
    """Compaction has left nothing at the commit, where the part of the earlier one ends."""
    scene = _Truncated("consumer")
    scene.group.leave(scene.member)
    scene.group.fake.truncate(TOPIC, 0, 10)
    scene.group.fake.append(TOPIC, 0, gap=3)
    later = scene.join()
    scene.turn_until_committed(14)
    assert [*range(10), 13] == scene.handled
    assert [] == emitted(later, events.DataLost)


@pytest.mark.parametrize("is_read", [True, False], ids=["while it is read", "before it is read"])
def test_another_leader_that_wrote_markers_only_has_cut_nothing(*, is_read: bool) -> None:
    """They are behind the last message, and committed with it: the epoch of that would be of a part
    that ends before the commit."""
    scene = _Truncated("consumer")
    if not is_read:
        scene.group.leave(scene.member)
    scene.group.fake.truncate(TOPIC, 0, 10)  # a new leader, which has all
    scene.group.fake.topics[TOPIC].partitions[0].mark(2)
    if not is_read:
        scene.join()
    scene.turn_until_committed(12)
    scene.group.leave(scene.group.members[0])
    scene.group.produce(0, 2)
    scene.join()
    scene.turn_until_committed(14)
    assert [*range(10), 12, 13] == scene.handled
    assert [] == [each for member in scene.met for each in emitted(member, events.DataLost)]


def test_another_leader_above_a_gap_has_cut_nothing() -> None:
    """Where keys are in order, a commit is at the first message that is not done: its leader
    counts, as what is below it may be far away."""
    group = FakeGroup(partitions=1, scope="key", concurrency=2, strategy=[60.0] * 3)
    group.dependency.down_for_keys = {b"a"}
    group.produce_keys(0, [b"b"])
    group.fake.truncate(TOPIC, 0, 1)
    group.produce_keys(0, [b"a"], gap=3)
    group.join()
    group.share([0])
    until(group, lambda: 4 == group.fake.group(GROUP).get(P0))
    group.leave(group.members[0])
    group.fake.truncate(TOPIC, 0, 5)
    group.produce_keys(0, [b"c"])
    group.dependency.down_for_keys = set()
    later = group.join()
    group.share([0])
    group.finish(within_s=200)
    assert [0, 4, 5] == sorted({place.offset for _, place in begun(group)})
    assert [] == emitted(later, events.DataLost)


def test_the_log_is_compared_at_its_first_message() -> None:
    """The owner has begun at the end of the log, which was cut and is as long as before."""
    scene = _Truncated("consumer")
    scene.group.leave(scene.member)
    scene.truncate(5)
    scene.join()
    scene.group.turn(20)
    assert [*range(10)] == scene.handled
    scene.group.produce(0, 1)
    scene.turn_until_committed(11)
    assert [*range(10), *range(5, 11)] == scene.handled


def test_a_truncated_log_ends_the_run_where_loss_is_an_error() -> None:
    """Whoever chose `error` decides where it goes on."""
    scene = _Truncated("consumer", {"auto.offset.reset": "error"})
    scene.truncate()
    with pytest.raises(DataLossError, match=r"orders\[0\]@10"):
        scene.group.turn(20)


def test_what_was_read_before_the_log_was_cut_comes_first() -> None:
    """It is the only copy; meanwhile nothing of the partition counts, and then it is read again
    from the cut. Read on behind the last in memory, what came before it would be passed over."""
    joined = Joined({"group.protocol": "consumer"})
    joined.own(P0)
    reset = joined.offset_reset()
    delivery = joined.delivery_filter(reset=reset)
    read = [Message(topic=TOPIC, partition=0, offset=offset) for offset in (8, 9)]
    delivery.accept(read)
    text = "Partition log truncation detected at offset 10 (leader epoch 0): broker end offset is 5"
    cut = KafkaError(KafkaError._AUTO_OFFSET_RESET, text)
    delivery.accept([Message(topic=TOPIC, partition=0, error=cut)])
    delivery.accept([Message(topic=TOPIC, partition=0, offset=10)])
    assert read == joined.read_ahead.messages
    assert [events.DataLost(TOPIC, 0, 10, 5)] == joined.happened
    joined.read_ahead.drop(P0.__eq__)
    joined.offsets.done({P0: 10})
    reset.tick()
    assert ("incremental_assign", [(*P0, 5)]) in joined.librdkafka.calls
    assert {P0: 5} == joined.offsets.uncommitted()


def test_what_was_dropped_from_memory_before_the_cut_is_read_again() -> None:
    """A circuit that opens, or a restart of another partition, drops what is in memory: it is below
    the cut, still in the log, and was passed over."""
    joined = Joined({"group.protocol": "consumer"})
    joined.own(P0)
    reset = joined.offset_reset()
    delivery = joined.delivery_filter(reset=reset)
    delivery.accept([Message(topic=TOPIC, partition=0, offset=offset) for offset in (2, 3, 4, 5)])
    text = "Partition log truncation detected at offset 6 (leader epoch 0): broker end offset is 5"
    cut = KafkaError(KafkaError._AUTO_OFFSET_RESET, text)
    delivery.accept([Message(topic=TOPIC, partition=0, error=cut)])
    joined.read_ahead.drop(P0.__eq__)
    joined.offsets.done({P0: 3})
    reset.tick()
    assert ("incremental_assign", [(*P0, 3)]) in joined.librdkafka.calls


@pytest.mark.parametrize("end", ["", ": broker end offset is 5"])
def test_what_is_committed_of_a_cut_log_is_not_behind_the_cut(end: str) -> None:
    """The bug: what was in memory was committed when it was done, also at a revoke: the next owner
    began behind the end, or in the midst of what had come there since."""
    joined = Joined({"group.protocol": "consumer"})
    joined.own(P0)
    delivery = joined.delivery_filter()
    delivery.accept([Message(topic=TOPIC, partition=0, offset=offset) for offset in (8, 9)])
    joined.offsets.committed({P0: (8, "")})
    joined.librdkafka.answers["offsets_for_times"] = KafkaException(KafkaError(-185))
    cut = KafkaError(KafkaError._AUTO_OFFSET_RESET, "Partition log truncation detected" + end)
    delivery.accept([Message(topic=TOPIC, partition=0, error=cut)])
    joined.offsets.done({P0: 10})
    joined.commits.commit_revoked([P0])
    commits = [given[0] for name, given in joined.librdkafka.calls if name == "commit"]
    assert ([[(*P0, 5)]] if end else []) == commits


@pytest.mark.parametrize("has_delivered", [True, False])
def test_an_offset_below_the_next_one_is_gone(has_delivered: bool) -> None:
    """librdkafka has stopped reading, though it had begun behind that: it stood still for ever. Of
    a restart it may be told once more; should it have stopped, a watchdog finds it silent."""
    joined = Joined({"group.protocol": "consumer"})
    joined.own(P0, done=5)
    if has_delivered:
        joined.assignment.note_delivered(P0)
    joined.offset_reset().lost(P0, 3, "fetch failed: Broker: Offset out of range (broker 1)")
    restarts = [given for name, given in joined.librdkafka.calls if name == "incremental_assign"]
    assert [[(*P0, 5)]] * has_delivered == restarts
    assert [] == joined.happened


def test_an_error_without_an_offset_is_not_ignored() -> None:
    """librdkafka has stopped reading there, whatever its text says: it is assigned again."""
    joined = Joined({"group.protocol": "consumer"})
    joined.own(P0, done=5)
    joined.offset_reset().lost(P0, None, "a text of a later librdkafka")
    assert ("incremental_assign", [(*P0, 5)]) in joined.librdkafka.calls
    assert [] == joined.happened
