"""Reads and writes strategy files, and finds those included in the package.

They are JSON; one error reports all problems of a file.
"""

import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from importlib import resources
from importlib.resources.abc import Traversable
from itertools import groupby
from pathlib import Path, PurePath
from typing import Any, TypedDict

from linear_retry.errors import StrategyError
from linear_retry.files import MAX_BYTES, NOT_TEXT, decode_small, printable_path, read_small
from linear_retry.records.durations import duration_text
from linear_retry.strategy.delays import Element, check_settings, expand, read_max_elapsed_ms, shown

_SETTINGS = ("delays", "jitter", "max_elapsed", "description")
_CHOICE = ("errors", "topics")
_RULES = "rules"
_SCHEMA = "$schema"
"""The key by which editors find the schema of a file; nothing here depends on it."""
_PATH_START, _PATH_END = 120, 60
_MAX_DEPTH = 50  # a valid strategy has four
_FORMS = 'an array of delays such as [1, 5, "30s"], or {"delays": [...], "jitter": 0.1}'
_A_RULE = '{"rules": [{"errors": ["httpx.ReadTimeout"], "topics": ["orders.*"], "delays": [1, 5]}]}'


class Arguments(TypedDict):
    """The arguments of `Strategy`."""

    delays: Sequence[Element]
    jitter: float
    max_elapsed: float | str | None
    name: str
    description: str


class RuleArguments(TypedDict):
    """A rule of a file: its strategy, the names of errors or None for all, and globs of topics."""

    strategy: Arguments
    errors: Sequence[str] | None
    topics: Sequence[str]


def load(path: str | os.PathLike[str]) -> Arguments:
    """Reads the strategy at `path`. Raises `StrategyError`, also for an unreadable file."""
    return parse(content_of(path), printable_path(path))


def load_rules(path: str | os.PathLike[str]) -> list[RuleArguments]:
    """Reads the rules at `path`. Raises `StrategyError`, also for an unreadable file."""
    return parse_rules(content_of(path), printable_path(path))


def load_all(path: str | os.PathLike[str]) -> list[Arguments]:
    """Reads the strategy at `path`, or those of its rules. Raises as `load` does."""
    return [rule["strategy"] for rule in parse_all(content_of(path), printable_path(path))]


def content_of(path: str | os.PathLike[str]) -> bytes:
    """Returns what is in the file at `path`. Raises `StrategyError` if it cannot be read."""
    try:
        return read_small(path)
    except ValueError as error:
        raise StrategyError([f"{error}; give the path of a readable JSON file"]) from error


def parse(text: bytes | str, where: str) -> Arguments:
    """Parses the strategy in `text`; its name is the stem of `where`, the path of the file.

    Raises `StrategyError` with all problems, and no other error, whatever `text` contains. Each
    problem is one sentence: file, path inside it, value, rule, remedy.
    """
    where = printable_path(where)
    document, problems = _document(text, where)
    if _has_rules(document):
        raise StrategyError(
            [
                f"{where}: it has rules, and one strategy is wanted here; only a consumer takes "
                "rules, strategy=Rule.load(path)"
            ]
        )
    arguments, found = _arguments(document, where, PurePath(where).stem or "inline")
    if problems := problems + found:
        raise StrategyError(problems)
    return arguments


def parse_rules(text: bytes | str, where: str) -> list[RuleArguments]:
    """Parses the rules in `text`. The strategy of the first in `pay.json` is named `pay.1`.

    Raises `StrategyError` as `parse` does.
    """
    where = printable_path(where)
    document, problems = _document(text, where)
    rules = document.get(_RULES) if isinstance(document, dict) else None
    if not isinstance(rules, list) or not rules:
        problems.append(f'{where}: the key "{_RULES}" must be an array of rules; write {_A_RULE}')
        raise StrategyError(problems)
    problems += _unknown_keys(document, (_RULES, "description", _SCHEMA), where)
    problems += [
        _located(problem, where, is_short=False)
        for problem in check_settings(0.0, "inline", document.get("description", ""))
    ]
    found: list[RuleArguments] = []
    for index, rule in enumerate(rules):
        place = f"{where} {_RULES}[{index}]"
        if not isinstance(rule, dict):
            problems.append(f"{place}: {shown(rule)}: must be an object; write {_A_RULE}")
            continue
        name = f"{PurePath(where).stem or 'inline'}.{index + 1}"
        arguments, more = _arguments(rule, place, name, (*_CHOICE, *_SETTINGS))
        problems += more
        for key in _CHOICE:
            if key in rule and not _are_texts(rule[key]):
                problems.append(
                    f"{place}.{key}: {shown(rule[key])}: must be an array of one text or more; "
                    f"write {_A_RULE}"
                )
        found.append(
            RuleArguments(
                strategy=arguments, errors=rule.get("errors"), topics=rule.get("topics", ["*"])
            )
        )
    if problems:
        raise StrategyError(problems)
    return found


