"""The example of the scheduler charges each order once."""

import pytest

from tests.examples.conftest import SceneFactory
from tests.examples.scene import free_port

pytestmark = pytest.mark.broker

_CREATE = (
    "linear-retry topics create orders --group billing "
    "--scheduler orders.billing.scheduled --bootstrap localhost:9092"
)
_SCHEDULER = (
    "linear-retry scheduler run --topic orders.billing.scheduled --allow orders "
    "--bootstrap localhost:9092"
)


def test_orders_wait_in_the_store_and_come_back(scene: SceneFactory) -> None:
    """While the payment service is down all leave; then each is charged once, or declined."""
    here = scene(free_port(), partitions=3)
    here.copy.path("plain")
    program = here.copy.path("scheduler") / "consumer.py"
    delays = '["2s", {"every": "4s", "times": 5}]'
    program.write_text(program.read_text().replace('["10s", "30s", "5m", "1h"]', delays))
    assert delays in program.read_text()
    here.copy.run(_CREATE)
    with (
        here.copy.running(_SCHEDULER) as scheduler,
        here.copy.running("python examples/scheduler/consumer.py") as consumer,
    ):
        here.copy.run("python examples/plain/orders.py 10")
        consumer.wait_for("sent to retry", times=10)
        here.copy.run("linear-retry scheduler list")
        with here.copy.running("python examples/plain/payments.py") as payments:
            payments.wait_for("order ", times=10)
            consumer.end()
            scheduler.end()
            charged, declined = payments.lines("charged"), payments.lines("declined")
    places = {words[0] for words in (*charged, *declined)}
    assert 10 == len(charged) + len(declined) == len(places)
    assert all(place.startswith(f"{here.orders}/") for place in places)
    assert ["10"] == [words[-1] for words in declined]
    (letter,) = here.dead_letters()
    assert "permanent" == letter.reason
