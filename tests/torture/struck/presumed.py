"""Which letters are there, though who sent them did not live, or was not awake, to say so?"""

from __future__ import annotations

from collections.abc import Iterable

from linear_retry.events import DataLost, DeadLettered
from linear_retry.records.dead_letter import DeadLetter
from linear_retry.testing import Ended, Entry, Place, Said


def presumed(
    letters: Iterable[DeadLetter], log: list[Entry], member: str, struck_s: float
) -> list[Said]:
    """As if `member`, struck at `struck_s`, had told of each right after its failure.

    Only of those of which no other member has told.
    """
    known = {
        event.retry_id
        for said, event in _tellings(log)
        if said.member != member or said.at_s <= struck_s
    }
    failed_s = {
        entry.place: entry.at_s
        for entry in log
        if isinstance(entry, Ended) and entry.member == member and entry.how == "failed"
    }
    untold = [letter for letter in letters if letter.retry_id not in known]
    events = [_telling(letter) for letter in untold]
    return [Said(failed_s[_place(event)], member, event) for event in events]


def with_presumed(log: list[Entry], better: list[Said]) -> list[Entry]:
    """`log` with what is known `better`, each letter told of once by its sender."""
    ids = {(said.member, event.retry_id) for said, event in _tellings(better)}
    late = {id(said) for said, event in _tellings(log) if (said.member, event.retry_id) in ids}
    return [*(entry for entry in log if id(entry) not in late), *better]


def losses(log: list[Entry]) -> list[Entry]:
    """What was said of messages that retention had removed."""
    return [one for one in log if isinstance(one, Said) and isinstance(one.event, DataLost)]


def _tellings(log: Iterable[Entry]) -> list[tuple[Said, DeadLettered]]:
    said = [entry for entry in log if isinstance(entry, Said)]
    return [(one, one.event) for one in said if isinstance(one.event, DeadLettered)]


def _telling(letter: DeadLetter) -> DeadLettered:
    return DeadLettered(
        letter.destination,
        letter.original_partition,
        letter.original_offset,
        dead_letter_topic="",
        retry_id=letter.retry_id,
        generation=1,
        reason=letter.reason,
        error="",
        failures=1,
        escaped_headers=(),
    )


def _place(event: DeadLettered) -> Place:
    return event.topic, event.partition, event.offset
