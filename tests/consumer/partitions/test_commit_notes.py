"""A message's failures, and their times, survive its owner."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal
from unittest.mock import Mock

import pytest
from confluent_kafka import KafkaError, KafkaException

from linear_retry import ConfigurationError, Strategy
from linear_retry.events import CircuitOpened, DeadLettered, PassedOver
from linear_retry.records.commit_note import CommitNote, read_note, write_note
from linear_retry.scope import Partition
from linear_retry.testing import AttemptStarted
from tests.consumer.group import GROUP, TOPIC, FakeGroup, Member, Protocol
from tests.consumer.ownership.test_requests import ask
from tests.fake.consumer import FakeConsumer
from tests.fake.topic import Headers
from tests.records.test_commit_note import newer_note

_P0 = (TOPIC, 0)
_HOUR_S = 3600.0
_REPLAYED: Headers = [
    ("retry-replay-id", b"r"),
    ("retry-group-id", b"shipping"),
    ("retry-destination", TOPIC.encode()),
]

End = Callable[[FakeGroup, Member], object]
ENDS: dict[str, End] = {"clean": FakeGroup.leave, "killed": FakeGroup.crash}


def _failing(count: int = 1, **options: Any) -> FakeGroup:
    """A group of one, whose first message has failed `count` times."""
    group = FakeGroup(partitions=1, **({"strategy": [1, _HOUR_S, 60]} | options))
    group.produce(0, 3)
    group.dependency.down = True
    group.join()
    group.share([0])
    _until_failed(group, count)
    return group


def _until_failed(group: FakeGroup, count: int) -> None:
    (member,) = group.members
    while True:
        view = next((view for view in member.circuits.views.values() if view.failures), None)
        if view is not None:
            assert (view.failures or 0) <= count
            if view.failures == count:
                return
        group.turn()


def _note(group: FakeGroup, partition: Partition = _P0) -> CommitNote:
    note = read_note(group.fake.notes(GROUP)[partition], GROUP, partition)
    assert note is not None
    return note


def _write(group: FakeGroup, note: CommitNote) -> None:
    group.fake.notes(GROUP)[_P0] = write_note(note, GROUP, _P0)


def _next_owner(group: FakeGroup) -> Member:
    member = group.join()
    group.share([0])
    while not member.circuits.next_retry_at_s < float("inf"):
        group.turn()
    return member


@pytest.mark.parametrize("protocol", ["eager", "cooperative", "consumer"])
@pytest.mark.parametrize("end", [*ENDS])
def test_the_next_owner_goes_on(end: str, protocol: Protocol) -> None:
    """It waits until `retry_at`, and goes on in the strategy: a 6-hour strategy began anew with
    each deployment, and a restart ended every wait."""
    group = _failing(2, protocol=protocol)
    (first,) = group.members
    (before,) = [view for view in first.circuits.views.values() if view.failures]
    group.fake.clock.advance(20)
    group.turn()
    ENDS[end](group, first)
    group.fake.clock.advance(60)
    second = _next_owner(group)
    (opened,) = [event for event in second.events if isinstance(event, CircuitOpened)]
    assert (2, 0) == (opened.failures, opened.offset)
    assert before.retry_at is not None
    assert abs((opened.retry_at - before.retry_at).total_seconds()) < 1
    group.turn(3)
    (after,) = [view for view in second.circuits.views.values() if view.failures]
    assert 2 == after.failures, "attempted early"
    group.fake.clock.advance(_HOUR_S)
    _until_failed(group, 3)
    group.fake.clock.advance(60)
    group.finish(within_s=3 * _HOUR_S)
    letters = [event for event in second.events if isinstance(event, DeadLettered)]
    assert [0, 1, 2] == [event.offset for event in letters]


@pytest.mark.parametrize("end", [*ENDS])
def test_it_goes_on_behind_offsets_without_a_message(end: str) -> None:
    """The markers of transactions, or what compaction has removed: the offset that is committed is
    not that of the message. Its failures were forgotten in every topic written in transactions."""
    group = FakeGroup(partitions=1, strategy=[1, _HOUR_S, 60])
    group.produce(0, 1)
    group.produce(0, 2, gap=2)
    calls: list[float] = []

    def fail_the_second(now: float) -> None:
        calls.append(now)
        group.dependency.down = len(calls) > 1

    group.dependency.advance = fail_the_second
    first = group.join()
    group.share([0])
    _until_failed(group, 2)
    group.fake.clock.advance(20)
    group.turn()
    assert {_P0: 1} == group.fake.group(GROUP)
    ENDS[end](group, first)
    second = _next_owner(group)
    (opened,) = [event for event in second.events if isinstance(event, CircuitOpened)]
    assert (2, 3) == (opened.failures, opened.offset)
    group.dependency.advance = lambda now: None
    group.dependency.down = False
    group.finish(within_s=2 * _HOUR_S)


@pytest.mark.parametrize("wish", ["retry", "give-up"])
def test_an_operator_need_not_wait(wish: Literal["retry", "give-up"]) -> None:
    """What is held for a failure of before is attempted, or given up, at once."""
    group = _failing(2)
    group.leave(group.members[0])
    second = _next_owner(group)
    answer = ask(second, wish)
    group.turn(3)
    assert answer.result(0)
    letters = [event for event in second.events if isinstance(event, DeadLettered)]
    assert ([("given-up", 2)] if wish == "give-up" else []) == [
        (event.reason, event.failures) for event in letters
    ]
    group.dependency.down = False
    group.finish(within_s=2 * _HOUR_S)
    assert [] == group.violations()


def test_what_was_replayed_for_another_group_is_passed_over() -> None:
    """Also where it has failed before: the release of then did not know whose it was."""
    group = _failing(1)
    group.leave(group.members[0])
    log = group.fake.topics[TOPIC].partitions[0]
    log.records[0] = replace(log.records[0], headers=_REPLAYED)
    group.dependency.down = False
    second = group.join()
    group.share([0])
    group.finish()
    assert [0] == [event.offset for event in second.events if isinstance(event, PassedOver)]


def test_max_elapsed_counts_on() -> None:
    """Two hours since the first failure are two hours, whoever has counted them."""
    group = _failing(1, strategy=Strategy([_HOUR_S, _HOUR_S, _HOUR_S], max_elapsed="90m"))
    (first,) = group.members
    group.leave(first)
    group.fake.clock.advance(2 * _HOUR_S)
    second = _next_owner(group)
    group.turn(5)
    (letter, *_) = [event for event in second.events if isinstance(event, DeadLettered)]
    assert 0 == letter.offset


def test_a_wait_that_is_over_is_over() -> None:
    """What was due while nobody had the partition is attempted at once."""
    group = _failing(2)
    group.fake.clock.advance(10)
    group.turn()
    group.crash(group.members[0])
    group.fake.clock.advance(2 * _HOUR_S)
    begun_s = group.fake.clock.now_s()
    _next_owner(group)
    _until_failed(group, 3)
    assert group.fake.clock.now_s() - begun_s < 60


def test_it_waits_no_longer_than_the_failure_asked_for() -> None:
    """The clock of the owner before was an hour ahead."""
    group = _failing(1)
    group.leave(group.members[0])
    (held,) = _note(group).undone
    assert held.failures is not None
    ahead_ms = 3_600_000
    moved = replace(
        held.failures,
        first_ms=held.failures.first_ms + ahead_ms,
        last_ms=held.failures.last_ms + ahead_ms,
        retry_at_ms=held.failures.retry_at_ms + ahead_ms,
    )
    _write(group, CommitNote(0, 0, (replace(held, failures=moved),)))
    begun_s = group.fake.clock.now_s()
    _next_owner(group)
    _until_failed(group, 2)
    assert group.fake.clock.now_s() - begun_s < 60


def test_a_count_belongs_to_its_message() -> None:
    """Karafka #883: a count that survived was the next message's. The offset may be moved by a
    tool, which writes the old text back, or be another message's: the log was made again."""
    group = _failing(2)
    group.leave(group.members[0])
    group.fake.group(GROUP)[_P0] = 1
    member = group.join()
    group.share([0])
    _until_failed(group, 1)
    (view,) = [view for view in member.circuits.views.values() if view.failures]
    assert 1 == view.offset


