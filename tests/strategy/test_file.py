"""Strategy files are read as they were meant, refused with every reason at once, and written."""

import json
import re
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # it ships no types

from linear_retry.errors import StrategyError
from linear_retry.files import MAX_BYTES
from linear_retry.strategy.delays import MAX_DELAY_S, MAX_DELAYS
from linear_retry.strategy.file import format_file, parse, parse_rules, schema
from linear_retry.strategy.strategy import Strategy
from tests.strategy.strategy_documents import arrays, documents, texts

READY = Path(__file__).parents[2] / "strategies"
SCHEMA = Draft202012Validator(schema())


def strategy_of(text: bytes | str, where: str) -> Strategy:
    return Strategy(**parse(text, where))


def problems_of(text: bytes | str, where: str = "x.json") -> tuple[str, ...]:
    try:
        parse(text, where)
    except StrategyError as error:
        return error.problems
    return ()


def problems_of_rules(document: Any) -> tuple[str, ...]:
    try:
        parse_rules(json.dumps(document), "x.json")
    except StrategyError as error:
        return error.problems
    return ()


@given(documents)
@example([{"every": 1, "times": 1000}, 1])
@example(["200h"])
@example([1.0, {"every": "5m", "times": 2.0}])
@example({"delays": [], "jitter": True})
def test_schema_and_parser_agree(document: Any) -> None:
    """The schema accepts what the parser accepts; beyond that only two rules it cannot express."""
    text = json.dumps(document)
    problems = problems_of(text)
    beyond_schema = ("is longer than 7 days", "delays after expansion are more than 1000")
    expected = all(any(rule in problem for rule in beyond_schema) for problem in problems)

    assert expected == SCHEMA.is_valid(json.loads(text))


def growing(**changes: object) -> list[Any]:
    exponential = {"initial": 1, "factor": 2, "max": 5, "times": 3, **changes}
    return [{"exponential": {key: value for key, value in exponential.items() if value != "gone"}}]


def filling(**changes: object) -> list[Any]:
    exponential = {"initial": 1, "within": "1h", "times": 3, **changes}
    return [{"exponential": {key: value for key, value in exponential.items() if value != "gone"}}]


@pytest.mark.parametrize(
    ("document", "is_legal"),
    [
        ([], True),
        ([0] * 1000, True),
        ([0] * 1001, False),
        ([604_800, 0, -0.0], True),
        ([604_800.001], False),
        ([-0.001], False),
        ([[1]], False),
        ([{"every": 1, "times": 1}], True),
        ([{"every": 1, "times": 1000.0}], True),
        ([{"every": 1, "times": 0}], False),
        ([{"every": 1, "times": 1.5}], False),
        ([{"every": 1, "times": 1001}], False),
        ([{"every": 1, "times": "1"}], False),
        ([{"every": 1, "times": 1, "max": 1}], False),
        (growing(), True),
        (growing(factor=1), True),
        (growing(factor=0.999), False),
        (growing(factor=1e999), False),
        (growing(factor="2"), False),
        (growing(initial="gone"), False),
        (growing(factor="gone"), False),
        (growing(max="gone"), False),
        (growing(times="gone"), False),
        (growing(every=1), False),
        (filling(), True),
        (filling(initial=5e-324, within=604_800), True),
        (filling(within=0), True),
        (filling(initial=0), False),
        (filling(initial="0s"), False),
        (filling(initial=None), False),
        (filling(factor=2), False),
        (filling(within="8h", times=0), False),
        (filling(initial="gone"), False),
        (filling(times="gone"), False),
        ([{**growing()[0], "times": 1}], False),
        ([{**growing()[0], "every": 1, "times": 1}], False),
        ({"delays": [], "jitter": 1, "description": "é ☃"}, True),
        ({"delays": [], "jitter": 1.001}, False),
        ({"delays": [], "jitter": -0.001}, False),
        ({"delays": [], "jitter": None}, False),
        ({"delays": [], "max_elapsed": None}, True),
        ({"delays": [], "max_elapsed": "0.000000001ms"}, True),
        ({"delays": [], "max_elapsed": 604_800}, True),
        ({"delays": [], "max_elapsed": 604_800.001}, False),
        ({"delays": [], "max_elapsed": 0}, False),
        ({"delays": [], "max_elapsed": -0.0}, False),
        ({"delays": [], "max_elapsed": "0h0.000s"}, False),
        ({"delays": [], "max_elapsed": "5"}, False),
        ({"delays": [], "max_elapsed": True}, False),
        ({"delays": [], "max_elapsed": [5]}, False),
        ({"delays": [], "description": 5}, False),
        ({"delays": [], "description": "a\n"}, False),
        ({"delays": [], "description": "\udfff"}, False),
        ({"jitter": 0}, False),
        ({"delays": {}}, False),
        ({"$schema": "strategy.schema.json", "delays": [1]}, True),
        ({"$schema": 1, "delays": [1]}, False),
        ({"$schema": "strategy.schema.json"}, False),
        ("5s", False),
    ],
    ids=lambda value: str(value)[:60].encode("ascii", "backslashreplace").decode(),
)
def test_schema_and_parser_agree_at_the_edge_of_each_rule(document: Any, is_legal: bool) -> None:
    """The last legal value and the first illegal one are the same for schema and parser."""
    text = json.dumps(document)
    assert (is_legal, is_legal) == (problems_of(text) == (), SCHEMA.is_valid(json.loads(text)))


