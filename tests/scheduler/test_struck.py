"""An intake that is killed in the middle of a batch: what it left is stored once."""

import json
import signal
import subprocess
import sys
from dataclasses import asdict
from typing import Literal

import pytest
from sqlalchemy import select

from linear_retry.store.database import Database
from linear_retry.store.schema import message
from tests import dying_with_parent
from tests.conftest import TopicFactory
from tests.patience import PATIENCE_S
from tests.real_kafka import RealKafka
from tests.scenarios.process import CHECKOUT
from tests.scheduler.running import places, request
from tests.scheduler.struck_intake import BATCH, Arguments

pytestmark = pytest.mark.broker


def _run(arguments: Arguments) -> int:
    command = (sys.executable, "-m", "tests.scheduler.struck_intake", json.dumps(asdict(arguments)))
    return subprocess.run(
        dying_with_parent.guarded(*command), cwd=CHECKOUT, timeout=PATIENCE_S, check=False
    ).returncode


@pytest.mark.parametrize("dies", ["before", "after"])
def test_killed_at_a_batch(
    kafka: RealKafka,
    topic: TopicFactory,
    store_url: str,
    dies: Literal["before", "after"],
) -> None:
    """After the rows and before the commit, or after the commit and before the offset: the next
    process stores the rest, and nothing twice."""
    intake, count = topic(), 3 * BATCH
    kafka.produce(intake, [(0, None, b"%d" % n, request("orders")) for n in range(count)])
    config = kafka.client_settings(**{"group.id": f"of-{intake}", "auto.offset.reset": "earliest"})
    config |= {"session.timeout.ms": 2000, "heartbeat.interval.ms": 300}
    assert -signal.SIGKILL == _run(Arguments(config, intake, store_url, count - 1, dies))
    assert 0 == _run(Arguments(config, intake, store_url, count - 1))
    database = Database(store_url)
    with database.reading() as connection:
        values = [*connection.scalars(select(message.c.value).order_by(message.c.id))]
    place = places(kafka, database, intake)
    database.close()
    assert [b"%d" % n for n in range(count)] == values
    assert {0: count} == place