def parse_all(text: bytes | str, where: str) -> list[RuleArguments]:
    """Parses the rules in `text`; a single strategy is one rule, of all errors and topics.

    Raises `StrategyError` as `parse` does.
    """
    document, _ = _document(text, where)
    if _has_rules(document):
        return parse_rules(text, where)
    return [RuleArguments(strategy=parse(text, where), errors=None, topics=["*"])]


def _has_rules(document: Any) -> bool:
    return isinstance(document, dict) and _RULES in document


def _are_texts(value: object) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(one, str) and one for one in value)
    )


def _arguments(
    document: Any, where: str, name: str, keys: Sequence[str] = (*_SETTINGS, _SCHEMA)
) -> tuple[Arguments, list[str]]:
    """Returns the arguments that one strategy's JSON has, and all problems with it.

    `keys` are those that its long form may have.
    """
    is_short = not isinstance(document, dict)
    written = {"delays": document} if is_short else document
    found: list[str] = []
    arguments = Arguments(
        # A missing "delays" is already among the problems of the structure; check the rest anyway.
        delays=written.get("delays", []),
        jitter=written.get("jitter", 0.0),
        max_elapsed=written.get("max_elapsed"),
        name=name,
        description=written.get("description", ""),
    )
    expand(arguments["delays"], found)
    read_max_elapsed_ms(arguments["max_elapsed"], found)
    found += check_settings(arguments["jitter"], arguments["name"], arguments["description"])
    problems = _structure_problems(document, where, keys)
    return arguments, problems + [_located(problem, where, is_short=is_short) for problem in found]