def test_another_message_has_the_offset() -> None:
    """The topic was made again, with other messages, and a tool has kept the group's offsets."""
    group = _failing(2)
    group.leave(group.members[0])
    (held,) = _note(group).undone
    _write(group, CommitNote(0, 0, (replace(held, digest=bytes(6)),)))
    group.join()
    group.share([0])
    _until_failed(group, 1)


@pytest.mark.parametrize("end", [*ENDS])
def test_a_note_outlives_an_owner_who_never_attempts(end: str) -> None:
    """Its circuit holds another message, as its scope is a wider one: what it commits where it
    stands does not clear the note."""
    group = FakeGroup(partitions=2, strategy=[_HOUR_S], scope="partition")
    group.dependency.down = True
    for number in (0, 1):
        group.produce(number, 3)
    first = group.join()
    group.share([0, 0])
    while len(list(first.circuits)) < 2:
        group.turn()
    group.leave(first)
    group.scope = "consumer"
    second = group.join()
    group.share([0, 0])
    for number in (0, 1):
        group.fake.faults.leak((TOPIC, number))
    group.turn(30)
    assert 1 == len(list(second.circuits))
    ENDS[end](group, second)
    for number in (0, 1):
        (held,) = _note(group, (TOPIC, number)).undone
        assert held.failures is not None
        assert 1 == held.failures.count


