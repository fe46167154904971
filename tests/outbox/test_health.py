"""An outbox says how it is, and its sender does not end unnoticed."""

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from linear_retry.errors import ConfigurationError
from linear_retry.outbox import Outbox, OutboxCounts
from linear_retry.store.database import Database
from tests.conftest import TopicFactory
from tests.kafka_operations import wait_until
from tests.outbox.conftest import MakeOutbox
from tests.real_kafka import RealKafka


def _execute(database: Database, statement: str) -> None:
    with database.begin() as connection:
        connection.execute(text(statement))


def _is(outbox: Outbox, state: str) -> bool:
    return outbox.health().state == state


def test_a_sender_that_an_error_has_ended_is_followed_by_another(
    make_outbox: MakeOutbox,
    up: dict[str, Any],
    down: dict[str, Any],
    kafka: RealKafka,
    topic: TopicFactory,
    database: Database,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Meanwhile its health has the error; what was stored is sent in the end."""
    name = topic()
    _execute(database, "ALTER TABLE linear_retry_lease RENAME TO away")
    before = make_outbox(down)
    before.produce(name, b"1")
    assert 0 == before.flush()
    outbox = make_outbox(up, sender=True)
    wait_until(lambda: _is(outbox, "failing"), "its sender has ended", detail=outbox.health)
    health = outbox.health()
    assert (True, True) == (health.alive, health.ready)
    assert "linear_retry_lease" in health.reason
    assert ["OutboxSenderEnded"] == [
        vars(record)["linear_retry_event"]
        for record in caplog.records
        if record.levelname == "ERROR"
    ]
    _execute(database, "ALTER TABLE away RENAME TO linear_retry_lease")
    wait_until(lambda: _is(outbox, "direct"), "a sender works", outbox.health)
    wait_until(lambda: kafka.read(name), "it has sent what was stored")
    assert OutboxCounts(stored=0, lost=0, sent=1, dead=0) == outbox.counts


def test_a_store_of_another_cluster_ends_it(
    make_outbox: MakeOutbox,
    up: dict[str, Any],
    kafka: RealKafka,
    topic: TopicFactory,
    database: Database,
) -> None:
    """Nothing more can be produced: direct messages would go to the wrong cluster as well."""
    name = topic()
    _execute(database, "INSERT INTO linear_retry_setting VALUES ('cluster', 'another')")
    outbox = make_outbox(up, sender=True)
    outbox.produce(name, b"1")
    wait_until(lambda: _is(outbox, "dead"), "it is known", detail=outbox.health)
    assert (False, False) == (outbox.health().alive, outbox.health().ready)
    with pytest.raises(ConfigurationError, match="must be another"):
        outbox.produce(name, b"2")
    with database.begin() as transaction, pytest.raises(ConfigurationError, match="another"):
        outbox.add(transaction, name, b"3")
    with pytest.raises(ConfigurationError, match="must be another"):
        outbox.flush()
    assert 0 == len(outbox)
    outbox.close()
    assert [b"1"] == [each.value() for each in kafka.read(name)]


def test_health_says_whether_messages_are_sent_or_stored(
    make_outbox: MakeOutbox, down: dict[str, Any], database: Database
) -> None:
    """It is ready as long as they can be one or the other."""
    outbox = make_outbox(down)
    assert _is(outbox, "direct")
    outbox.produce("orders", b"1")
    assert 0 == outbox.flush()
    wait_until(lambda: _is(outbox, "storing"), "they are stored", detail=outbox.health)
    assert outbox.health().ready
    _execute(database, "ALTER TABLE linear_retry_message RENAME TO away")
    outbox.produce("orders", b"2")
    assert 0 == outbox.flush()
    wait_until(lambda: _is(outbox, "failing"), "the store fails", detail=outbox.health)
    assert (True, False) == (outbox.health().alive, outbox.health().ready)
    assert "cannot be stored" in outbox.health().reason
    assert (1, 1) == (outbox.counts.stored, outbox.counts.lost)
    outbox.close()
    assert ("closed", False) == (outbox.health().state, outbox.health().ready)


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
def test_a_store_whose_file_is_deleted_is_not_ready(
    make_outbox: MakeOutbox, down: dict[str, Any], store_url: str
) -> None:
    """Messages counted as durable, the outbox as ready, and they were in no file."""
    path = Path(store_url.removeprefix("sqlite:///"))
    outbox, errors = make_outbox(down), list[Any]()
    outbox.produce("orders", b"1")
    assert 0 == outbox.flush()
    path.rename(path.with_name("elsewhere"))
    outbox.produce("orders", b"2", on_delivery=lambda error, _: errors.append(error))
    assert 0 == outbox.flush()
    assert (1, 1) == (outbox.counts.stored, outbox.counts.lost)
    assert "deleted or replaced" in str(errors)
    assert ("failing", False) == (outbox.health().state, outbox.health().ready)
    path.with_name("elsewhere").rename(path)
    wait_until(lambda: outbox.health().ready, "it is ready", detail=outbox.health)


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
def test_it_says_that_earlier_messages_are_in_the_store(
    make_outbox: MakeOutbox, down: dict[str, Any]
) -> None:
    """As a process finds them that follows one which has ended."""
    before = make_outbox(down)
    before.produce("orders", b"1")
    before.close()
    health = make_outbox(down).health()
    assert ("storing", True) == (health.state, "earlier ones" in health.reason)
