"""Rare moments of messages that leave the line: too slow, gone for good, or asked about."""

from uuid import uuid4

import pytest

from linear_retry import (
    ConfigurationError,
    DeadLetters,
    HandlerTooSlowError,
    Recovery,
    RetryTopics,
    events,
)
from linear_retry.consumer.ownership.requests import GiveUp
from linear_retry.kafka import Message
from linear_retry.records.control import Command
from linear_retry.retry.case import RECOVERY
from tests.consumer.group import GROUP, LETTERS, TOPIC, FakeGroup
from tests.consumer.misbehaviours.misbehaving import emitted, turn_until
from tests.consumer.ownership.test_requests import waiting
from tests.consumer.two_lines import PREFIX, TwoLines


def test_a_recovery_that_is_always_too_slow() -> None:
    """It took longer than the group allows, was called for the message by the next owner, and so on
    for ever: now the third time in a row is raised, as for a handler."""
    calls: list[int | None] = []

    def take_over(message: Message, _: Exception) -> None:
        calls.append(message.offset())
        group.fake.clock.advance(301)

    group = FakeGroup(partitions=1, strategy=(), on_exhausted=Recovery(take_over))
    group.produce(0)
    group.dependency.down = True
    member = group.join()
    group.share([0])
    with pytest.raises(HandlerTooSlowError, match=r"the recovery callback took .* third"):
        group.turn(50)
    assert [0, 0, 0] == calls
    slow = emitted(member, events.HandlerTooSlow)
    assert [(1, RECOVERY), (2, RECOVERY), (3, RECOVERY)] == [(e.attempts, e.what) for e in slow]


def test_handed_over_when_the_partition_is_back() -> None:
    """A message whose partition went and came back while the callback was at it was said to be
    handed over, and was then attempted again; now it is said once, when it is done."""
    calls: list[int | None] = []

    def take_over(message: Message, _: Exception) -> None:
        calls.append(message.offset())
        if len(calls) == 1:
            group.fake.lose(member.consumer)
            group.share([0])

    group = FakeGroup(partitions=1, strategy=(), on_exhausted=Recovery(take_over))
    group.produce(0)
    group.dependency.down = True
    member = group.join()
    group.share([0])
    group.finish()
    assert [0, 0] == calls
    assert 1 == len(emitted(member, events.HandedOver))
    assert [] == group.violations()


def test_given_up_where_its_source_is_gone() -> None:
    """A message that could not be returned to its source was held for ever: the request to give it
    up was never answered. Its letter says when and of what it failed last."""
    retries = RetryTopics(PREFIX, strategy=["5s"], limit=None, back_to_source=True)
    lines = TwoLines(retries=retries, transactional=True, partitions=1)
    lines.live.produce(0)
    lines.dependency.down = True
    lines.start()
    lines.run(2)
    (waits,) = lines.waiting()
    lines.live.leave(lines.live.members[0])
    del lines.fake.topics[TOPIC]
    turn_until(lines.retry, lines.reader, events.DeadLetterFailed)
    asked = lines.reader.parts.requests.submit(GiveUp(((retries.topics[0], 0), 0)))
    lines.retry.turn(3)
    assert asked.result(0)
    (letter,) = lines.letters()
    assert ("given-up", 1, waits.last_failure_ms) == (
        letter.reason,
        letter.failures,
        letter.last_failure_ms,
    )
    assert waits.error == letter.error is not None


@pytest.mark.parametrize(("discards", "answer"), [(False, "begun"), (True, "last-attempt")])
def test_the_last_attempt_of_a_line(discards: bool, answer: str) -> None:
    """A message that would go on to a retry topic was refused its attempt as its last one; one that
    would be discarded was attempted, and lost."""
    retries = RetryTopics.single(
        PREFIX, every=10, max_duration=35, on_expired="discard", limit=None
    )
    group, member = waiting((30,), on_exhausted=retries)
    group.fake.clock.advance(28 if discards else 0)
    now_ms = group.fake.clock.utc_ms()
    command = Command(str(uuid4()), "retry", GROUP, TOPIC, 0, 0, "ops@desk", now_ms)
    member.parts.commands.post(command)
    group.turn(2)
    first, *_ = member.parts.commands.answers()
    assert answer == first.answer


def test_what_is_returned_does_not_count_towards_the_limit() -> None:
    """A return to the source says nothing about the dependency: it took the room of the letters
    that may leave in a row."""
    retries = RetryTopics(PREFIX, strategy=["5s"], limit=None, back_to_source=True)
    lines = TwoLines(retries=retries, transactional=True, partitions=1)
    lines.retry.dead_letters = DeadLetters(LETTERS, limit=3, transactional=True)
    lines.live.produce(0, 5)
    lines.dependency.down = True
    lines.start()
    lines.run(8)
    assert 5 == len(emitted(lines.reader, events.ReturnedToSource))
    lines.put(retries.topics[0])  # no retry: a letter
    lines.run(10)
    assert [] == emitted(lines.reader, events.LimitReached)
    assert 1 == len(emitted(lines.reader, events.DeadLettered))


def test_few_at_a_time() -> None:
    """With thousands due at once and the dependency down, all of their headers were read again
    after each failure: the retry line sent ten a second on."""
    lines = TwoLines(["5s"], partitions=1)
    lines.live.produce(0, 100)
    lines.dependency.down = True
    lines.start()
    lines.run(3)
    lines.dependency.down = False
    lines.clock.advance(10)
    before = len(lines.dependency.handled)
    lines.retry.turn()
    assert 0 < len(lines.dependency.handled) - before <= 32
    lines.run(10)
    assert 100 == len(lines.dependency.handled)
    assert [] == lines.violations()


def test_other_groups_on_the_source(caplog: pytest.LogCaptureFixture) -> None:
    """They get what comes back once more: named, as far as they have committed there. Neither the
    group itself nor its retry line, and not at every start for nothing."""
    retries = RetryTopics(PREFIX, strategy=["5s"], back_to_source=True)
    lines = TwoLines(retries=retries, transactional=True)
    lines.fake.group(GROUP)[TOPIC, 0] = 7
    lines.fake.group(f"{GROUP}.retry")[TOPIC, 1] = 7
    lines.fake.group("elsewhere")["shipping", 0] = 7
    lines.live.join()
    assert [] == [each for each in caplog.messages if "retries come back" in each]
    lines.fake.group("audit")[TOPIC, 1] = 7
    lines.live.join()
    (said,) = [each for each in caplog.messages if "retries come back" in each]
    assert f"come back to {TOPIC}, which other groups read too (audit): " in said


def test_not_back_to_a_compacted_source(caplog: pytest.LogCaptureFixture) -> None:
    """A message that comes back would replace a newer one. Where the user may not read the
    settings, that was checked by nobody, and nobody was told."""
    retries = RetryTopics(PREFIX, strategy=["5s"], back_to_source=True)
    lines = TwoLines(retries=retries, transactional=True)
    lines.fake.topics[TOPIC].cleanup_policy = "compact"
    with pytest.raises(ConfigurationError, match="orders is compacted"):
        lines.live.join()
    assert [] == [each for each in caplog.messages if "not checked" in each]
    lines.fake.topics[TOPIC].cleanup_policy = ""
    lines.live.join()
    (said,) = [each for each in caplog.messages if "not checked" in each]
    assert said.startswith("orders: this user may not read its settings")
