"""Parses arrays of delays and their settings, from files and from code alike."""

import json
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import expm1, log1p
from typing import Any, TypeAlias, TypeGuard

from linear_retry.files import NOT_TEXT
from linear_retry.records.durations import DURATION_REMEDY, duration_ms

MAX_DELAYS = 1000
MAX_DELAY_S = 7 * 24 * 3600

Element: TypeAlias = float | str | Mapping[str, Any]
"""Seconds, a duration, `{"every": ..., "times": ...}` or `{"exponential": {...}}`."""

_DELAY_REMEDY = "write 0 to 604800 seconds (7 days) as a number, or a duration up to 7d"


@dataclass(frozen=True, slots=True)
class _Run:
    """`times` waits: `first_ms`, then each `factor` times the one before, never over `max_ms`."""

    first_ms: float
    times: int = 1
    factor: float = 1.0
    max_ms: float = MAX_DELAY_S * 1000.0

    def waits_ms(self) -> Iterator[int]:
        wait_ms = min(self.first_ms, self.max_ms)
        for _ in range(self.times):
            yield round(wait_ms)
            # Step by step, capped each time: factor ** 999 would raise OverflowError.
            wait_ms = min(wait_ms * self.factor, self.max_ms)


@dataclass(frozen=True, slots=True)
class _Filling:
    """`times` waits that grow by one factor from `initial_ms`, and add up to `within_ms`."""

    initial_ms: float
    within_ms: float
    times: int

    def waits_ms(self) -> Iterator[int]:
        rate = log1p(self.within_ms / self.initial_ms) / self.times
        # The moments are rounded, not the waits, which would not add up to `within_ms` otherwise.
        moments_ms = (round(self.initial_ms * expm1(rate * n)) for n in range(self.times + 1))
        return (later_ms - earlier_ms for earlier_ms, later_ms in pairwise(moments_ms))


def expand(delays: object, problems: list[str]) -> tuple[int, ...]:
    """Expands `delays` to every wait, in order, in whole milliseconds.

    Each is rounded to the nearest millisecond (a tie to the even one) only here, so the same
    number is shown, hashed and waited. Adds a sentence to `problems` for each error, starting with
    the path inside (`delays[3].every`); the result is then empty.
    """
    if not isinstance(delays, Sequence) or isinstance(delays, str | bytes | bytearray):
        problems.append(f"delays: {shown(delays)} is not an array; write one such as [1, 5]")
        return ()
    found: list[str] = []
    runs = [_run(element, f"delays[{index}]", found) for index, element in enumerate(delays)]
    count = sum(run.times for run in runs)
    if count > MAX_DELAYS:
        found.append(
            f"delays: {count} delays after expansion are more than {MAX_DELAYS}; "
            'lengthen the waits, or let on_exhausted="repeat" repeat the last one'
        )
    problems += found
    # Before the expansion: a thousand elements with a thousand waits each would be a million.
    return () if found else tuple(wait_ms for run in runs for wait_ms in run.waits_ms())


def check_settings(jitter: object, name: object, description: object) -> Iterator[str]:
    """Returns the problems of a strategy's settings, one sentence each."""
    if not is_number(jitter, 0, 1):
        yield f"jitter: {shown(jitter)} is not a share; write a number from 0 to 1, such as 0.1"
    for key, value in (("description", description), ("name", name)):
        if not isinstance(value, str):
            yield f'{key}: {shown(value)} is not a text; write one such as "for short outages"'
        # Neither is safe: a lone surrogate in a header crashes librdkafka's binding, and a control
        # character in a description could manipulate the operator's terminal.
        elif bad := NOT_TEXT.search(value):
            yield (
                f"{key}: {shown(bad.group())} in it is a control character or half a character; "
                "write one line of plain text"
            )
    if name == "":
        yield 'name: "" is empty; leave it out, or name the strategy'


def read_max_elapsed_ms(value: object, problems: list[str]) -> int | None:
    """Reads `max_elapsed` in milliseconds, at least 1; adds any error to `problems`."""
    if value is None:
        return None
    # 0 may be meant as no limit, but would exhaust every message at once.
    return round(_positive_ms(value, "max_elapsed", problems))


def read_delay_s(value: object, path: str, problems: list[str]) -> float:
    """Reads one wait in seconds, a number or a duration; adds any error to `problems`."""
    return round(_delay_ms(value, path, problems)) / 1000


def shown(value: object) -> str:
    """Formats `value` for an error message: as JSON, short, in one line of ASCII."""
    if isinstance(value, str):
        return json.dumps(value) if len(value) <= 40 else f"{json.dumps(value[:40])}..."
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, Sequence):
        return "an array"
    # Python refuses to format integers with more than 4300 digits.
    if isinstance(value, int) and value.bit_length() > 64:
        return "a number of more than 64 bits"
    if value is None or isinstance(value, int | float):
        return json.dumps(value)
    return f"a value of type {type(value).__name__}"


