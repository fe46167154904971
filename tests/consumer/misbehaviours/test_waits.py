"""Waiting in retry topics: never early, each once, whatever clocks, groups and brokers do."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from linear_retry import ConfigurationError, RetryTopics, events
from linear_retry.consumer.partitions import queued_read_ahead
from linear_retry.errors import DeadLetterError
from linear_retry.records.retry_headers import DESTINATION, GROUP_ID, SEND_TO
from linear_retry.retry.case import Limited
from linear_retry.scope import Scope
from tests.consumer.two_lines import GROUP, PREFIX, TOPIC, TwoLines

_5S, _30S = f"{PREFIX}.5s", f"{PREFIX}.30s"


def _left(lines: TwoLines, messages: int, *, failures: int = 1, partition: int = 0) -> None:
    """So many messages of the live line fail so often, and have left it."""
    for _ in range(messages):
        lines.live.produce(partition)
        last = lines.live.visible[TOPIC, partition][-1]
        lines.dependency.fails[partition, last] = failures
    while lines.live.members and not lines.live.all_done():
        lines.live.turn()


def _once_each(lines: TwoLines, topic: str, messages: int, *, skew_s: float = 0.0) -> None:
    """All of a retry topic's messages were attempted once, each at its time, and are committed."""
    places = [each.place for each in lines.attempts(topic)]
    assert messages == len(places) == len(set(places))
    assert [] == lines.early()
    assert {} == lines.lag(lines.retry)
    assert [] == lines.violations(skew_s=skew_s)


def test_a_sequence_of_steps() -> None:
    """Each step waits for its topic's delay, the last failure makes the letter, and its headers say
    how far it came."""
    lines = TwoLines()
    lines.start()
    _left(lines, 1, failures=4)
    lines.run(60)
    waits_s = [each.waited_s or 0 for each in lines.attempts()]
    # The lines share a clock, and each of their polls may take a second of it.
    assert [0, 5, 5, 30] == [int(wait_s) - int(wait_s) % 5 for wait_s in waits_s]
    assert [(1, 5), (2, 5), (3, 30)] == [
        (hop.step, (lines.retries.delay_ms(hop.topic) or 0) / 1000)
        for each in lines.attempts()
        if (hop := each.who.hop) is not None
    ]
    (letter,) = lines.letters()
    assert ("dead-letter", "exhausted", 3, 4) == (
        *(letter.send_to, letter.reason, letter.step, letter.failures),
    )
    assert (TOPIC, 0, 0, GROUP) == (
        *(letter.destination, letter.original_partition, letter.original_offset, letter.group_id),
    )
    assert [] == lines.violations()


def test_no_delay_holds_up_another() -> None:
    """What waits for 30 s does not keep what waits for 5, though it came before it."""
    lines = TwoLines(["30s", "5s"])
    lines.start()
    _left(lines, 1, failures=2)
    lines.run(31)
    _left(lines, 1, failures=3, partition=1)
    lines.run(40)
    _once_each(lines, _30S, 2)
    _once_each(lines, _5S, 2)
    waits = [each.waited_s or 0 for each in lines.attempts(_5S)]
    assert max(waits) < 8


def test_it_wakes_up_in_time() -> None:
    """A poll ends when the next message is due: nothing is as late as a poll takes."""
    lines = TwoLines(["5s", "2500ms"], partitions=1)
    lines.start()
    _left(lines, 1, failures=2)
    lines.retry.turn(2)
    lines.live.leave(lines.live.members[0])
    lines.run(10)
    waits_s = [each.waited_s or 0 for each in lines.attempts()[1:]]
    assert [5.0, 2.5] == [round(wait_s, 2) for wait_s in waits_s]