@given(documents, st.sampled_from(["errors", "topics"]), documents | st.lists(texts, max_size=2))
@example({"delays": [1]}, "errors", ["OSError"])
def test_schema_and_parser_agree_on_rules(document: Any, key: str, value: Any) -> None:
    """A rule is a strategy in its long form, and has arrays of texts beside it."""
    rule = {**document, key: value} if isinstance(document, dict) else document
    rules: dict[str, Any] = {"rules": [{"delays": []}, rule]}
    problems = problems_of_rules(rules)
    beyond_schema = ("is longer than 7 days", "delays after expansion are more than 1000")
    expected = all(any(limit in problem for limit in beyond_schema) for problem in problems)
    assert expected == SCHEMA.is_valid(json.loads(json.dumps(rules)))


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ({"rules": []}, 'x.json: the key "rules" must be an array of rules; write'),
        ({"rules": {}}, 'x.json: the key "rules" must be an array of rules; write'),
        ({"rules": [[1]]}, "x.json rules[0]: an array: must be an object; write"),
        ({"rules": [{}]}, 'x.json rules[0]: the key "delays" is missing; write'),
        ({"rules": [{"delays": [-1]}]}, "x.json rules[0] delays[0]: -1 "),
        ({"rules": [{"delays": [], "errors": []}]}, "x.json rules[0].errors: an array: must be an"),
        ({"rules": [{"delays": [], "topics": "a"}]}, 'x.json rules[0].topics: "a": must be an arr'),
        (
            {"rules": [{"delays": [], "topic": ["a"]}]},
            'x.json rules[0]: the key "topic" is unknown',
        ),
        ({"rules": [{"delays": []}], "delays": []}, 'x.json: the key "delays" is unknown; remove'),
        ({"rules": [{"delays": []}], "$schema": 1}, 'x.json: the key "$schema" must be a text'),
        ({"rules": [{"delays": []}], "description": "a\n"}, "x.json description: "),
    ],
    ids=str,
)
def test_what_is_wrong_with_rules(document: Any, problem: str) -> None:
    """By the rule's place, and with what to write; the schema refuses it, too."""
    (found,) = problems_of_rules(document)
    assert found.startswith(problem)
    assert not SCHEMA.is_valid(document)


def test_a_strategy_is_no_file_of_rules_and_the_other_way_round() -> None:
    """Each says what the other is read by."""
    assert ('x.json: the key "rules" must be an array of rules',) == tuple(
        each.partition(";")[0] for each in problems_of_rules([1])
    )
    (found,) = problems_of('{"rules": [{"delays": []}]}')
    assert found.endswith("strategy=Rule.load(path)")


def test_the_schema_is_a_schema() -> None:
    """What ships as JSON Schema is valid draft 2020-12."""
    Draft202012Validator.check_schema(schema())


