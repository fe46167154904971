"""Sets of retry headers, valid, missing and garbled, with what every parser must read in them."""

from dataclasses import dataclass, field
from typing import Any

from linear_retry.records.text import Header

_USUAL: dict[str, bytes | None] = {
    "retry-version": b"1",
    "retry-id": b"billing/orders/3/7/1795253536817",
    "retry-generation": b"2",
    "retry-destination": b"orders",
    "retry-original-partition": b"3",
    "retry-original-offset": b"7",
    "retry-original-timestamp-ms": b"1795253536817",
    "retry-group-id": b"billing",
    "retry-send-to": b"dead-letter",
    "retry-reason": b"exhausted",
    "retry-counter": b"4",
    "retry-first-failure-ms": b"1795253536900",
    "retry-last-failure-ms": b"1795253537900",
    "retry-strategy": b"short-outage@0123456789ab",
    "retry-exception-type": b"requests.exceptions.Timeout",
    "retry-exception-message": b"no answer",
    "retry-exception-stack": b"Traceback ...",
}


@dataclass(frozen=True, slots=True)
class HeaderSet:
    """Headers, and either fields of `RetryHeaders` that they give, or the header that is wrong."""

    headers: tuple[Header, ...]
    fields: dict[str, Any] = field(default_factory=dict)
    wrong: str | None = None


def _with(**changed: bytes | None) -> tuple[Header, ...]:
    """The usual headers, these ones changed in their place or added."""
    names = {name.replace("_", "-"): content for name, content in changed.items()}
    return tuple((_USUAL | {f"retry-{name}": content for name, content in names.items()}).items())


def _without(*names: str) -> tuple[Header, ...]:
    return tuple((name, content) for name, content in _USUAL.items() if name not in names)


CORPUS: dict[str, HeaderSet] = {
    "usual": HeaderSet(
        _with(),
        {
            "retry_id": "billing/orders/3/7/1795253536817",
            "generation": 2,
            "destination": "orders",
            "original_partition": 3,
            "original_offset": 7,
            "original_timestamp_ms": 1795253536817,
            "group_id": "billing",
            "send_to": "dead-letter",
            "reason": "exhausted",
            "failures": 4,
            "first_failure_ms": 1795253536900,
            "last_failure_ms": 1795253537900,
            "strategy": "short-outage@0123456789ab",
            "exception_type": "requests.exceptions.Timeout",
            "exception_message": "no answer",
            "exception_stack": "Traceback ...",
            "retry_at_ms": None,
            "replay_id": None,
        },
    ),
    "the user's own": HeaderSet((("trace", b"\xff"), *_with()), {"reason": "exhausted"}),
    "in another order": HeaderSet(tuple(reversed(_with())), {"reason": "exhausted"}),
    "without an exception": HeaderSet(
        _without("retry-exception-type", "retry-exception-message", "retry-exception-stack"),
        {"exception_type": None, "exception_message": None, "exception_stack": None},
    ),
    "for a retry topic": HeaderSet(
        _with(send_to=b"retry", at_ms=b"1795253600000"),
        {"send_to": "retry", "retry_at_ms": 1795253600000},
    ),
    "in its second step": HeaderSet(
        _with(send_to=b"retry", at_ms=b"1795253600000", step=b"2"), {"send_to": "retry", "step": 2}
    ),
    "dead after its sixth step": HeaderSet(_with(step=b"6"), {"send_to": "dead-letter", "step": 6}),
    "replayed": HeaderSet(
        _with(replay_id=b"r-1", replay_count=b"3"), {"replay_id": "r-1", "replay_count": 3}
    ),
    "escaped names": HeaderSet(
        _with(escaped_headers=b"a%FF,b"), {"escaped_headers": ("a%FF", "b")}
    ),
    "an envelope": HeaderSet(_with(oversized=b"reference"), {"oversized": "reference"}),
    "only what has no default": HeaderSet(
        _without(
            *("retry-generation", "retry-original-timestamp-ms", "retry-send-to", "retry-counter"),
            *("retry-first-failure-ms", "retry-last-failure-ms", "retry-strategy"),
        ),
        {
            "generation": 1,
            "original_timestamp_ms": -1,
            "send_to": "dead-letter",
            "failures": 0,
            "last_failure_ms": -1,
            "strategy": "",
        },
    ),
    "the last of two counts": HeaderSet(
        (*_with(), ("retry-reason", b"skipped")), {"reason": "skipped"}
    ),
    "empty where text may be": HeaderSet(
        _with(strategy=b"", send_to=b""), {"send_to": "dead-letter"}
    ),
    "not one ASCII letter": HeaderSet(_with(group_id="größe😀".encode()), {"group_id": "größe😀"}),
    "the largest number": HeaderSet(
        _with(original_offset=str(2**63 - 1).encode()), {"original_offset": 2**63 - 1}
    ),
    "no timestamp": HeaderSet(_with(original_timestamp_ms=b"-1"), {"original_timestamp_ms": -1}),
    "nothing": HeaderSet((), wrong="retry-id"),
    "no id": HeaderSet(_without("retry-id"), wrong="retry-id"),
    "a null": HeaderSet(_with(destination=None), wrong="retry-destination"),
    "an empty reason": HeaderSet(_with(reason=b""), wrong="retry-reason"),
    "not UTF-8": HeaderSet(_with(group_id=b"\xff"), wrong="retry-group-id"),
    "a surrogate": HeaderSet(_with(strategy=b"\xed\xa0\x80"), wrong="retry-strategy"),
    "a stack that is not UTF-8": HeaderSet(
        _with(exception_stack=b"\xc0\x80"), wrong="retry-exception-stack"
    ),
    "a later version": HeaderSet(_with(version=b"2"), wrong="retry-version"),
    "no version": HeaderSet(_without("retry-version"), wrong="retry-version"),
    "a generation of 0": HeaderSet(_with(generation=b"0"), wrong="retry-generation"),
    "too large a generation": HeaderSet(_with(generation=b"2147483648"), wrong="retry-generation"),
    "a negative offset": HeaderSet(_with(original_offset=b"-1"), wrong="retry-original-offset"),
    "a number beyond 64 bits": HeaderSet(
        _with(original_offset=str(2**63).encode()), wrong="retry-original-offset"
    ),
    "a number with a blank": HeaderSet(_with(counter=b" 4"), wrong="retry-counter"),
    "a number with a plus": HeaderSet(_with(counter=b"+4"), wrong="retry-counter"),
    "another script's digits": HeaderSet(
        _with(original_partition="٣".encode()), wrong="retry-original-partition"
    ),
    "a step of 0": HeaderSet(_with(send_to=b"retry", step=b"0"), wrong="retry-step"),
    "a rare one garbled": HeaderSet(_with(at_ms=b"soon"), wrong="retry-at-ms"),
}