@pytest.mark.parametrize("transactional", [False, True])
def test_a_wait_is_polls_only(transactional: bool) -> None:
    """Nothing is sought or paused for it, and at least every second there is a poll: no wait, how
    long it may be, costs the membership, and none ends with the broker's long poll."""
    lines = TwoLines(["1h"], transactional=transactional)
    lines.start()
    _left(lines, 3)
    lines.turn(6)
    (client,) = (handle.name for handle in lines.reader.handles)
    begun = len(lines.fake.log)
    lines.run(3580)
    during = [(at_s, call) for at_s, who, call, _ in lines.fake.log[begun:] if who == client]
    moving = {"pause", "resume", "seek", "assign", "incremental_assign", "unassign"}
    assert set() == moving & {call for _, call in during}
    polled_s = [at_s for at_s, call in during if call == "poll"]
    # Between two of them there is also the other line's second.
    assert max(later - at_s for at_s, later in pairwise(polled_s)) < 2.1
    lines.run(60)
    _once_each(lines, f"{PREFIX}.1h", 3)


def _fill(lines: TwoLines) -> int:
    """Reads until every partition is paused; the last offset of the first in memory then."""
    partitions = lines.retry.partitions
    for _ in range(300):
        lines.retry.turn()
        if len(lines.calls("pause")) == len(partitions):
            break
    assert len(partitions) == len(lines.calls("pause"))
    last = lines.reader.parts.read_ahead.last_of(partitions[0])
    assert last is not None
    return last


def test_a_burst_is_handed_over_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """More than fits into memory comes due at one moment: what was released is not read again.

    A partition is resumed behind it, and not at the first message that is not handled yet: that one
    may have to wait for those of other partitions.
    """
    monkeypatch.setattr(queued_read_ahead, "MOST_MESSAGES", 20)
    lines = TwoLines(["30s"], partitions=2)
    lines.start(retry=0)
    _left(lines, 50)
    _left(lines, 50, partition=1)
    lines.retry.join()
    lines.retry.share([0, 0])
    assert 20 == _fill(lines)
    lines.dependency.takes_s = 0.4
    lines.run(200)
    _once_each(lines, _30S, 100)


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """By bytes, headers included: the partition is paused, till half of it is gone, and then sought
    behind what is in memory."""
    monkeypatch.setattr(queued_read_ahead, "MOST_BYTES", 20_000)
    lines = TwoLines(["30s"], partitions=1)
    lines.start(retry=0)
    _left(lines, 60)
    lines.retry.join()
    lines.retry.share([0])
    in_memory = _fill(lines)
    assert in_memory in range(5, 30)
    assert [] == lines.calls("seek")
    lines.run(90)
    _once_each(lines, _30S, 60)
    assert [((_30S, 0, in_memory + 1),)] == [place for (place,) in lines.calls("seek")[:1]]


@pytest.mark.parametrize("ahead_s", [600.0, 8.0, 2.0, -2.0, -8.0, -600.0])
def test_clocks_that_are_off(ahead_s: float) -> None:
    """A reader behind the broker waits for the delay from its first sight of a record, and once for
    all that it has seen; one ahead of it is early by no more than that."""
    lines = TwoLines(["5s"], partitions=1)
    lines.fake.faults.broker_ahead_s = ahead_s
    lines.start()
    _left(lines, 20)
    lines.run(60)
    waits_s = [each.waited_s or 0 for each in lines.attempts(_5S)]
    assert 20 == len(waits_s)
    assert max(waits_s) < 5 + 25  # 20 turns of a second to read them, one by one
    assert min(waits_s) >= 5 - max(-ahead_s, 0) - 0.01
    assert {} == lines.lag(lines.retry)
    assert [] == lines.violations(skew_s=max(ahead_s, 0))


@pytest.mark.parametrize("step_s", [3600.0, -3600.0, 20.0])
def test_somebody_sets_the_clock(step_s: float) -> None:
    """The wall clock steps while messages wait: those in memory keep their time."""
    lines = TwoLines(["30s"], partitions=1)
    lines.start()
    _left(lines, 5)
    lines.turn(6)
    lines.clock.step_wall(step_s)
    lines.run(60)
    _once_each(lines, _30S, 5, skew_s=abs(step_s))
    assert max(each.waited_s or 0 for each in lines.attempts(_30S)) < 42


