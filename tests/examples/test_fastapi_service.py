"""The FastAPI example consumes in the background, and its probes tell the truth."""

import signal

import pytest

from tests.examples.conftest import SceneFactory
from tests.examples.probes import wait_for_state
from tests.examples.scene import ORDERS, charging, free_port

pytestmark = pytest.mark.broker

_RUN = "python -m uvicorn --app-dir examples/fastapi_service --port 8080 service:app"


def test_it_retries_in_order_beside_the_requests(scene: SceneFactory) -> None:
    """While it waits it is alive and ready; SIGTERM ends server and consumer."""
    with charging() as (charges, port):
        here = scene(port, probe_port=(own := free_port()))
        here.copy.path("fastapi_service")
        here.produce(*ORDERS)
        with here.copy.running(_RUN) as service:
            health = wait_for_state(own, "open")
            assert (True, True) == (health["alive"], health["ready"])
            here.wait_until_committed("billing-service")
            wait_for_state(own, "consuming")
            # uvicorn gives the signal on to itself once everything has been shut down.
            service.end(-signal.SIGTERM)
    here.assert_kept_order(charges)
    assert "left the group" in service.output


def test_a_consumer_that_has_ended_is_dead(scene: SceneFactory) -> None:
    """Without its topic it cannot run: the probes say so, for the server goes on."""
    here = scene(0, probe_port=(own := free_port()))
    here.copy.path("fastapi_service")
    here.kafka.delete_topic(here.orders)
    with here.copy.running(_RUN):
        health = wait_for_state(own, "dead")
    assert (False, False) == (health["alive"], health["ready"])
    assert here.orders in health["error"]