@given(st.binary(max_size=200) | st.text(st.characters(exclude_categories=())), texts)
@example(b"\xff\xfe[\x001\x00]\x00", "x.json")
@example("[1] [2]", "")
@example('["\ud800"]', "\ud800")
@example('[{"a":1,"a":2}]', "\x00")
def test_whatever_the_text_only_a_strategy_error_is_raised(text: bytes | str, where: str) -> None:
    """Any bytes and any text are a strategy or a StrategyError that can be printed, no more."""
    for problem in problems_of(text, where):
        assert "\n" not in problem
        assert problem.encode("utf-8")


@given(
    waits_s=st.lists(st.integers(0, 604_800), max_size=10),
    jitter=st.floats(0, 1),
    limit_s=st.none() | st.integers(1, 604_800),
    description=st.text(st.characters(exclude_categories=("Cc", "Cs"))),
)
def test_a_strategy_comes_back_from_its_file(
    waits_s: list[int], jitter: float, limit_s: int | None, description: str
) -> None:
    """What the long form says is the strategy: waits, settings, description, the file's name."""
    settings: Any = {"jitter": jitter, "max_elapsed": limit_s, "description": description}
    document = {"delays": waits_s, **settings}
    expected = Strategy(waits_s, **settings, name="night")

    assert expected == strategy_of(json.dumps(document), "some/where/night.json")
    assert expected == strategy_of(json.dumps(document).encode(), "night.json")


@given(arrays)
def test_a_file_and_code_say_the_same(delays: list[Any]) -> None:
    """An array of delays is the same strategy, or has the same problems, in a file and in code."""
    delays = json.loads(json.dumps(delays))
    try:
        in_code: Any = Strategy(delays, name="x").delays_ms
    except StrategyError as error:
        in_code = [f"x.json {problem}" for problem in error.problems]
    long_form = json.dumps({"delays": delays})
    # What is too long for an integer is a float in a file.
    in_file: Any = list(problems_of(long_form)) or strategy_of(long_form, "x.json").delays_ms

    assert [str(part).partition(":")[0] for part in in_code] == [
        str(part).partition(":")[0] for part in in_file
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"", "x.json line 1, column 1: this is not JSON"),
        (b"[1,\n 2 3]", "x.json line 2, column 4: this is not JSON"),
        (b"[1] // one", "x.json line 1, column 5: this is not JSON"),
        (b"\xef\xbb\xbf[1]", "x.json: it begins with a byte order mark"),
        ("\ufeff[1]", "x.json: it begins with a byte order mark"),
        (b"[1, \xff]", "x.json: byte 4 is not UTF-8"),
        (b"[" * 60_000, "x.json: nested too deeply"),
        (b"[1" + b", 1" * MAX_BYTES + b"]", "x.json: it is larger than 65536 bytes"),
        (b"5", "x.json: 5 is not an array"),
        (b"null", "x.json: null is not an array"),
        (b"{}", 'x.json: the key "delays" is missing'),
        (b'{"delays": 5}', "x.json delays: 5 is not an array"),
        (b'{"delays": [], "retries": 5}', 'x.json: the key "retries" is unknown'),
        (b'{"delays": [], "name": "a"}', 'x.json: the key "name" is unknown'),
        (b'{"delays": [1], "delays": [2]}', 'x.json: the key "delays" appears more than once'),
        (b'[{"every": 1, "times": 2, "times": 2}]', 'x.json [0]: the key "times" appears more'),
        (
            b'{"delays": [{"exponential": '
            b'{"initial": 1, "initial": 2, "factor": 2, "max": 5, "times": 2}}]}',
            'x.json delays[0].exponential: the key "initial" appears more than once',
        ),
        (b"[NaN]", "x.json [0]: NaN is not a delay"),
        (b"[-Infinity]", "x.json [0]: -Infinity is not a delay"),
        (b"[1e999]", "x.json [0]: Infinity is not a delay"),
        (b"[" + b"9" * 5000 + b"]", "x.json [0]: Infinity is not a delay"),
        (b"[-" + b"9" * 5000 + b"]", "x.json [0]: -Infinity is not a delay"),
        (b"[9999999999999999999]", "x.json [0]: 1e+19 is not a delay"),
        (b"[true]", "x.json [0]: true is not a delay"),
        (b'[1, "5 m"]', 'x.json [1]: "5 m" is not a duration'),
        (b'["169h"]', 'x.json [0]: "169h" is longer than 7 days'),
        (b'[1, 2, 3, {"every": "x", "times": 1}]', 'x.json [3].every: "x" is not a duration'),
        (
            b'[{"exponential": {"initial": "0s", "within": 5, "times": 1}}]',
            'x.json [0].exponential.initial: "0s" is not above 0',
        ),
        (
            b'[{"exponential": {"initial": 1, "within": 5, "factor": 2, "times": 1}}]',
            'x.json [0].exponential: the key "factor" is unknown',
        ),
        (b'[{"every": 1, "times": 1e9}]', "x.json [0].times: 1000000000.0 is not a count"),
        (b"[" + b"0," * 1000 + b"0]", "x.json: 1001 delays after expansion"),
        (b'{"delays": [1], "jitter": 2}', "x.json jitter: 2 is not a share"),
        (b'{"delays": [1], "max_elapsed": "1x"}', 'x.json max_elapsed: "1x" is not a duration'),
        (b'{"delays": [1], "max_elapsed": 0}', "x.json max_elapsed: 0 is not above 0"),
        (b'{"delays": [1], "description": "\\ud800"}', 'x.json description: "\\ud800" in it'),
    ],
)
def test_an_error_says_where_what_and_how_to_fix_it(text: bytes | str, problem: str) -> None:
    """A problem is one sentence: file, path inside it, value, rule; a semicolon; the remedy."""
    (found,) = problems_of(text)

    assert problem == found[: len(problem)]
    assert re.fullmatch(r"[^;]+; .+", found)


