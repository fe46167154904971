"""A key's letter goes out with the offset and the note of its partition, others undone below it."""

import pytest
from confluent_kafka import KafkaError

from linear_retry import events
from linear_retry.consumer.partitions import commit_notes
from linear_retry.records.commit_note import read_note
from linear_retry.testing import AttemptStarted
from tests.consumer.group import GROUP, TOPIC, FakeGroup, Member
from tests.consumer.letters.test_transactions import FENCED, INVALID, TIMED_OUT, letter_offsets

_P0 = (TOPIC, 0)


class _ByKey(FakeGroup):
    """Key a is held at offset 0, and the message of key b at offset 1 can never be handled."""

    def __init__(self) -> None:
        super().__init__(
            partitions=1, scope="key", concurrency=4, transactional=True, strategy=[600.0] * 9
        )
        self.dependency.down_for_keys = {b"a"}
        self.dependency.refuses.add((0, 1))
        self.produce_keys(0, [b"a", b"b", b"c", b"b", b"a"])
        self.join()
        self.share([0])

    @property
    def letters(self) -> list[bytes | None]:
        """The offsets of the messages that a `read_committed` reader finds letters of."""
        return letter_offsets(self.fake)

    @property
    def only(self) -> Member:
        return self.members[0]

    def until_sent(self) -> None:
        while not any(isinstance(each, events.DeadLettered) for each in self.only.events):
            self.turn()

    def attempts(self, offset: int) -> int:
        entries = [each for each in self.witness.entries if isinstance(each, AttemptStarted)]
        return len([each for each in entries if each.place.offset == offset])

    def finish_well(self) -> None:
        self.dependency.down_for_keys = set()
        self.finish(within_s=1000)
        assert [] == self.violations()
        assert [b"1"] == self.letters


def test_the_offset_stays_and_the_note_says_what_is_done() -> None:
    """A kill right after the transaction: the next owner neither sends the letter again nor passes
    over what is not done."""
    group = _ByKey()
    group.until_sent()
    assert 0 == group.fake.group(GROUP)[_P0]
    note = read_note(group.fake.notes(GROUP)[_P0], GROUP, _P0)
    assert note is not None
    assert (0, True) == (note.base, note.frontier >= 2)
    assert 1 not in [one.offset for one in note.undone]
    group.crash(group.only)
    group.join()
    group.share([0])
    group.turn(30)
    assert 1 == group.attempts(1)
    group.finish_well()


@pytest.mark.parametrize("error", [INVALID, FENCED, TIMED_OUT], ids=lambda error: error.name())
@pytest.mark.parametrize("acts", [True, False], ids=["it-was", "it-never-was"])
def test_a_commit_whose_answer_is_lost(error: KafkaError, acts: bool) -> None:
    """The group is asked: the offset says nothing, as it stays, and the note beside it does."""
    group = _ByKey()
    group.fake.faults.fail_transaction("commit", error, acts=acts, takes_s=11.0)
    group.until_sent()
    assert 1 == group.attempts(1)
    assert (2 - acts) == len([call for _, _, call, _ in group.fake.log if call == "produce"])
    group.finish_well()


def test_a_note_without_room_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before and after the transaction the same is committed: the letter is sent again, as one that
    is there twice is better than none."""
    monkeypatch.setattr(commit_notes, "MOST_CHARACTERS", 0)
    group = _ByKey()
    while group.fake.group(GROUP).get(_P0) is None:
        group.turn()
    group.fake.faults.fail_transaction("commit", FENCED, acts=True)
    group.until_sent()
    assert [b"1", b"1"] == group.letters


def test_another_letter_waits_until_the_outcome_is_known() -> None:
    """The bug: the transaction of one letter was taken for that of another of its partition, which
    was never sent: its message was lost."""
    group = _ByKey()
    group.dependency.refuses.add((0, 2))
    group.fake.faults.fail_transaction("commit", TIMED_OUT, acts=True)
    group.fake.faults.fail_transaction("init", INVALID)
    group.until_sent()
    group.dependency.down_for_keys = set()
    group.finish(within_s=1000)
    assert [b"1", b"2"] == sorted(each for each in group.letters if each is not None)
    assert [] == group.violations()
