"""What does a usual dead letter of ours say, in a tenth of the time that `parse` takes?"""

from __future__ import annotations

import re
from collections.abc import Mapping
from operator import itemgetter

# Those that each letter of ours has, in the order of the pattern's groups.
USUAL = (
    "retry-version",
    "retry-id",
    "retry-generation",
    "retry-destination",
    "retry-original-partition",
    "retry-original-offset",
    "retry-original-timestamp-ms",
    "retry-group-id",
    "retry-send-to",
    "retry-reason",
    "retry-counter",
    "retry-first-failure-ms",
    "retry-last-failure-ms",
    "retry-strategy",
)
EXCEPTION = ("retry-exception-type", "retry-exception-message", "retry-exception-stack")
RARE = (
    "retry-at-ms",
    "retry-escaped-headers",
    "retry-oversized",
    "retry-replay-id",
    "retry-replay-count",
)

_TEXT = r"([^\0]+)"
_ANY_TEXT = r"[^\0]*"
# At most 18 digits: all of them are numbers of 64 bits. 9 for what has a limit of 32.
_NUMBER, _SMALL, _TIME = r"([0-9]{1,18})", r"([1-9][0-9]{0,8})", r"(-1|[0-9]{1,18})"
_UNREAD_TIME = r"(?:-1|[0-9]{1,18})"
_SHAPE = re.compile(
    "\0".join(
        (
            "1",
            *(_TEXT, _SMALL, _TEXT, _NUMBER, _NUMBER, _TIME),
            *(_TEXT, _ANY_TEXT, _TEXT, _NUMBER, _UNREAD_TIME, _UNREAD_TIME, _ANY_TEXT),
        )
    )
)
_usual_of = itemgetter(*USUAL)


def usual(contents: Mapping[str, bytes | None]) -> tuple[str, ...] | None:
    """Id, generation, destination, partition, offset, timestamp, group, reason, failures, as text.

    None where anything is unusual: then `parse` has to say what it is. `contents` are the headers
    by name, the last of those of one name.
    """
    for name in RARE:
        if name in contents:
            return None
    try:
        # No header of ours has a NUL: where one is in there, the pattern does not match.
        joined = b"\0".join(_usual_of(contents)).decode()
    except (KeyError, TypeError, UnicodeDecodeError):
        return None
    found = _SHAPE.fullmatch(joined)
    return None if found is None else found.groups()