def format_file(delays_ms: Sequence[int], description: str) -> str:
    """Returns JSON that `load` reads back as these delays, one element on each line.

    In the description, invalid characters are replaced, and a long one is truncated.
    """
    lines = ",\n    ".join(json.dumps(element) for element in elements(delays_ms))
    cleaned = json.dumps(NOT_TEXT.sub("\ufffd", description)[: MAX_BYTES // 64])
    return f'{{\n  "description": {cleaned},\n  "delays": [\n    {lines}\n  ]\n}}\n'


def elements(delays_ms: Sequence[int]) -> list[str | dict[str, Any]]:
    """Returns these delays as a file has them: `["1s", {"every": "5s", "times": 3}]`."""
    counted = ((duration_text(ms), sum(1 for _ in same)) for ms, same in groupby(delays_ms))
    return [wait if times == 1 else {"every": wait, "times": times} for wait, times in counted]


def schema() -> dict[str, Any]:
    """Returns the JSON Schema (draft 2020-12) of strategy files, for editors and pipelines.

    Rules that a schema cannot express are in its `$comment`: duplicate keys, a duration of more
    than 7 days, more than 1000 delays after expansion, a file of more than 64 KiB.
    """
    text = (
        resources.files("linear_retry.strategy").joinpath("strategy.schema.json").read_text("utf-8")
    )
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def ready_names() -> tuple[str, ...]:
    """Returns the names of the strategies included in the package, sorted."""
    folder = _ready()
    files = [PurePath(file.name) for file in folder.iterdir()] if folder.is_dir() else []
    return tuple(sorted(file.stem for file in files if file.suffix == ".json"))


def load_ready(name: str) -> Arguments:
    """Reads the ready-made strategy of this name. Raises `StrategyError`."""
    if name not in (known := ready_names()):
        raise StrategyError(
            [
                f"no ready-made strategy {shown(name)}; there are {', '.join(known)}, and "
                "Strategy.load reads your own file"
            ]
        )
    return parse((_ready() / f"{name}.json").read_bytes(), name)


def _ready() -> Traversable:
    """Returns their folder: in the package in a wheel, else beside it, in the checkout."""
    package = resources.files("linear_retry")
    inside = package / "strategies"
    return inside if inside.is_dir() else Path(str(package)).parent / "strategies"


class _Object(dict[str, Any]):
    """A JSON object that remembers its duplicate keys."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        counts = Counter(key for key, _ in pairs)
        self.repeated = [key for key, count in counts.items() if count > 1]


def _document(text: bytes | str, where: str) -> tuple[Any, list[str]]:
    """Returns the parsed JSON, and the problems with duplicate keys."""
    errors = "surrogatepass" if isinstance(text, str) else "strict"
    content = text.encode(errors=errors) if isinstance(text, str) else text
    try:
        decoded = decode_small(content, errors)
        document = json.loads(decoded, object_pairs_hook=_Object, parse_int=_integer)
        return document, list(_repeated_keys(document, where))
    except json.JSONDecodeError as error:
        problem = (
            f"line {error.lineno}, column {error.colno}: this is not JSON ({error.msg}); "
            "correct it; note that JSON has no comments and no trailing commas"
        )
        raise StrategyError([f"{where} {problem}"]) from error
    except RecursionError:
        # Not `from error`, whose traceback is as long as the file is deep.
        raise StrategyError([f"{where}: nested too deeply; write {_FORMS}"]) from None
    except ValueError as error:
        raise StrategyError([f"{where}: {error}; write {_FORMS}"]) from error


def _integer(digits: str) -> int | float:
    # int() raises for more than 4300 digits, and is slow long before; a float becomes inf at worst,
    # and is then refused like any other number that is too large.
    return int(digits) if len(digits) <= 18 else float(digits)


def _structure_problems(document: Any, where: str, keys: Sequence[str]) -> list[str]:
    problems: list[str] = []
    if isinstance(document, dict):
        problems += _unknown_keys(document, keys, where)
        if "delays" not in document:
            problems.append(f'{where}: the key "delays" is missing; write {_FORMS}')
    return problems


def _unknown_keys(document: dict[str, Any], keys: Sequence[str], where: str) -> list[str]:
    *others, last = (f'"{key}"' for key in keys if key != _SCHEMA)
    known = f"{', '.join(others)} and {last}"
    problems = [
        f"{where}: the key {shown(key)} is unknown; remove it, known are {known}"
        for key in document
        if key not in keys
    ]
    if _SCHEMA in keys and not isinstance(document.get(_SCHEMA, ""), str):
        problems.append(f'{where}: the key "{_SCHEMA}" must be a text: the address of a schema')
    return problems


def _repeated_keys(value: Any, where: str, path: str = "", depth: int = 0) -> Iterator[str]:
    # Our own limit: the JSON parser's depends on the caller's stack depth.
    if depth == _MAX_DEPTH:
        raise RecursionError
    if isinstance(value, _Object):
        place = f"{where} {_cut(path)}" if path else where
        for key in value.repeated:
            yield f"{place}: the key {shown(key)} appears more than once; keep one of them"
        for key, child in value.items():
            yield from _repeated_keys(child, where, _inside(path, key), depth + 1)
    elif isinstance(value, list):
        for index, child in enumerate(value):
            yield from _repeated_keys(child, where, f"{path}[{index}]", depth + 1)


def _inside(path: str, key: str) -> str:
    if not key.isidentifier() or len(key) > _PATH_END:
        return f"{path}[{shown(key)}]"
    return f"{path}.{key}" if path else key


def _cut(path: str) -> str:
    if len(path) <= _PATH_START + _PATH_END:
        return path
    return f"{path[: _PATH_START - 3]}...{path[-_PATH_END:]}"


def _located(problem: str, where: str, *, is_short: bool) -> str:
    # The short form has no "delays": the constructor's delays[3] is [3] here.
    inside = problem.removeprefix("delays") if is_short else problem
    return f"{where}{inside}" if inside.startswith(":") else f"{where} {inside}"
