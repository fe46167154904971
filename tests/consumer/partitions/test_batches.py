"""What batches promise in a group: all that `run` promises, whatever happens to the partitions."""

from typing import get_args

import pytest

from linear_retry import HandlerTooSlowError, events
from linear_retry.consumer.partitions.batches import Batches, BatchLimits
from linear_retry.kafka import Message
from linear_retry.kafka.consumer.messages import place_of
from linear_retry.records.retry_headers import DESTINATION, GROUP_ID, REPLAY_ID
from linear_retry.records.text import Header
from linear_retry.scope import Place
from tests.consumer.group import TOPIC, Dependency, FakeGroup, Protocol
from tests.consumer.joined_parts import Joined
from tests.consumer.misbehaviours.misbehaving import emitted, turn_until, until
from tests.consumer.two_lines import PREFIX, TwoLines

_LIMITS = BatchLimits(max_messages=4, max_bytes=1_000_000)
_ELSEWHERE: list[Header] = [
    (REPLAY_ID, b"replay"),
    (GROUP_ID, b"audit"),
    (DESTINATION, TOPIC.encode()),
]


class _Noting(Dependency):
    """Notes what the handlers are given; a call takes so long, besides its messages."""

    def __init__(self, group: FakeGroup, call_takes_s: float = 0.0) -> None:
        super().__init__()
        self.given: list[list[Place]] = []
        self._call_takes_s = call_takes_s
        self.advance = group.fake.clock.advance
        group.dependency = self

    def batch(self, messages: list[Message]) -> None:
        self.given.append([place_of(message) for message in messages])
        self.advance(self._call_takes_s)
        super().batch(messages)


@pytest.mark.parametrize("protocol", get_args(Protocol))
def test_a_held_batch_goes_to_another_member(protocol: Protocol) -> None:
    """The next owner attempts it from the first message on; nothing is lost or out of order."""
    group = FakeGroup(protocol=protocol, partitions=2, batches=_LIMITS)
    noting = _Noting(group)
    first = group.join()
    group.share([0, 0])
    for number in (0, 1):
        group.produce(number, 20)
    until(group, lambda: any(len(batch) > 1 for batch in noting.given))
    group.dependency.down = True
    turn_until(group, first, events.CircuitOpened)
    group.join()
    group.share([1, 1])
    group.turn(20)
    group.dependency.down = False
    group.finish()
    assert [] == group.violations()


def test_a_batch_that_was_taken_apart_before_a_rebalance() -> None:
    """Whoever has the partition then is given batches again."""
    group = FakeGroup(partitions=1, batches=BatchLimits(max_messages=500, max_bytes=1_000_000))
    noting = _Noting(group)
    member = group.join()
    group.share([0])
    group.produce(0, 1)
    until(group, group.all_done)
    group.produce(0, 40)
    group.dependency.refuses = {(0, 11)}  # not a third: the handler cannot say which it is
    turn_until(group, member, events.BatchTakenApart)
    (apart,) = emitted(member, events.BatchTakenApart)
    group.turn(2)
    group.fake.lose(member.consumer)
    group.turn(5)
    before = len(noting.given)
    group.dependency.refuses = set()
    group.share([0])
    group.finish()
    end = apart.offset + apart.messages
    assert any(len(batch) > 1 and batch[-1].offset < end for batch in noting.given[before:])
    assert [] == group.violations()


def test_always_too_slow() -> None:
    """It is the first message of the batch that is named, and counted: lists may differ."""
    group = FakeGroup(partitions=1, batches=_LIMITS)
    noting = _Noting(group)
    group.join()
    group.share([0])
    group.produce(0, 1)
    until(group, group.all_done)
    group.produce(0, 8)
    group.dependency.takes_s = 301.0
    with pytest.raises(HandlerTooSlowError, match=r"orders\[0\]@1:.*third"):
        group.turn(60)
    assert [1, 4, 1, 1] == [len(batch) for batch in noting.given]


def test_a_slow_handler_gets_large_batches() -> None:
    """Its cost is for the call and not for the message: what is slow with one is not with many."""
    group = FakeGroup(partitions=1, batches=BatchLimits(max_messages=50, max_bytes=1_000_000))
    noting = _Noting(group, call_takes_s=0.5)
    group.join()
    group.share([0])
    group.produce(0, 300)
    group.finish()
    assert 50 == max(map(len, noting.given))
    assert [] == group.violations()


