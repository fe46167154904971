"""The example of the ledger books and announces each order once, also if it is killed."""

import json
from functools import partial
from itertools import accumulate

import pytest
from sqlalchemy import create_engine, text

from linear_retry import message_id
from tests.examples.conftest import SceneFactory
from tests.kafka_operations import wait_until

pytestmark = pytest.mark.broker

_RUN = "python examples/ledger/consumer.py"


def test_each_order_is_booked_once(scene: SceneFactory) -> None:
    """Though it is killed twice on the way; the balance that each booking announces is right."""
    here = scene(0)
    here.kafka.create_topic(booked := f"{here.orders}.booked")
    directory = here.copy.path("ledger").parents[1]
    here.copy.path("plain")
    here.copy.run("linear-retry inbox migrate --store sqlite:///ledger.db")
    here.copy.run("python examples/plain/orders.py 200")
    engine = create_engine(f"sqlite:///{directory}/ledger.db")

    def found(wanted: str) -> list[int]:
        with engine.connect() as connection:
            return list(connection.scalars(text(wanted)))

    def is_beyond(offset: int) -> bool:
        return bool(found(f"SELECT 1 FROM linear_retry_inbox_place WHERE next_offset > {offset}"))

    for offset in (20, 90):
        with here.copy.running(_RUN) as consumer:
            wait_until(partial(is_beyond, offset), f"a place beyond {offset}")
            consumer.kill()
    with here.copy.running(_RUN) as consumer:
        here.wait_until_committed("ledger")
        consumer.end()
    wanted = [number for number in range(1, 201) if number % 10]
    assert wanted == found("SELECT number FROM booking ORDER BY rowid")
    first: dict[str, dict[str, int]] = {}
    for message in here.kafka.read(booked):
        first.setdefault(message_id(message), json.loads(message.value() or b""))
    assert wanted == [each["order"] for each in first.values()]
    assert [*accumulate([1990] * 180)] == [each["balance"] for each in first.values()]
    assert 20 == len(here.dead_letters())
    engine.dispose()
