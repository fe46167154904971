"""docs/guides/inbox.md is true."""

import re
import threading
from typing import Any

import pytest
from sqlalchemy import create_engine, text
from typer.testing import CliRunner

from linear_retry.cli import app
from tests.docs.markdown import blocks, page
from tests.kafka_operations import wait_until
from tests.real_kafka import RealKafka

_PAGE = page("docs/guides/inbox.md")
(_PROGRAM,) = blocks(_PAGE, "python")
_TOPIC = "payments-once"  # the guide of the outbox has the other name


@pytest.mark.broker
def test_the_example_books_each_payment_once(kafka: RealKafka, postgres_url: str) -> None:
    """Its row is there; a member that begins again at the beginning books none twice."""
    for topic in (_TOPIC, f"{_TOPIC}.dlq"):
        kafka.create_topic(topic)
    kafka.produce(_TOPIC, [(0, b"ann", b"1200", []), (0, b"bob", b"30", [])])
    url = postgres_url.replace("postgresql:", "postgresql+psycopg:")
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE booking (account TEXT, cents INT)"))
    _run(kafka, url, engine)
    kafka.commit("ledger", _TOPIC, {0: 0})
    kafka.produce(_TOPIC, [(0, b"cyd", b"5", [])])
    _run(kafka, url, engine)
    with engine.connect() as connection:
        booked = connection.execute(text("SELECT account, cents FROM booking")).all()
    assert [("ann", 1200), ("bob", 30), ("cyd", 5)] == [tuple(row) for row in booked]
    engine.dispose()


def _run(kafka: RealKafka, url: str, engine: Any) -> None:
    program = _PROGRAM.replace("payments", _TOPIC)
    program = program.replace("localhost:9092", kafka.bootstrap)
    program = program.replace("postgresql+psycopg://billing@localhost/billing", url)
    body, _, _ = program.partition("with consumer:")
    names: dict[str, Any] = {"__name__": "guide"}
    exec(compile(body, "inbox.md", "exec"), names)
    consumer, last = names["consumer"], kafka.end_offsets(_TOPIC)[0]

    def end() -> None:
        place = text("SELECT max(next_offset) FROM linear_retry_inbox_place")

        def is_done() -> bool:
            with engine.connect() as connection:
                return bool(connection.execute(place).scalar() == last)

        wait_until(is_done, "all is booked")
        consumer.stop()

    watcher = threading.Thread(target=end)
    watcher.start()
    with consumer:
        consumer.run(names["book"])
    watcher.join()
    names["engine"].dispose()


def test_the_commands_exist() -> None:
    """Those that the page shows are those that there are."""
    shown = set(re.findall(r"linear-retry inbox ([a-z-]+)", _PAGE))
    usage = CliRunner().invoke(app, ["inbox", "--help"]).output
    listed = {line.split()[0] for line in usage.split("Commands:")[1].splitlines() if line.strip()}
    assert shown == listed