def test_a_long_value_is_cut() -> None:
    """An error shows the start of a long value, not a screenful of it."""
    (problem,) = problems_of(json.dumps(["x" * 5000]))
    assert f'x.json [0]: "{"x" * 40}"... is not a duration' in problem


def test_a_long_key_costs_no_more_than_a_short_one() -> None:
    """Bug: below a key of 32 KB each of 10,000 values had its own copy of it: 320 MB, 0.4 s."""
    text = b'{"%b": [%b]}' % (b"k" * 32_000, b'{"a":1,"a":1},' * 2000 + b"0")
    tracemalloc.start()
    try:
        problems = problems_of(text)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert 2002 == len(problems)
    assert max(map(len, problems)) < 300
    assert peak_bytes < 10_000_000


def test_the_path_to_what_is_nested_deeply_is_cut() -> None:
    """Of a long path its start and its end are shown: where to look, and for what."""
    problem, _ = problems_of(b'{"delays":' * 40 + b'{"a":1,"a":1}' + b"}" * 40)

    assert problem.startswith("x.json delays.delays.")
    assert '.delays: the key "a" appears more than once' in problem
    assert len(problem) < 300


@pytest.mark.parametrize("depth", [51, 200, 800, 900, 950, 1000, 1100])
@pytest.mark.parametrize("opening", [b"[", b'{"delays":['])
def test_what_is_too_deep_is_so_wherever_it_is_read(opening: bytes, depth: int) -> None:
    """The JSON parser's own bound depends on how deep its caller is, so that one text was refused
    with two sentences."""
    closing = opening.translate(bytes.maketrans(b"{[", b"}]"), delete=b'"delays:')[::-1]
    text = opening * depth + closing * depth

    assert [*problems_of(text)] == [*problems_of(text.decode())]
    assert ["x.json: nested too deeply"] == [one.partition(";")[0] for one in problems_of(text)]


def test_a_file_without_a_stem_is_called_inline() -> None:
    """A strategy always has a name."""
    assert "inline" == strategy_of("[1]", "").name


def test_every_problem_is_reported_at_once() -> None:
    """Problems of keys, of elements, of settings: none hides another."""
    text = b"""{
      "delays": [-1, {"every": "1x", "times": 0, "times": 0}, true, 7, [], "8d"],
      "jitter": -1, "description": 5, "retries": 5
    }"""

    assert [
        "x.json delays[1]",
        "x.json",
        "x.json delays[0]",
        "x.json delays[1].every",
        "x.json delays[1].times",
        "x.json delays[2]",
        "x.json delays[4]",
        "x.json delays[5]",
        "x.json jitter",
        "x.json description",
    ] == [problem.partition(":")[0] for problem in problems_of(text)]


