"""docs/dead-letters/reading.md is true."""

import shlex
from dataclasses import fields
from pathlib import Path

import pytest
from typer.testing import CliRunner

from linear_retry.cli import app
from linear_retry.cli.dlq.options import Selection
from linear_retry.cli.options.connection import read
from linear_retry.dlq.letters.foreign import FOREIGN
from linear_retry.dlq.stats import FIELDS
from linear_retry.kafka.topics.standalone_consumer import ANSWER_TIMEOUT_S
from linear_retry.records.dead_letter import FailureInfo, to_dead_letter
from linear_retry.records.record import Record
from linear_retry.records.text import ErrorText
from tests.docs.markdown import blocks, code, page, table
from tests.real_kafka import RealKafka

_PAGE = page("docs/dead-letters/reading.md")
_LOOKING = ("list", "show", "stats", "export")
_ID = "billing/orders/3/1042/498921439726"


@pytest.fixture(scope="module")
def letters(kafka: RealKafka) -> str:
    """The page's topic, with the letter that it shows."""
    kafka.create_topic("orders.dlq", 4)
    failure = FailureInfo(
        "billing", "exhausted", 3, 1, 2, "s@1", ErrorText("TimeoutError", "late", None)
    )
    letter = to_dead_letter(Record("orders", 3, 1042, 1795253536810, b"ann", b"book"), failure)
    kafka.produce("orders.dlq", [(3, letter.key, letter.value, letter.headers())])
    return kafka.bootstrap


def _commands() -> list[str]:
    lines = [line for block in blocks(_PAGE, "sh") for line in block.splitlines()]
    return [
        line
        for line in lines
        if line.startswith(tuple(f"linear-retry dlq {name} " for name in _LOOKING))
    ]


@pytest.mark.broker
@pytest.mark.parametrize("line", _commands())
def test_the_commands_work(
    letters: str, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each command of the page finds the letter, and ends with 0."""
    monkeypatch.chdir(tmp_path)
    _, *arguments = shlex.split(line.replace("localhost:9092", letters))
    result = CliRunner().invoke(app, arguments)
    assert (0, "") == (result.exit_code, result.stderr)
    assert any(word in result.stdout for word in (_ID, "TimeoutError", "1 letter"))


@pytest.mark.broker
def test_the_code_works(
    letters: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The page's Python prints the letter, from the topic and from an export."""
    monkeypatch.chdir(tmp_path)
    export = next(line for line in _commands() if " export " in line)
    _, *arguments = shlex.split(export.replace("localhost:9092", letters))
    assert 0 == CliRunner().invoke(app, arguments).exit_code
    for block in blocks(_PAGE, "python")[:2]:
        exec(compile(block.replace("localhost:9092", letters), "dlq.md", "exec"), {})
    exported, listed, shown, stats = capsys.readouterr().out.splitlines()
    assert f"open {_ID} b'book'" == exported
    assert f"{_ID} 1 orders[3]@1042 TimeoutError" == listed
    assert shown.startswith("open None (('retry-version', b'1'),")
    assert "1 1 (('TimeoutError', 1),)" == stats


def test_the_table_has_every_option() -> None:
    """The page names each option that chooses letters."""
    reported = {name.split()[0] for row in table(_PAGE, "option") for name in code(row[0])}
    names = {"letter_id": "id"}
    options = {names.get(each.name, each.name) for each in fields(Selection)}
    assert {f"--{name.replace('_', '-')}" for name in options} == reported


def test_the_page_has_every_trait_and_every_system() -> None:
    """What `--group-by` takes, and whose letters are read."""
    (line,) = [line for line in _PAGE.splitlines() if line.startswith("- `list --group-by")]
    assert set(FIELDS) == set(code(line)[1:])
    for form in FOREIGN:
        assert f"`{form.name}`" in _PAGE
        assert f"`{form.topic}`" in _PAGE


def test_the_file_is_one(tmp_path: Path) -> None:
    """The page's configuration is read, and the wait for brokers is as documented."""
    (block,) = blocks(_PAGE, "properties")
    file = tmp_path / "client.properties"
    file.write_text(block)
    assert "SCRAM-SHA-512" == read(file)["sasl.mechanism"]
    assert f"within {ANSWER_TIMEOUT_S:g} s" in page("docs/reference/cli.md")
