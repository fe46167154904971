"""What people are shown of a letter, beside its content."""

from linear_retry.dlq.letters.letter import Letter
from linear_retry.records.printable import moment
from linear_retry.scope import Place


def facts_of(letter: Letter, state: str | None = None) -> dict[str, str]:
    """Returns what is known of the letter, by name, in the order in which it is read."""
    origin = letter.origin
    facts = {
        "id": letter.id,
        "generation": str(letter.generation),
        "state": state,
        "written": moment(letter.timestamp_ms),
        "stored at": str(Place(letter.topic, letter.partition, letter.offset)),
        "written by": "unknown: not a dead letter" if letter.format == "none" else letter.format,
        "problem": letter.problem,
        "origin": origin and f"{origin} of {moment(origin.timestamp_ms)}",
        "group": letter.group_id,
        "reason": letter.reason,
        "failures": None if letter.failures is None else str(letter.failures),
        "retry step": None if letter.step is None else str(letter.step),
        "retry at": None if letter.retry_at_ms is None else moment(letter.retry_at_ms),
        "exception": letter.exception_type,
        "message": letter.exception_message,
    }
    return {name: text for name, text in facts.items() if text is not None}