def test_a_file_at_the_limit_is_read() -> None:
    """64 KiB are allowed, one byte more is not."""
    text = b"[1]".ljust(MAX_BYTES)
    assert Strategy([1], name="x") == strategy_of(text, "x.json")
    assert problems_of(text + b" ")


def test_a_file_is_loaded_by_its_path(tmp_path: Path) -> None:
    """Strategy.load takes a path in either form and names the strategy after the file."""
    path = tmp_path / "my.night.json"
    path.write_text("[1, 5]")

    expected = Strategy([1, 5], name="my.night")
    assert (expected, expected) == (Strategy.load(path), Strategy.load(str(path)))


def test_what_cannot_be_read_is_a_strategy_error(tmp_path: Path) -> None:
    """A missing file, a directory, a name that cannot be one: a sentence with the path."""
    for path in (tmp_path / "none.json", tmp_path, tmp_path / "a\0b", tmp_path / ("a" * 5000)):
        with pytest.raises(StrategyError, match="cannot be read") as caught:
            Strategy.load(path)
        (problem,) = caught.value.problems
        assert problem.startswith(f"{tmp_path}")
        assert "\0" not in problem


def test_a_file_name_that_is_not_text_becomes_one(tmp_path: Path) -> None:
    """A name that cannot be sent as a header is made one that can."""
    path = tmp_path / "n\udcffight\x1b.json"
    path.write_text("[1]")
    assert "n\ufffdight\ufffd" == Strategy.load(path).name


def test_no_more_of_a_huge_file_is_read_than_the_limit() -> None:
    """An endless file is refused, not read."""
    with pytest.raises(StrategyError, match="larger than 65536 bytes"):
        Strategy.load("/dev/zero")


def test_the_ready_strategies_are_as_their_table_says() -> None:
    """Each ready file is described, and its row in the README has its waits and its total."""
    rows = re.findall(
        r"^\| `([a-z-]+\.json)` \| ([0-9]+) \| ([0-9a-z]+) \|",
        (READY / "README.md").read_text("utf-8"),
        re.MULTILINE,
    )
    ready = {path.name: Strategy.load(path) for path in READY.glob("*.json")}

    assert {name: (len(strategy), strategy.total_s) for name, strategy in ready.items()} == {
        name: (int(waits), Strategy([total]).total_s) for name, waits, total in rows
    }
    assert 8 == len(ready)
    assert all(strategy.description for strategy in ready.values())


def test_the_json_in_the_readme_is_legal() -> None:
    """Every JSON example of the strategies' README is a strategy, and the last has rules."""
    readme = (READY / "README.md").read_text("utf-8")
    blocks = re.findall(r"```json\n(.*?)```", readme, re.DOTALL)
    cells = re.findall(r"^\| `(\{.*?\})` \|", readme, re.MULTILINE)

    assert (3, 3) == (len(blocks), len(cells))
    assert 3 == len(parse_rules(blocks.pop(), "pay.json"))
    assert [()] * 5 == [problems_of(text) for text in (*blocks, *(f"[{cell}]" for cell in cells))]


def test_the_fingerprint_in_the_readme_is_the_real_one() -> None:
    """The label that the README shows is that of the file it names."""
    label = Strategy.load(READY / "short-outage.json").label
    assert f"`{label}`" in (READY / "README.md").read_text("utf-8")


_DELAYS_MS = st.integers(0, MAX_DELAY_S * 1000)
_RUNS = st.lists(st.tuples(_DELAYS_MS, st.integers(1, 20)), max_size=50)


@given(_RUNS, st.text(st.characters()))
def test_a_strategy_is_read_back(found: list[tuple[int, int]], description: str) -> None:
    """The same waits, with any words beside them: half a character of a pair too."""
    expected = tuple(delay_ms for delay_ms, times in found for _ in range(times))
    strategy = strategy_of(format_file(expected, description), "proposed.json")
    assert expected == strategy.delays_ms
    assert description.isprintable() <= (description == strategy.description)


def test_the_longest_strategy_is_no_larger_than_a_file_may_be() -> None:
    """A thousand waits of which no two are equal, and as many words as anybody may write."""
    expected = tuple(MAX_DELAY_S * 1000 - 1 - each for each in range(MAX_DELAYS))
    longest = format_file(expected, "\U0001f4a5" * 10_000)
    assert expected == strategy_of(longest, "proposed.json").delays_ms
