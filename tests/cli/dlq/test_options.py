"""The options of `linear-retry dlq` are read as they are meant, and refused with a remedy."""

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryDirectory

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from linear_retry.cli import app
from linear_retry.cli.dlq.options import Connection, Selection
from linear_retry.cli.options.connection import read, with_option_groups
from linear_retry.cli.options.values import past_ms
from linear_retry.dlq import Filter, State

runner = CliRunner()

_NOW_MS = 1_795_253_536_810


def _emitted(*arguments: str) -> tuple[int, str]:
    """Exit code and what was written, in one line however it was drawn."""
    result = runner.invoke(app, ["dlq", *arguments])
    return result.exit_code, " ".join(re.sub(r"[│╭╮╰╯─]", " ", result.output).split())


@pytest.mark.parametrize("command", ["list", "stats", "export"])
def test_filters_are_the_same_everywhere(command: str) -> None:
    """What one command takes to choose letters, every one does."""
    _, text = _emitted(command, "--help")
    for option in (
        *("--reason", "--exception", "--origin", "--key", "--since", "--until"),
        *("--id", "--header", "--state", "--limit", "--not-exception", "--not-topic"),
        *("--key-hex", "--no-key"),
    ):
        assert f" {option} " in text


def _selected(*arguments: str) -> Filter:
    """What the options of a command select."""
    command, found = typer.Typer(), list[Filter]()

    @command.command()
    @with_option_groups
    def select(selection: Selection) -> None:
        found.append(selection.filter())

    assert 0 == runner.invoke(command, arguments).exit_code
    return found[0]


def test_a_selection_becomes_a_filter() -> None:
    """Each option is one criterion, and each repetition one of its values."""
    selected = _selected(
        *("--reason", "exhausted", "--reason", "permanent", "--exception", "Timeout"),
        *("--origin", "orders", "--origin", "pay.ments_1-x:3", "--key", "ann", "--key", "\udcff"),
        *("--key-hex", "00ff", "--key-hex", "0x0a", "--no-key", "--not-exception", "late"),
        *("--not-topic", "audit", "--not-topic", "orders:1", "--id", "a#2", "--limit", "3"),
        *("--since", "2026-11-21", "--until", "2026-11-21T12:00+02:00"),
        *("--header", "tenant=a=b", "--state", "open"),
    )
    assert selected == Filter(
        reasons=("exhausted", "permanent"),
        exceptions=("Timeout",),
        origins=(("orders", None), ("pay.ments_1-x", 3)),
        keys=(b"ann", b"\xff", b"\x00\xff", b"\n", None),
        not_exceptions=("late",),
        not_origins=(("audit", None), ("orders", 1)),
        since_ms=_ms(2026, 11, 21),
        until_ms=_ms(2026, 11, 21, 10),
        ids=("a#2",),
        headers=(("tenant", b"a=b"),),
        states=(State.OPEN,),
        limit=3,
    )


def _ms(year: int, month: int, day: int, hour: int = 0) -> int:
    return round(datetime(year, month, day, hour, tzinfo=UTC).timestamp() * 1000)


def test_nothing_chosen_is_everything() -> None:
    """Without an option every letter is meant."""
    assert Filter() == _selected()


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [
        ("2h", _NOW_MS - 7_200_000),
        ("1h30m", _NOW_MS - 5_400_000),
        ("7d", _NOW_MS - 7 * 86_400_000),
        ("2026-11-21 10:00", _ms(2026, 11, 21, 10)),
        ("2026-11-21T10:00:00.5Z", _ms(2026, 11, 21, 10) + 500),
    ],
)
def test_times(text: str, expected_ms: int) -> None:
    """A moment, in UTC unless it says otherwise, or how long ago."""
    assert expected_ms == past_ms(text, _NOW_MS)


@given(st.datetimes(timezones=st.timezones()))
def test_every_time_that_python_writes_is_read(moment: datetime) -> None:
    """With its offset, to the millisecond."""
    expected_ms = moment.timestamp() * 1000
    assert abs(expected_ms - past_ms(moment.isoformat(), _NOW_MS)) < 1