@pytest.mark.parametrize("text", ["", "their own text", "lr1.AAAAAAAA"])
def test_what_is_not_ours_is_nothing(text: str) -> None:
    """Other clients' texts, and damaged ones: the strategy begins, and nothing ends."""
    group = _failing(2)
    group.leave(group.members[0])
    group.fake.notes(GROUP)[_P0] = text
    group.join()
    group.share([0])
    _until_failed(group, 1)


def test_one_of_a_newer_release_is_refused() -> None:
    """It may say that messages behind the offset are done: they would be handled again."""
    group = _failing(1)
    group.leave(group.members[0])
    group.fake.notes(GROUP)[_P0] = newer_note(GROUP, _P0)
    group.join()
    group.share([0])
    with pytest.raises(ConfigurationError, match="on_unreadable_note"):
        group.turn(5)


def test_without_an_answer_nothing_is_attempted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The wait may not be over: the message is fetched again until its note is known."""
    group = _failing(2)
    group.leave(group.members[0])
    before, begun = dict(group.fake.notes(GROUP)), len(group.witness.entries)
    member = group.join()
    group.share([0])
    with monkeypatch.context() as patched:
        unanswered = KafkaException(KafkaError(KafkaError._TIMED_OUT))
        patched.setattr(FakeConsumer, "committed", Mock(side_effect=unanswered))
        for _ in range(10):
            group.turn()
            group.fake.clock.advance(1)
    assert [] == [one for one in group.witness.entries[begun:] if isinstance(one, AttemptStarted)]
    assert [] == list(member.circuits)
    assert before == group.fake.notes(GROUP), "a commit has cleared it"
    _until_failed(group, 2)


def test_it_comes_while_a_letter_is_awaited() -> None:
    """The letter had no circuit yet, and its end closed the one that held the restored message: it
    was attempted an hour early, as if it had never failed."""
    group = FakeGroup(partitions=2, strategy=[1, _HOUR_S, 60], protocol="cooperative")
    group.dependency.down_for = {_P0}
    group.produce(0, 3)
    group.join()
    group.share([0, 0])
    _until_failed(group, 2)
    group.leave(group.members[0])
    group.produce(1, 3)
    group.dependency.refuses = {(1, 0)}
    group.fake.faults.delivery_s = 5.0
    second = group.join()
    group.fake.assign(second.consumer, [(TOPIC, 1)])
    # In the handler: so it comes with the first poll that waits for the letter.
    group.dependency.advance = lambda _: group.fake.assign(second.consumer, [_P0, (TOPIC, 1)])
    begun = len(group.witness.entries)
    while not [event for event in second.events if isinstance(event, DeadLettered)]:
        group.turn()
    _until_failed(group, 2)
    group.turn(20)
    attempts = [one for one in group.witness.entries[begun:] if isinstance(one, AttemptStarted)]
    assert [] == [one for one in attempts if one.place[:2] == _P0]
    assert [] == group.violations(finished=False)


def test_a_broker_that_takes_no_long_text(caplog: pytest.LogCaptureFixture) -> None:
    """`offset.metadata.max.bytes`: it refuses the offset with the text. Then there is no text, and
    it is said once."""
    group = FakeGroup(partitions=1, strategy=[_HOUR_S])
    group.fake.faults.longest_note = 10
    group.produce(0, 3)
    calls: list[float] = []

    def fail_the_third(now: float) -> None:
        calls.append(now)
        group.dependency.down = len(calls) == 3

    group.dependency.advance = fail_the_third
    (member,) = [group.join()]
    group.share([0])
    while not list(member.circuits):
        group.turn()
    group.fake.clock.advance(2)
    group.turn(2)
    assert ({_P0: 2}, {}) == (group.fake.group(GROUP), group.fake.notes(GROUP))
    group.finish(within_s=2 * _HOUR_S)
    assert [] == group.violations()
    said = [text for text in caplog.messages if "offset.metadata.max.bytes" in text]
    assert 1 == len(said)


def test_what_is_handled_leaves_no_note() -> None:
    """The next commit clears it."""
    group = _failing(2)
    group.dependency.down = False
    group.fake.clock.advance(_HOUR_S)
    group.finish()
    assert ({_P0: 3}, {}) == (group.fake.group(GROUP), group.fake.notes(GROUP))


def test_failures_alone_are_not_committed_each_time() -> None:
    """A commit each 10 s is enough for a message that fails ten times a second."""
    group = _failing(1, strategy=[0.1] * 1_000)
    sent = _commits(group)
    begun_s = group.fake.clock.now_s()
    while group.fake.clock.now_s() < begun_s + 30:
        group.turn()
    assert 2 <= _commits(group) - sent <= 4


def _commits(group: FakeGroup) -> int:
    return len([call for _, _, call, _ in group.fake.log if call == "commit"])
