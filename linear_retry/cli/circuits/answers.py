"""Says what an answer on the control topic means, and with which exit code."""

from linear_retry.cli.output.exit_codes import DONE, NEGATIVE, PENDING
from linear_retry.cli.output.printable import moment
from linear_retry.records.control import COMMAND_TTL_MS, Answer, AnswerName, Command

_YES: tuple[AnswerName, ...] = ("recovered", "no-message", "lifted", "none-open")
_NOT_YET: tuple[AnswerName, ...] = ("heard", "pending", "begun")


def code_of(command: Command, answer: Answer, *, waits: bool) -> int:
    """The exit code."""
    if answer.answer in _YES or (answer.answer == "begun" and not waits):
        return DONE
    if answer.answer == "dead-lettered" and command.command == "give-up":
        return DONE
    return PENDING if answer.answer in _NOT_YET else NEGATIVE


def sentence(command: Command, answer: Answer) -> str:
    """One line for a person."""
    where = answer.place or command.place
    subject = answer.member if where is None else f"{where}, {answer.member}"
    return f"{subject}: {_outcome(command, answer)}"


def nobody(command: Command, topic: str, timeout_s: int) -> str:
    """Why there may be no answer."""
    place, about = command.place, "no member of it follows"
    if place is not None:
        about = f"no member of it has {place.topic}[{place.partition}] now and follows"
    elif command.member is not None:
        about = f"it has no member {command.member!r} that follows"
    start = "" if place is None else f"{place}: "
    return (
        f"{start}nobody in group {command.group!r} has answered within {timeout_s} s: {about} this "
        f"topic (control={topic!r}), or it cannot reach it; one that is busy in its handler, or "
        f"starts, may still do it until {COMMAND_TTL_MS // 1000} s after the sending"
    )


def _outcome(command: Command, answer: Answer) -> str:
    texts: dict[AnswerName, str] = {
        "heard": "it has read the command, and has not carried it out yet; its handler is busy",
        "pending": "not done yet: its letter cannot be sent, or an attempt comes first; it is "
        "tried until it is done",
        "begun": "the attempt has begun",
        "recovered": "recovered",
        "failed": f"failed again{_again(answer)}",
        "held-back": f"failed again, and the limit of dead letters holds it{_again(answer)}",
        "not-sent": f"its dead letter cannot be sent{_again(answer)}",
        "dead-lettered": "failed again, and is in the dead letters"
        if command.command == "retry"
        else "it is in the dead letters",
        "skipped": 'failed again, and is skipped for good (on_permanent="skip")',
        "dropped": "its partition went to another member, or the consumer stopped, before the end",
        "no-message": "the wait is over; the first message to come is attempted",
        "last-attempt": "not attempted: one failure more would be its last; --yes attempts it",
        "lifted": _lifted(command),
        "not-held": "not held, or not any more; see `linear-retry circuits list`",
        "none-open": "no circuit is open",
        "no-dead-letters": "there is no dead-letter topic to give it up to",
        "no-limit": "there is no limit of dead letters to lift",
        "expired": f"read more than {COMMAND_TTL_MS // 1000} s after it was sent, and nothing was "
        "done; send it again, and where that does not help compare the clocks",
    }
    return texts[answer.answer]


def _again(answer: Answer) -> str:
    facts = []
    if answer.failures is not None:
        facts.append(f"; failures so far: {answer.failures}")
    if answer.retry_at_ms is not None:
        facts.append(f"; again at {moment(answer.retry_at_ms)}")
    if answer.error is not None:
        facts.append(f"; {answer.error}")
    return "".join(facts)


def _lifted(command: Command) -> str:
    many = "" if command.letters is None else f", or for {command.letters} dead letters"
    return f"the limit of dead letters is lifted until a success{many}"
