"""Django's transactions: what is committed is sent, what is rolled back never is."""

import subprocess
import sys

import pytest
from sqlalchemy import text

from linear_retry.outbox import Outbox
from linear_retry.store.database import Database
from tests import dying_with_parent
from tests.conftest import TopicFactory
from tests.kafka_operations import wait_until
from tests.patience import PATIENCE_S
from tests.real_kafka import RealKafka

pytestmark = pytest.mark.broker


def test_djangos_transactions(
    kafka: RealKafka, topic: TopicFactory, store_url: str, database: Database
) -> None:
    """Savepoints too: rows and messages are the same, in the order of the transactions.

    On SQLite with `transaction_mode`: without it, one that had read failed with "database is
    locked" as soon as another wrote.
    """
    name = topic()
    with database.begin() as connection:
        connection.execute(text("CREATE TABLE shop_order (value VARCHAR(40))"))
    command = (sys.executable, "-m", "tests.outbox.django_shop", store_url, name)
    done = subprocess.run(
        dying_with_parent.guarded(*command), capture_output=True, timeout=PATIENCE_S, check=False
    )
    assert 0 == done.returncode, done.stderr.decode()
    committed = [b"committed", b"outer", b"savepoint kept", b"after reading"]
    with database.reading() as connection:
        rows = connection.scalars(text("SELECT value FROM shop_order")).all()
    assert committed == [value.encode() for value in rows]
    with Outbox(kafka.client_settings(), store=store_url) as outbox:
        wait_until(lambda: outbox.counts.sent == len(committed), "they are sent")
    assert committed == [each.value() for each in kafka.read(name)]
