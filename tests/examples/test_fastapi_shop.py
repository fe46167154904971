"""The FastAPI example that produces answers with a durable order, whatever the brokers do."""

import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests.examples.probes import wait_for_state
from tests.examples.scene import free_port, make_scene
from tests.kafka_operations import wait_until
from tests.patience import PATIENCE_S
from tests.real_kafka import RealKafka

pytestmark = pytest.mark.broker

_RUN = "python -m uvicorn --app-dir examples/fastapi_service --port 8080 shop:app"


def test_orders_are_taken_while_the_brokers_are_away(own_kafka: RealKafka, tmp_path: Path) -> None:
    """The server answers other requests while one waits; at last all orders are in Kafka."""
    own_kafka.create_topic("orders")
    here = make_scene(own_kafka, "orders", tmp_path, 0, own := free_port())
    here.copy.path("fastapi_service")
    with (
        here.copy.running(_RUN) as service,
        httpx.Client(
            base_url=f"http://127.0.0.1:{own}", trust_env=False, timeout=PATIENCE_S
        ) as client,
        ThreadPoolExecutor(3) as pool,
    ):
        wait_for_state(own, "direct")

        def order(number: int) -> str:
            answer = client.post("/orders", content=b"%d" % number)
            assert 202 == answer.status_code, service.output
            place: str = answer.json()["place"]
            return place

        assert "kafka" == order(1)
        own_kafka.kill()
        waiting = [pool.submit(order, number) for number in (2, 3, 4)]
        assert client.get("/livez").is_success
        assert [False] * 3 == [each.done() for each in waiting]
        assert ["store"] * 3 == [each.result(PATIENCE_S) for each in waiting]
        assert wait_for_state(own, "storing")["ready"]
        own_kafka.start()
        wait_until(lambda: 4 == len(own_kafka.read("orders")), "all are sent")
        wait_for_state(own, "direct")
        assert "kafka" == order(5)
        service.end(-signal.SIGTERM)
    assert {b"%d" % number for number in range(1, 6)} == {
        each.value() for each in own_kafka.read("orders")
    }
