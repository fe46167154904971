"""docs/guides/outbox.md is true."""

import re
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, text
from typer.testing import CliRunner

from linear_retry.cli import app
from linear_retry.outbox import Outbox
from tests.docs.markdown import blocks, page
from tests.kafka_operations import wait_until
from tests.real_kafka import RealKafka

pytestmark = pytest.mark.broker
_PAGE = page("docs/guides/outbox.md")
_PLAIN, _TRANSACTION, _ASYNC = blocks(_PAGE, "python")


def _run(program: str, kafka: RealKafka, **replaced: str) -> dict[str, Any]:
    for old, new in {"localhost:9092": kafka.bootstrap, **replaced}.items():
        program = program.replace(old, new)
    names: dict[str, Any] = {"__name__": "guide"}
    exec(compile(program, "outbox.md", "exec"), names)
    return names


def _values(kafka: RealKafka, topic: str) -> list[bytes | None]:
    return [each.value() for each in kafka.read(topic)]


def test_the_examples_without_a_transaction_send(
    kafka: RealKafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Directly, from a working directory in which the store's file is made."""
    monkeypatch.chdir(tmp_path)
    for topic in ("orders", "logs"):
        kafka.create_topic(topic)
    _run(_PLAIN, kafka)
    assert [b'{"amount": 12}'] == _values(kafka, "orders")
    assert [b"order received"] == _values(kafka, "logs")
    _run(_ASYNC, kafka)
    assert {b"%d" % number for number in range(100)} < set(_values(kafka, "orders"))
    assert (tmp_path / "linear-retry.sqlite3").exists()


def test_the_example_with_a_transaction_sends(kafka: RealKafka, postgres_url: str) -> None:
    """Its row and its message are there."""
    kafka.create_topic("payments")
    engine = create_engine(postgres_url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE payment (customer INT)"))
    engine.dispose()
    names = _run(_TRANSACTION, kafka, **{"postgresql://billing@localhost/billing": postgres_url})
    names["engine"].dispose()
    with Outbox(kafka.client_settings(), store=postgres_url):
        wait_until(lambda: _values(kafka, "payments"), "it is sent")
    assert [b'{"customer": 7}'] == _values(kafka, "payments")


def test_the_commands_exist() -> None:
    """Those that the page shows, and those that it names."""
    shown = set(re.findall(r"linear-retry outbox ([a-z-]+)", _PAGE))
    usage = CliRunner().invoke(app, ["outbox", "--help"]).output
    listed = {line.split()[0] for line in usage.split("Commands:")[1].splitlines() if line.strip()}
    assert shown | {"send", "postpone", "delete"} <= listed
