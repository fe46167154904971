"""Fuzzes the reading of strategies."""

import json
import math
import random
import time
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # it ships no types

from linear_retry.errors import StrategyError
from linear_retry.files import MAX_BYTES
from linear_retry.strategy.delays import MAX_DELAY_S, MAX_DELAYS
from linear_retry.strategy.file import parse, schema
from linear_retry.strategy.strategy import Strategy
from tests.torture.fuzz.mutations import mutated
from tests.torture.fuzz.noting import noting
from tests.torture.layer import Counts

CORPUS = Path(__file__).parent / "corpus" / "strategies"
READY = Path(__file__).parents[3] / "strategies"

_WHERE = "x.json"
# Of this thread's own time, so a busy machine does not count: a refusal of 64 KiB takes 0.1 s.
_SLOW_S = 2.0
_LONGEST_PROBLEM = 400
# The schema's validator takes seconds for a thousand elements.
_VALIDATED_BYTES = 2000
_BEYOND_SCHEMA = ("is longer than 7 days", "delays after expansion are more than 1000")


@cache
def corpus() -> dict[str, bytes]:
    """By name: `legal/...`, `refused/...`, and the ready strategies."""
    found = {str(path.relative_to(CORPUS)): path for path in CORPUS.glob("*/*")}
    ready = {f"legal/{path.name}": path for path in READY.glob("*.json")}
    return {name: path.read_bytes() for name, path in sorted((found | ready).items())}


def play_mutated(rng: random.Random) -> Counts:
    """One of the corpus, changed a little; at times as text with half characters in it."""
    legal, texts = _texts()
    content = mutated(rng.choice(texts if rng.random() < 0.2 else legal), texts, rng)
    if rng.random() < 0.8:
        return check(content)
    return check(content.decode("utf-8", rng.choice(("surrogateescape", "replace"))))


def check(text: bytes | str) -> Counts:
    """Every law, for one text. Raises `AssertionError`."""
    with noting(text):
        return _check(text)


def _check(text: bytes | str) -> Counts:
    began_s = time.thread_time()
    verdict = judged(text)
    took_s = time.thread_time() - began_s
    assert took_s < _SLOW_S, f"{took_s:.1f} s for {text[:200]!r}"
    if isinstance(verdict, Strategy):
        _is_sound(verdict)
    else:
        _is_readable(verdict, text)
    if isinstance(text, bytes):
        _is_the_same_as_text(text, verdict)
    _agrees_with_schema(text, verdict)
    return Counter({"strategies" if isinstance(verdict, Strategy) else "refusals": 1})


def judged(text: bytes | str) -> Strategy | tuple[str, ...]:
    """The strategy, or what is wrong. Nothing else is ever raised."""
    try:
        return Strategy(**parse(text, _WHERE))
    except StrategyError as error:
        return error.problems
    except Exception as error:
        raise AssertionError(f"{error!r} for {text[:2000]!r}") from error


@cache
def _texts() -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
    """Those that are sound and not huge, and all."""
    found = corpus()
    small = {name: text for name, text in found.items() if len(text) < _VALIDATED_BYTES}
    sound = tuple(text for name, text in small.items() if name.startswith("legal/"))
    return sound, tuple(found.values())


def _is_sound(strategy: Strategy) -> None:
    waits_s = list(strategy)
    assert len(waits_s) <= MAX_DELAYS
    assert all(0 <= wait_s <= MAX_DELAY_S for wait_s in waits_s), waits_s
    assert 0 <= strategy.jitter <= 1
    assert math.copysign(1, strategy.jitter) == 1
    assert strategy.max_elapsed_s is None or 0 < strategy.max_elapsed_s <= MAX_DELAY_S
    assert strategy.description == strategy.description.encode().decode()
    document = {
        "delays": waits_s,
        "jitter": strategy.jitter,
        "max_elapsed": strategy.max_elapsed_s,
        "description": strategy.description,
    }
    assert strategy == Strategy(**parse(json.dumps(document), _WHERE)), (
        "it does not come back from its file"
    )


def _is_readable(problems: tuple[str, ...], text: bytes | str) -> None:
    assert problems, f"refused without a reason: {text[:200]!r}"
    for problem in problems:
        assert problem.startswith(_WHERE), problem
        assert len(problem) <= _LONGEST_PROBLEM, problem
        assert "; " in problem, problem
        assert problem.isprintable(), problem
        assert problem.encode(), problem


def _is_the_same_as_text(content: bytes, verdict: Strategy | tuple[str, ...]) -> None:
    try:
        text = content.decode()
    except UnicodeDecodeError:
        assert not isinstance(verdict, Strategy), content[:200]
        return
    assert verdict == judged(text), content[:200]


class _NotJson(Exception):  # noqa: N818  (never leaves this room)
    pass


def _agrees_with_schema(text: bytes | str, verdict: Strategy | tuple[str, ...]) -> None:
    """The schema, after a strict reader of JSON: they accept what the parser accepts.

    Beyond that only what the schema's `$comment` names.
    """
    if len(text) > _VALIDATED_BYTES:
        content = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
        assert len(content) <= MAX_BYTES or not isinstance(verdict, Strategy)
        return
    try:
        document = _strictly_read(text)
    except (_NotJson, ValueError, RecursionError):
        assert not isinstance(verdict, Strategy), f"accepted, and it is not JSON: {text!r}"
        return
    beyond = not isinstance(verdict, Strategy) and all(
        any(rule in problem for rule in _BEYOND_SCHEMA) for problem in verdict
    )
    accepted = isinstance(verdict, Strategy) or beyond
    assert accepted == _schema().is_valid(document), f"schema and parser differ: {text!r}"
    if isinstance(document, list) and not isinstance(verdict, Strategy):
        _is_all_at_once(document, verdict)


def _is_all_at_once(delays: list[Any], problems: tuple[str, ...]) -> None:
    """What is wrong with each element alone is what is wrong with all, each at its place."""
    alone = [
        problem.replace(f"{_WHERE} [0]", f"{_WHERE} [{index}]", 1)
        for index, element in enumerate(delays)
        for problem in _problems([element])
    ]
    together = [problem for problem in problems if _BEYOND_SCHEMA[1] not in problem]
    assert sorted(alone) == sorted(together), delays


def _problems(delays: list[Any]) -> tuple[str, ...]:
    # As it was read: what was too long for an integer is infinite now, and was refused as that.
    verdict = judged(json.dumps(delays))
    return () if isinstance(verdict, Strategy) else verdict


@cache
def _schema() -> Any:
    return Draft202012Validator(schema())


def _strictly_read(text: bytes | str) -> Any:
    """As the standard says: no NaN, no key twice, no half character on the wire."""

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        if len({key for key, _ in items}) < len(items):
            raise _NotJson
        return dict(items)

    def constant(_: str) -> Any:
        raise _NotJson

    def integer(digits: str) -> int | float:
        return int(digits) if len(digits) < 4000 else float(digits)

    decoded = text.decode() if isinstance(text, bytes) else text
    return json.loads(decoded, object_pairs_hook=pairs, parse_constant=constant, parse_int=integer)
