"""Letters whose sender did not live, or was not awake, to say so."""

from collections.abc import Iterable

from linear_retry.events import DataLost, DeadLettered, SentToRetry
from linear_retry.records.dead_letter import DeadLetter
from linear_retry.testing import AttemptFinished, Entry, EventEmitted, Place


def presumed(
    letters: Iterable[DeadLetter], log: list[Entry], member: str, struck_s: float
) -> list[EventEmitted]:
    """As if `member`, struck at `struck_s`, had reported each right after its failure.

    Only of those of which no other member has reported.
    """
    known = {
        event.retry_id
        for emitted, event in _tellings(log)
        if emitted.member != member or emitted.at_s <= struck_s
    }
    failed_s = {
        entry.place: entry.at_s
        for entry in log
        if isinstance(entry, AttemptFinished)
        and entry.member == member
        and entry.outcome == "failed"
    }
    unreported = [letter for letter in letters if letter.retry_id not in known]
    events = [_telling(letter) for letter in unreported]
    return [EventEmitted(failed_s[_place(event)], member, event) for event in events]


def with_presumed(log: list[Entry], better: list[EventEmitted]) -> list[Entry]:
    """`log` with what is known `better`, each letter reported once by its sender."""
    ids = {(emitted.member, event.retry_id) for emitted, event in _tellings(better)}
    late = {
        id(emitted) for emitted, event in _tellings(log) if (emitted.member, event.retry_id) in ids
    }
    return [*(entry for entry in log if id(entry) not in late), *better]


def losses(log: list[Entry]) -> list[Entry]:
    """What was said of messages that retention had removed."""
    return [one for one in log if isinstance(one, EventEmitted) and isinstance(one.event, DataLost)]


def _tellings(log: Iterable[Entry]) -> list[tuple[EventEmitted, DeadLettered | SentToRetry]]:
    emitted = [entry for entry in log if isinstance(entry, EventEmitted)]
    return [
        (one, one.event) for one in emitted if isinstance(one.event, DeadLettered | SentToRetry)
    ]


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
    return Place(event.topic, event.partition, event.offset)
