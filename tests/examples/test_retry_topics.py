"""The example of retry topics charges each order once, however its two lines are run."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from tests.examples.conftest import SceneFactory
from tests.examples.running import Program
from tests.examples.scene import Scene, free_port

pytestmark = pytest.mark.broker

_COMMAND = "python examples/retry_topics/consumer.py"
_CREATE = (
    "linear-retry topics create orders --group billing "
    "--strategy examples/retry_topics/strategy.json --bootstrap localhost:9092"
)


@contextmanager
def _running(here: Scene, *lines: str) -> Iterator[list[Program]]:
    with ExitStack() as stack:
        commands = [f"{_COMMAND} {line}".rstrip() for line in lines]
        yield [stack.enter_context(here.copy.running(command)) for command in commands]


@pytest.mark.parametrize("lines", [("",), ("live", "retry")], ids=["together", "two services"])
def test_orders_leave_and_come_back(scene: SceneFactory, lines: tuple[str, ...]) -> None:
    """While the payment service is down all leave; then each is charged once, or declined."""
    here = scene(free_port(), partitions=3)
    here.copy.path("plain")
    strategy = here.copy.path("retry_topics") / "strategy.json"
    strategy.write_text(json.dumps(["2s", {"every": "4s", "times": 5}]))
    here.copy.run(_CREATE)
    here.copy.run("python examples/plain/orders.py 10")
    with _running(here, *lines) as programs:
        programs[0].wait_for("sent to retry", times=10)
        with here.copy.running("python examples/plain/payments.py") as payments:
            payments.wait_for("order ", times=10)
            for program in programs:
                program.end()
            charged, declined = payments.lines("charged"), payments.lines("declined")
    places = {words[0] for words in (*charged, *declined)}
    assert 10 == len(charged) + len(declined) == len(places)
    assert all(place.startswith(f"{here.orders}/") for place in places)
    assert ["10"] == [words[-1] for words in declined]
    (letter,) = here.dead_letters()
    assert "permanent" == letter.reason
