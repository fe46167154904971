"""The FastAPI example consumes in the background, and its probes tell the truth."""

import signal

import pytest

from tests.examples.conftest import SceneFactory
from tests.examples.probes import wait_for_state
from tests.examples.scene import charging, free_port

pytestmark = pytest.mark.broker

_RUN = "python -m uvicorn --app-dir examples/fastapi_service --port 8080 service:app"


def test_it_retries_in_order_beside_the_requests(scene: SceneFactory) -> None:
    """The handler is awaited for one message at a time; SIGTERM ends server and consumer."""
    with charging() as (charges, port):
        here = scene(port, probe_port=free_port())
        here.copy.path("fastapi_service")
        here.produce(b"1", b"2", b"3", b"4", b"5")
        with here.copy.running(_RUN) as service:
            here.wait_until_committed("billing-service")
            # uvicorn gives the signal on to itself once everything has been shut down.
            service.end(-signal.SIGTERM)
    assert [b"1", b"2", b"2", b"3", b"3", b"4", b"5"] == [order for order, _ in charges.received]
    assert [(b"4", "permanent")] == [(each.value, each.reason) for each in here.dead_letters()]
    assert "left the group" in service.output


def test_an_open_circuit_is_alive_and_ready(scene: SceneFactory) -> None:
    """Nobody restarts it for an outage; without its topic it is dead, and says why."""
    probes, payments = free_port(), free_port()
    here = scene(payments, probe_port=probes)
    here.copy.path("fastapi_service")
    here.produce(b"1")
    with here.copy.running(_RUN) as service:
        health = wait_for_state(probes, "open")
        assert (True, True) == (health["alive"], health["ready"])
        assert "ConnectError" in health["error"]
        service.end(-signal.SIGTERM)
    with here.copy.running(_RUN) as service:
        here.kafka.delete_topic(here.orders)
        health = wait_for_state(probes, "dead")
        assert (False, False) == (health["alive"], health["ready"])
