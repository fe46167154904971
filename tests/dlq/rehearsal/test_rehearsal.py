"""A rehearsal goes through the letters as a replay would, and says which of them may be sent."""

from collections import Counter
from collections.abc import Iterable

from linear_retry.dlq.letters.letter import Letter, read_letter
from linear_retry.dlq.rehearsal.handling import Attempted
from linear_retry.dlq.rehearsal.rehearsal import Rehearsed, rehearse
from linear_retry.dlq.replay.plan import Plan, Planner
from linear_retry.records.dead_letter import FailureInfo, to_dead_letter
from linear_retry.records.record import Record
from linear_retry.records.text import ErrorText


class _Handler:
    """Fails at the value `fails`."""

    group_id = "billing"

    def attempt(self, record: Record) -> Attempted:
        fails = record.value == b"fails"
        return Attempted(ErrorText("builtins.ValueError", "no", None) if fails else None)


def _letter(
    partition: int, offset: int, value: bytes | None, key: bytes | None, group: str = "billing"
) -> Letter:
    record = Record("orders", partition, offset, 1, key, value)
    letter = to_dead_letter(record, FailureInfo(group, "exhausted", 1, 1, 2, "s@1"))
    own = letter.key, letter.value, tuple(letter.headers())
    return read_letter(Record("orders.dlq", partition, offset, 2, *own))


def _rehearsed(letters: Iterable[Letter]) -> tuple[list[Rehearsed], Counter[str]]:
    left_out: Counter[str] = Counter()
    with Plan("orders.dlq") as plan:
        Planner(plan, lambda *_: None).take(letters)
        return [*rehearse(plan, _Handler(), {}, left_out)], left_out


def test_what_would_overtake_a_failing_one_of_its_key_is_not_replayed() -> None:
    """Neither of another partition, nor without a key: those have no order with it."""
    letters = [
        _letter(0, 4, b"1", b"a"),
        _letter(0, 1, b"1", b"a"),
        _letter(0, 2, b"fails", b"a"),
        _letter(0, 3, b"1", b"b"),
        _letter(1, 9, b"1", b"a"),
        _letter(1, 3, b"fails", None),
        _letter(1, 5, b"1", None),
    ]
    found, _ = _rehearsed(letters)
    places = {(each.partition, each.offset): each.may_be_replayed for each in found}
    assert {(0, 2), (0, 4), (1, 3)} == {place for place, may_be in places.items() if not may_be}
    assert [1, 2, 3, 4] == [each.offset for each in found if each.partition == 0]


def test_letters_of_other_groups_are_counted() -> None:
    """The handler is not called with them."""
    letters = [_letter(0, 1, b"fails", b"a", "shipping"), _letter(0, 2, b"1", b"a")]
    (found,), left_out = _rehearsed(letters)
    assert (2, True, {"shipping": 1}) == (found.offset, found.may_be_replayed, left_out)
