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


def test_without_its_topic_the_server_does_not_start(scene: SceneFactory) -> None:
    """The log names the topic; uvicorn ends with its code for a start that failed."""
    here = scene(0, probe_port=free_port())
    here.copy.path("fastapi_service")
    here.kafka.delete_topic(here.orders)
    with here.copy.running(_RUN) as service:
        service.wait(3)
    assert here.orders in service.output


def test_a_consumer_that_has_ended_is_dead(scene: SceneFactory) -> None:
    """The probes say so, for the server goes on; its log has the error."""
    with charging() as (_, port):
        here = scene(port, probe_port=(own := free_port()))
        program = here.copy.path("fastapi_service") / "service.py"
        stopping = program.read_text().replace("transient=", 'on_permanent="stop", transient=')
        program.write_text(stopping)
        with here.copy.running(_RUN) as service:
            wait_for_state(own, "consuming")
            here.produce(*ORDERS)
            health = wait_for_state(own, "dead")
            service.wait_for("PermanentError")
    assert (False, False) == (health["alive"], health["ready"])
    assert "PermanentError" in health["error"]