def is_number(value: object, low: float, high: float) -> TypeGuard[float]:
    """Whether `value` is a number from `low` to `high`, and not a boolean."""
    # This form also refuses NaN, and is safe for an int too large for a float.
    return isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high


def _run(element: object, path: str, problems: list[str]) -> _Run | _Filling:
    if not isinstance(element, Mapping):
        return _Run(_delay_ms(element, path, problems))
    if "exponential" in element:
        problems += _key_problems(["exponential"], element, path)
        return _exponential(element["exponential"], f"{path}.exponential", problems)
    if "every" not in element:
        problems.append(
            f'{path}: an object with neither "every" nor "exponential" is not a delay; '
            f'write {_form(_EVERY)} or {{"exponential": {_form(_EXPONENTIAL)}}}'
        )
        return _Run(0.0, 0)
    values = _values(_EVERY, element, path, problems)
    return _Run(values["every"], int(values["times"]))


def _exponential(value: object, path: str, problems: list[str]) -> _Run | _Filling:
    if not isinstance(value, Mapping):
        problems.append(f"{path}: {shown(value)} is not an object; write {_form(_EXPONENTIAL)}")
        return _Run(0.0, 0)
    if "within" in value:
        values = _values(_WITHIN, value, path, problems)
        return _Filling(values["initial"], values["within"], int(values["times"]))
    values = _values(_EXPONENTIAL, value, path, problems)
    return _Run(values["initial"], int(values["times"]), values["factor"], values["max"])


_Check: TypeAlias = Callable[[object, str, list[str]], float]


def _values(
    checks: Mapping[str, _Check], given: Mapping[str, object], path: str, problems: list[str]
) -> dict[str, float]:
    """Returns the checked value of each key in `checks`; 0 if it is missing or refused."""
    problems += _key_problems(checks, given, path)
    values = dict.fromkeys(checks, 0.0)
    for key in [key for key in checks if key in given]:
        values[key] = checks[key](given[key], f"{path}.{key}", problems)
    return values


def _key_problems(keys: Collection[str], given: Mapping[str, object], path: str) -> list[str]:
    remedy = f"write {_form(keys)} and no more"
    return [
        f"{path}: the key {shown(key)} is unknown; {remedy}" for key in given if key not in keys
    ] + [f"{path}: the key {shown(key)} is missing; {remedy}" for key in keys if key not in given]


def _form(keys: Collection[str]) -> str:
    return "{" + ", ".join(f'"{key}": ...' for key in keys) + "}"


def _delay_ms(value: object, path: str, problems: list[str]) -> float:
    if isinstance(value, str):
        return _duration_ms(value, path, problems)
    if is_number(value, 0, MAX_DELAY_S):
        return float(value) * 1000
    problems.append(f"{path}: {shown(value)} is not a delay; {_DELAY_REMEDY}")
    return 0.0


def _positive_ms(value: object, path: str, problems: list[str]) -> float:
    """Reads a wait of at least 1 ms, as 0 would have no meaning."""
    found: list[str] = []
    wait_ms = _delay_ms(value, path, found)
    if wait_ms == 0 and not found:
        found.append(f'{path}: {shown(value)} is not above 0; write a duration such as "5m"')
    problems += found
    return max(wait_ms, 1.0)


def _duration_ms(text: str, path: str, problems: list[str]) -> float:
    found_ms = duration_ms(text)
    if found_ms is None:
        problems.append(f"{path}: {shown(text)} is not a duration; {DURATION_REMEDY}")
        return 0.0
    if found_ms > MAX_DELAY_S * 1000:
        problems.append(f"{path}: {shown(text)} is longer than 7 days; {_DELAY_REMEDY}")
        return 0.0
    return found_ms


def _times(value: object, path: str, problems: list[str]) -> float:
    # 2.0 is an integer too: JSON has only one kind of number, as in the schema.
    if is_number(value, 1, MAX_DELAYS) and value == int(value):
        return value
    problems.append(
        f"{path}: {shown(value)} is not a count; write a whole number from 1 to {MAX_DELAYS}"
    )
    return 0.0


def _factor(value: object, path: str, problems: list[str]) -> float:
    if is_number(value, 1, sys.float_info.max):
        return float(value)
    problems.append(
        f"{path}: {shown(value)} is not a factor; write a finite number from 1 up, such as 2"
    )
    return 0.0


_EVERY: Mapping[str, _Check] = {"every": _delay_ms, "times": _times}
_WITHIN: Mapping[str, _Check] = {"initial": _positive_ms, "within": _delay_ms, "times": _times}
_EXPONENTIAL: Mapping[str, _Check] = {
    "initial": _delay_ms,
    "factor": _factor,
    "max": _delay_ms,
    "times": _times,
}