@pytest.mark.parametrize("how", ["revoked", "lost", "crashed", "shared anew"])
def test_a_rebalance_while_waiting(how: str) -> None:
    """What waits in memory is dropped with its partition; its next owner waits for what is left."""
    lines = TwoLines(["30s"], partitions=2)
    lines.start(retry=2)
    _left(lines, 3)
    _left(lines, 3, partition=1)
    lines.run(15)
    first, second = lines.retry.members
    if how == "crashed":
        lines.retry.crash(first)
        lines.retry.share([0, 0])
    elif how == "shared anew":
        lines.retry.share([1, 0])
    else:
        (lines.fake.revoke if how == "revoked" else lines.fake.lose)(first.consumer)
        lines.run(4)
        lines.retry.share([1, 1])
    lines.run(60)
    _once_each(lines, _30S, 6)
    assert max(each.waited_s or 0 for each in lines.attempts(_30S)) < 40
    assert second in lines.retry.members


def test_no_probe_before_its_time() -> None:
    """The message that opened a circuit is another member's: the circuit ends, for a probe would be
    the first message to arrive, which may have to wait for half an hour yet."""
    lines = TwoLines(["5s", "30m"], partitions=1, retry=["10s"])
    lines.start()
    _left(lines, 1, failures=2)
    lines.run(8)
    opened = [one for one in lines.reader.events if isinstance(one, events.CircuitOpened)]
    assert [(_5S, 0, 0)] == [(one.topic, one.partition, one.offset) for one in opened]
    lines.retry.join()
    lines.retry.share([1, 0])  # the topic of 5 s goes to the other one
    lines.retry.turn(3)
    (headers,) = _headers_of(lines, _5S)
    lines.put(f"{PREFIX}.30m", headers=headers)
    lines.run(60)
    assert [] == lines.attempts(f"{PREFIX}.30m")
    assert "closed" == lines.reader.circuits.views[Scope()].state
    lines.run(1900)
    assert [1800] == [int(each.waited_s or 0) for each in lines.attempts(f"{PREFIX}.30m")]
    assert {} == lines.lag(lines.retry)
    assert [] == lines.violations()


def _headers_of(lines: TwoLines, topic: str) -> list[Any]:
    return [record.headers for record in lines.fake.topics[topic].partitions[0].records]


def test_a_foreign_record_is_never_attempted() -> None:
    """No consumer of ours has sent it: it is a dead letter, with the reason, and in its order."""
    lines = TwoLines(["5s"], partitions=1)
    lines.start()
    lines.put(_5S, value=b"garbage")
    lines.put(_5S, headers=[(SEND_TO, b"retry"), ("retry-id", b"x")])
    _left(lines, 1)
    lines.run(20)
    assert [2] == [each.place[2] for each in lines.attempts(_5S)]
    assert ["permanent", "permanent"] == [letter.reason for letter in lines.letters()]
    errors = [letter.error.message or "" for letter in lines.letters() if letter.error]
    assert [True, True] == ["is not a retry" in text for text in errors]
    assert {} == lines.lag(lines.retry)
    assert [] == lines.violations()


def test_nor_when_the_limit_holds_it() -> None:
    """The limit of dead letters is reached by such records: the next is held, and at the end of the
    hold refused once more. Attempted, it would begin a life with the retry topic as its origin."""
    lines = TwoLines(["5s"], partitions=1)
    lines.retry.dead_letters = replace(lines.retry.dead_letters, limit=2)
    lines.start()
    for _ in range(4):
        lines.put(_5S, value=b"garbage")
    lines.run(100)
    assert [] == lines.attempts(_5S)
    assert 2 == len(lines.letters())
    (circuit,) = (each for _, each in lines.reader.circuits)
    assert isinstance(circuit.case, Limited)
    assert 2 == circuit.case.held.offset


def test_a_handler_that_reads_dead_letters() -> None:
    """An error of that kind, raised by the handler, was taken for a record that is no retry: held
    by the limit, it was never attempted again."""
    lines = TwoLines(["5s"], partitions=1)
    lines.retry.dead_letters = replace(lines.retry.dead_letters, limit=1)
    lines.start()
    _left(lines, 2)
    lines.dependency.raises_once = [DeadLetterError("the handler's own") for _ in range(2)]
    lines.run(60)
    assert [0, 1, 1] == [each.place[2] for each in lines.attempts(_5S)]
    assert 1 == len(lines.letters())
    assert {} == lines.lag(lines.retry)


