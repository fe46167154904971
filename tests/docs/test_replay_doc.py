"""docs/dead-letters/replay.md is true."""

import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from linear_retry.cli import app
from linear_retry.dlq.letters.letter import read_letter
from linear_retry.dlq.replay.outgoing import outgoing
from linear_retry.dlq.replay.recording import transactional_id
from linear_retry.dlq.replay.replaying import LARGEST_BATCH
from linear_retry.kafka.producers.batch_transactions import TRANSACTION_TIMEOUT_MS
from linear_retry.records.dead_letter import FailureInfo, to_dead_letter
from linear_retry.records.record import Record
from linear_retry.records.text import ErrorText
from tests.dlq.scene import Scene
from tests.docs.markdown import blocks, code, page, table
from tests.real_kafka import RealKafka
from tests.torture.replays.layer import REPLAY_KILLS
from tests.torture.replays.points import POINTS

_PAGE = page("docs/dead-letters/replay.md")
_FAILURE = FailureInfo(
    "billing", "permanent", 1, 1, 2, "s@1", ErrorText("TimeoutError", "late", "stack")
)


def _letters(count: int) -> list[tuple[int, bytes, bytes, list[tuple[str, bytes | None]]]]:
    made = []
    for offset in range(count):
        record = Record("orders", 0, offset, 1_795_253_536_810, b"ann", b"book")
        made.append((0, b"ann", b"book", to_dead_letter(record, _FAILURE).headers()))
    return made


@pytest.fixture(scope="module")
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealKafka]:
    """The page's topics have the names of other pages' topics."""
    with RealKafka(tmp_path_factory.mktemp("replay-doc") / "kafka") as kafka:
        for name in ("orders", "orders.retry", "orders.dlq"):
            kafka.create_topic(name)
        stamped = {"message.timestamp.type": "LogAppendTime", "retention.ms": "1209600000"}
        kafka.create_topic("orders.billing.retry.5m", 1, stamped)
        Scene(kafka, "orders", "orders.dlq").commits("billing")
        Scene(kafka, "orders.billing.retry.5m", "orders.dlq").commits("billing.retry")
        yield kafka


def _commands() -> list[str]:
    lines = [line for block in blocks(_PAGE, "sh") for line in block.splitlines()]
    return [line for line in lines if line.startswith("linear-retry ")]


@pytest.mark.broker
def test_the_commands_work(
    own_broker: RealKafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One after another, each with a new letter to find: all end with 0 and do what they say."""
    output: list[str] = []
    monkeypatch.chdir(tmp_path)
    Path("billing.py").write_text(blocks(_PAGE, "python")[0])
    *_, purge_all = (line for line in _commands() if " --all " in line)
    for line in (*_commands(), purge_all):
        (new,) = _letters(len(output) + 1)[-1:]
        if " rehearse " in line:
            new = (*new[:2], b"12,50", new[3])
        own_broker.produce("orders.dlq", [new])
        Path("ids.txt").write_bytes(dict(new[3])["retry-id"] or b"")
        _, *arguments = shlex.split(line.replace("localhost:9092", own_broker.bootstrap))
        result = CliRunner().invoke(app, arguments)
        assert 0 == result.exit_code, line
        is_absent = "has no members" in result.stderr
        assert ("--for-group" in line) == is_absent, line  # nobody is in that one
        output.append(result.stdout.splitlines()[-1])
    assert [
        "1 letter would be sent; --yes does it",
        "2 letters sent",
        "1 letter sent",
        "1 letter sent",
        "1 letter would be sent; --yes does it",
        "2 letters would be sent; --yes does it",
        "1 letter sent",
        "3 letters resolved in orders.dlq",
        "3 letters reopened in orders.dlq",
        "--yes does it; this cannot be undone",
    ] == output[:10]
    rehearsed = "would succeed: {}, fails as before: 0, fails otherwise: 0"
    assert [rehearsed.format(1), rehearsed.format(0)] == output[11:13]
    assert [] == own_broker.read("orders.dlq")


@pytest.mark.broker
def test_the_code_works(own_broker: RealKafka, capsys: pytest.CaptureFixture[str]) -> None:
    """The page's Python sends what it chooses, resolves the rest, and deletes both."""
    calm = to_dead_letter(
        Record("orders", 0, 9, 1, b"ann", b"book"), FailureInfo("b", "x", 1, 1, 2, "s@1")
    )
    own_broker.produce("orders.dlq", [*_letters(3), (0, b"ann", b"book", calm.headers())])
    wrong = to_dead_letter(
        Record("orders", 0, 10, 1, b"ann", b'"12,50"'), FailureInfo("b", "x", 1, 1, 2, "s@1")
    )
    own_broker.produce("orders.dlq", [(0, b"ann", wrong.value, wrong.headers())])
    place = f"offset={own_broker.read('orders.dlq')[-1].offset()}"
    _, replayed, edited = blocks(_PAGE, "python")
    for block in (edited.replace("offset=4", place), replayed):
        here = block.replace("localhost:9092", own_broker.bootstrap)
        exec(compile(here, "replay.md", "exec"), {})
    assert b'"12.50"' in [message.value() for message in own_broker.read("orders")]
    expected = ["orders 0 3 0 2", "3 sent; 1 resolved", "5 deleted"]
    assert expected == capsys.readouterr().out.splitlines()


def test_the_headers_are_named() -> None:
    """Each that a replayed message has, and no other."""
    (_, key, value, headers), *_ = _letters(1)
    letter = read_letter(Record("orders.dlq", 0, 0, 1, key, value, tuple(headers)))
    sent = {name for name, _ in outgoing(letter, "id", lambda *_: None).headers}
    (line,) = (line for line in _PAGE.splitlines() if line.startswith("A replay sends the"))
    assert sent | {"retry-escaped-headers"} == set(code(line))


def test_the_numbers_are_right() -> None:
    """What stands in the page is what is in the code."""
    assert f"up to {LARGEST_BATCH:,} messages" in _PAGE
    assert f"for {TRANSACTION_TIMEOUT_MS // 1000} seconds" in _PAGE
    assert f"`{transactional_id('TOPIC')}`" in _PAGE
    assert f"at {len(POINTS)} numbered points" in _PAGE
    assert f"{REPLAY_KILLS.name}`: {REPLAY_KILLS.long} {REPLAY_KILLS.unit}" in _PAGE


def test_the_exit_codes_are_those_of_the_commands() -> None:
    """In the table; the help has those that mean something of its own."""
    expected = {code for row in table(_PAGE, "code") for code in row[0].split(", ")}
    assert {"0", "1", "2", "3", "4", "129", "130", "143"} == expected
    text = CliRunner().invoke(app, ["dlq", "replay", "--help"]).stdout
    listed = text.split("Exit codes:")[1].split("\n\n")[0].replace(",", " ").replace(".", " ")
    assert ["1", "4"] == [word for word in listed.split() if word in expected]
    assert Path("docs/dead-letters/replay.md").name in page("docs/dead-letters/format.md") + page(
        "README.md"
    )