@given(st.text(max_size=12))
def test_any_text_is_a_time_or_refused(text: str) -> None:
    """Whatever is typed, the answer is a number or one sentence that says how to write it."""
    try:
        output: int | str = past_ms(text, _NOW_MS)
    except typer.BadParameter as error:
        output = error.message
    assert isinstance(output, int) or "is not a time; write 2026-11-21" in output


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--since", "yesterday"], '"yesterday" is not a time'),
        (["--until", ""], '"" is not a time'),
        (["--state", "closed"], "'closed' is not one of 'open',"),
        (["--origin", "orders:x"], '"orders:x" is not TOPIC or TOPIC:PARTITION'),
        (["--origin", "orders:"], "Invalid value for '--origin':"),
        (["--not-topic", "orders:x"], '"orders:x" is not TOPIC or TOPIC:PARTITION'),
        (["--key-hex", "0xf"], '"0xf" is not pairs of hexadecimal digits'),
        (["--newest", "5", "--limit", "3"], "--newest: it cannot be combined with --group-by"),
        (["--newest", "5", "--group-by", "reason"], "--group-by or --limit; leave these out"),
        (["--newest", "0"], "--newest"),
        (["--header", "tenant"], '"tenant" is not NAME=VALUE'),
        (["--limit", "-1"], "--limit"),
        (["--group-by", "exception,colour"], '--group-by: "colour" is not a field; write some of'),
        (["--group-by", ""], '--group-by: "" is not a field'),
        (["--config", "/nowhere/keys"], "--config: /nowhere/keys: cannot be read"),
    ],
)
def test_what_is_refused(arguments: list[str], problem: str) -> None:
    """Wrong usage ends with 2 and one sentence: option, value, rule; no broker is asked."""
    code, text = _emitted("list", "orders.dlq", "--bootstrap", "localhost:1", *arguments)
    assert 2 == code
    assert problem in text


_LINES = """\
# as for Kafka's own tools
! and this is a comment too
bootstrap.servers=kafka:9092

  security.protocol = SASL_SSL
sasl.password=a=b#c
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "keys"


def test_lines_of_key_and_value(file: Path) -> None:
    """The form of Kafka's tools; a value may have `=` and `#` in it."""
    file.write_text(_LINES)
    assert {
        "bootstrap.servers": "kafka:9092",
        "security.protocol": "SASL_SSL",
        "sasl.password": "a=b#c",
    } == read(file)


def test_an_object_of_json(file: Path) -> None:
    """The same keys, with numbers and truth values as such."""
    keys = {"bootstrap.servers": "kafka:9092", "socket.timeout.ms": 5000, "log.queue": False}
    file.write_text(json.dumps(keys))
    assert keys == read(file)


_keys = st.text(st.characters(categories=["Ll", "Nd"]) | st.just("."), min_size=1, max_size=9)


@given(st.dictionaries(_keys, st.text(st.characters(categories=["L", "N"]), max_size=9)))
def test_both_forms_say_the_same(keys: dict[str, str]) -> None:
    """Whatever the keys are, the lines and the object are read alike."""

    with TemporaryDirectory() as directory:
        lines, objects = Path(directory) / "lines", Path(directory) / "json"
        lines.write_text("".join(f"{key}={value}\n" for key, value in keys.items()), "utf-8")
        objects.write_text(json.dumps(keys))
        assert keys == read(lines) == read(objects)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"bootstrap.servers=a:1\nsecret words\n", r"keys:2: not key=value; write lines"),
        (b"=x", r"keys:1: not key=value"),
        (b"{", r"keys: not JSON \("),
        (b'{"a": [1]}', r"keys: the value of 'a' is list; write lines"),
        (b'{"a": null}', r"keys: the value of 'a' is NoneType"),
        (b"\xff", r"keys: byte 0 is not UTF-8"),
        (b"[" * 100_000, r"keys: it is larger than 65536 bytes"),
        (b'{"a":' * 9_000, r"keys: not JSON"),
    ],
)
def test_a_file_that_is_none(file: Path, content: bytes, problem: str) -> None:
    """One sentence with file and line; never the line itself, for a password may stand in it."""
    file.write_bytes(content)
    with pytest.raises(ValueError, match=problem) as caught:
        read(file)
    assert "secret" not in str(caught.value)


@given(st.binary(max_size=40))
def test_any_file_is_read_or_refused(content: bytes) -> None:
    """No file makes anything else than keys, or one sentence."""

    with NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        try:
            found: dict[str, object] | str = read(Path(file.name))
        except ValueError as error:
            found = str(error)
    if isinstance(found, str):
        assert found.startswith(file.name)
        assert "\n" not in found
    else:
        assert all(isinstance(key, str) for key in found)


def test_an_address_on_the_command_line_comes_first(file: Path) -> None:
    """`--bootstrap` replaces what the file says, under either of its names."""
    file.write_text("metadata.broker.list=old:1\nclient.id=me\n")
    keys = Connection(bootstrap="new:2", config=file).keys()
    assert {"bootstrap.servers": "new:2", "client.id": "me"} == keys