def test_another_groups_records(caplog: pytest.LogCaptureFixture) -> None:
    """Two groups share the topics, by mistake or to save some: no group handles the other's, and it
    is said."""
    lines = TwoLines(["5s"], partitions=1)
    lines.start()
    _left(lines, 1)
    (headers,) = _headers_of(lines, _5S)
    others = [(name, b"shipping" if name == GROUP_ID else value) for name, value in headers]
    lines.put(_5S, headers=others)
    lines.run(20)
    assert [0] == [each.place[2] for each in lines.attempts(_5S)]
    assert {} == lines.lag(lines.retry)
    passed = [one for one in lines.reader.events if isinstance(one, events.PassedOver)]
    assert [(1, "shipping")] == [(one.offset, one.retry_group_id) for one in passed]
    assert 1 == len([each for each in caplog.messages if "retry line of group billing p" in each])
    assert [] == lines.violations()


def test_limit_and_hold() -> None:
    """After so many in a row the next message is held, tried after each hold, and all go on with
    the first success; what was tried while held is no step."""
    lines = TwoLines(["5s"], partitions=1, limit=3, hold=40.0)
    lines.start()
    for _ in range(6):
        lines.live.produce(0)
    lines.dependency.down = True
    lines.run(30)
    assert [0, 1, 2] == [each.original_offset for each in lines.waiting()]
    lines.dependency.down = False
    lines.run(60)
    assert {} == lines.lag(lines.live) == lines.lag(lines.retry)
    assert [0, 1, 2] == [each.original_offset for each in lines.waiting()]
    handled = [each.origin[2] for each in lines.attempts(TOPIC)]
    assert [0, 1, 2, 3, 3, 4, 5] == handled
    assert [] == lines.violations()