def test_replays_of_other_groups() -> None:
    """At a batch's head, inside and behind it, between those of another partition: passed over,
    and a batch has messages of one partition all the same."""
    group = FakeGroup(partitions=2, batches=_LIMITS)
    noting = _Noting(group)
    for number in range(24):
        if number % 3 == 0:
            group.fake.append(TOPIC, number % 2, headers=_ELSEWHERE)
        else:
            group.produce(number % 2)
    member = group.join()
    group.share([0, 0])
    group.turn(80)
    group.finish()
    assert 8 == len(emitted(member, events.PassedOver))
    assert all(len({place.partition for place in batch}) == 1 for batch in noting.given)
    assert [] == group.violations()


def test_a_gap_in_the_batch_that_was_gathered() -> None:
    """What is left of it would have others of another partition in it."""
    parts = Joined()
    batches = Batches(parts.assignment, parts.read_ahead)
    ahead = parts.read_ahead.messages
    ahead += [Message(topic=TOPIC, partition=n, offset=0, value=b"") for n in (0, 1, 2)]
    ahead += [Message(topic=TOPIC, partition=0, offset=1, value=b"")]

    def passing_over(messages: list[Message], most: int) -> list[Message]:
        if messages[0].offset() == 0:
            del messages[0]
        return messages[:most]

    assert [] == batches.next(_LIMITS, passing_over)
    (found,) = batches.next(_LIMITS, passing_over)
    assert (0, 1) == (found.partition(), found.offset())


def test_larger_messages_behind_small_ones() -> None:
    """Their average says how many are read, and their sum where a batch ends."""
    parts = Joined()
    batches = Batches(parts.assignment, parts.read_ahead)
    sizes = [1, 1, 1, 1, 90, 90, 90, 200, 1]
    parts.read_ahead.messages += [
        Message(topic=TOPIC, partition=0, offset=offset, value=b"x" * size)
        for offset, size in enumerate(sizes)
    ]
    given = []
    while parts.read_ahead.messages:
        batch = batches.next(BatchLimits(500, 100), lambda messages, most: messages[:most])
        del parts.read_ahead.messages[: len(batch)]
        given.append([len(message) for message in batch])
    assert [[1, 1, 1, 1, 90], [90], [90], [200], [1]] == given


def test_messages_that_leave_the_line() -> None:
    """An exhausted batch is taken apart, and those that fail go to the retry topics, one by one."""
    lines = TwoLines(live=(1,), partitions=1)
    lines.live.batches = _LIMITS
    lines.start(retry=0)
    lines.live.produce(0, 1)
    until(lines.live, lines.live.all_done)
    lines.live.produce(0, 11)
    lines.dependency.down = True
    (member,) = lines.live.members
    turn_until(lines.live, member, events.SentToRetry, 5)
    lines.dependency.down = False
    lines.live.finish()
    sent = [event.offset for event in emitted(member, events.SentToRetry)]
    assert sorted(set(sent)) == sent
    assert len(sent) >= 5
    assert emitted(member, events.BatchTakenApart)
    assert any(name.startswith(PREFIX) for name in lines.fake.topics)
    assert [] == lines.live.violations()


def test_batches_of_retry_topics() -> None:
    """A message is in a batch when its delay is over, and not before."""
    lines = TwoLines(("5s", "30s"), partitions=1)
    lines.retry.batches = _LIMITS
    lines.dependency.fails.update({(0, offset): 1 for offset in range(0, 12, 2)})
    lines.live.produce(0, 12)
    lines.start()
    lines.run(30)
    came_back = [each for each in lines.dependency.handled if each.waited_s is not None]
    assert list(range(0, 12, 2)) == [each.origin[2] for each in came_back]
    assert all((each.waited_s or 0) >= 5 for each in came_back)
    assert [] == lines.violations()


def test_a_probe_is_one_message_after_a_revoke() -> None:
    """The circuit stays open without its batch, and the first message to arrive is the probe."""
    group = FakeGroup(partitions=2, strategy=(30, 30), batches=_LIMITS)
    member = group.join()
    group.share([0, 0])
    for number in (0, 1):
        group.produce(number, 8)
    group.dependency.down = True
    turn_until(group, member, events.CircuitOpened)
    group.fake.revoke(member.consumer)
    group.turn(3)
    group.share([0, 0])
    group.dependency.down = False
    group.finish()
    assert [] == group.violations()