def test_markers_between_what_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Transactions leave gaps: where a partition is resumed, the next offset is not the one after
    the last in memory, and what is there is not read again to find that out."""
    monkeypatch.setattr(queued_read_ahead, "MOST_MESSAGES", 3)
    lines = TwoLines(["30s"], partitions=1, transactional=True)
    lines.start(retry=0)
    _left(lines, 12)
    lines.retry.join()
    lines.retry.share([0])
    lines.run(90)
    _once_each(lines, _30S, 12)
    sought = [offset for (((_, _, offset),),) in lines.calls("seek")]
    assert sorted(sought) == sought != []


def test_single() -> None:
    """One topic, one interval, until the duration is over: discarded then, where that is asked."""
    retries = RetryTopics.single(PREFIX, every="5s", max_duration="22s", on_expired="discard")
    lines = TwoLines(retries=retries, partitions=1)
    lines.start()
    _left(lines, 1, failures=99)
    lines.run(60)
    assert 5 == len(lines.attempts())
    assert [] == lines.letters()
    assert [] == lines.early()
    (skipped,) = (one for one in lines.reader.events if isinstance(one, events.Skipped))
    assert {} == lines.lag(lines.retry)
    marks = dict(_headers_of(lines, PREFIX)[-1])
    assert TOPIC.encode() == marks["original-received-topic"] == marks[DESTINATION]
    assert (PREFIX, 0) == (skipped.topic, skipped.partition)
    assert [] == lines.violations()


@pytest.mark.parametrize("oversized", ["hold", "reference"])
def test_too_large_for_the_retry_topic(oversized: Any) -> None:
    """Its place in the line is held, and said why, until the topic takes it: nothing is lost. A
    reference would be taken for the message by the handler of the retry line."""
    lines = TwoLines(["5s"], partitions=1)
    lines.live.dead_letters = replace(lines.live.dead_letters, oversized=oversized)
    lines.fake.topics[_5S].max_message_bytes = 2000
    lines.start()
    lines.put(TOPIC, headers=[("big", b"x" * 3000)])
    lines.dependency.fails[0, 0] = 1
    lines.run(20)
    assert [] == lines.waiting()
    all_said = lines.live.members[0].events
    failed = [one for one in all_said if isinstance(one, events.DeadLetterFailed)]
    assert {_5S} == {one.dead_letter_topic for one in failed}
    assert f"does not fit into {_5S}; raise that topic's max.message.bytes" in failed[-1].error
    lines.fake.topics[_5S].max_message_bytes = 1_000_000
    lines.run(40)
    assert {} == lines.lag(lines.live) == lines.lag(lines.retry)
    assert 2 == len(lines.attempts())
    assert [] == lines.violations()


def test_a_retry_topic_is_deleted() -> None:
    """While messages wait in it: they are gone, as with any topic. What is to go there is held, and
    said why, until it is there again; the other delays go on."""
    lines = TwoLines(["30s", "5s"], partitions=1)
    lines.start()
    _left(lines, 2, failures=1)
    lines.turn(4)
    lines.fake.delete_topic(_30S)
    lines.live.produce(0)
    lines.dependency.fails[0, 2] = 2
    lines.run(80)
    failed = [one for one in lines.live.members[0].events if type(one) is events.DeadLetterFailed]
    assert f"the topic {_30S} does not exist" in failed[-1].error
    lines.fake.create_topic(_30S, 1, {"message.timestamp.type": "LogAppendTime"})
    lines.retry.share([0, 0])
    lines.run(120)
    assert 2 in [each.origin[2] for each in lines.dependency.handled]
    assert {} == lines.lag(lines.live)


def test_the_strategy_changes_while_they_wait() -> None:
    """The topic of a delay that is used no more is read to its end, each message at its old time,
    and goes on with the first step that is not shorter."""
    lines = TwoLines(["5s", "30s"], partitions=1)
    lines.start()
    _left(lines, 1, failures=9)
    lines.turn(1)
    lines.fake.create_topic(f"{PREFIX}.10s", 1, {"message.timestamp.type": "LogAppendTime"})
    changed = RetryTopics(PREFIX, strategy=["10s", "30s"], limit=None)
    for group in (lines.live, lines.retry):
        group.leave(group.members[0])
    lines.live.on_exhausted = lines.retry.reads = changed
    lines.retry.topics.append(f"{PREFIX}.10s")
    lines.retry.visible[f"{PREFIX}.10s", 0] = []
    for group in (lines.live, lines.retry):
        group.join()
        group.share([0] * len(group.partitions))
    lines.run(90)
    assert [None, "5s", "10s", "30s"] == [
        None if each.who.hop is None else each.place[0].rpartition(".")[2]
        for each in lines.attempts()
    ]
    assert [] == lines.early()
    assert 1 == len(lines.letters())


def test_poison_that_fails_for_ever() -> None:
    """A transient error that never ends: so many attempts as there are steps, and one, and then a
    dead letter; not one more, over rebalances, too."""
    lines = TwoLines(["5s", "5s", "10s"], partitions=1)
    lines.start(retry=2)
    _left(lines, 3, failures=99)
    for owners in ([0, 1], [1, 0], [1, 1], [0, 0]):
        lines.run(8)
        lines.retry.share(owners)
    lines.run(60)
    assert [3, 3, 3] == [letter.step for letter in lines.letters()]
    assert 12 == len(lines.attempts())
    assert {} == lines.lag(lines.retry)


def test_back_to_source() -> None:
    """The retry line calls no handler: the message is attempted in its source again, once for each
    step, without the blocking strategy, and each group but its own passes it over."""
    retries = RetryTopics(PREFIX, strategy=["5s", "10s"], limit=None, back_to_source=True)
    lines = TwoLines(retries=retries, partitions=1, live=["1s", "1s"], transactional=True)
    lines.start()
    _left(lines, 1, failures=99)
    lines.run(60)
    assert [TOPIC] * 5 == [each.place[0] for each in lines.attempts()]
    steps = [0 if each.who.hop is None else each.who.hop.step for each in lines.attempts()]
    assert [0, 0, 0, 1, 2] == steps
    assert [1, 2] == [each.step for each in lines.returned()]
    (letter,) = lines.letters()
    assert (0, 5, 2) == (letter.original_offset, letter.failures, letter.step)
    assert {} == lines.lag(lines.live) == lines.lag(lines.retry)


def test_back_to_source_needs_transactions() -> None:
    """Refused before anything is read: a member that is killed between record and offset would
    return the message once more."""
    retries = RetryTopics(PREFIX, strategy=["5s"], back_to_source=True)
    lines = TwoLines(retries=retries, partitions=1)
    with pytest.raises(ConfigurationError, match="transactional=True"):
        lines.retry.join()
