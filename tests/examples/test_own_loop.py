"""The example of an own loop retries, keeps the order and ends by SIGTERM."""

import pytest

from tests.examples.conftest import SceneFactory
from tests.examples.scene import ORDERS, charging

pytestmark = pytest.mark.broker


def test_it_retries_in_order(scene: SceneFactory) -> None:
    """One order without an answer, one with 503 and one that is declined hold up the rest."""
    with charging() as (charges, port):
        here = scene(port)
        here.copy.path("own_loop")
        here.produce(*ORDERS)
        with here.copy.running("python examples/own_loop/loop.py") as loop:
            here.wait_until_committed("billing-loop")
            loop.end()
    here.assert_kept_order(charges)
    for offset in (1, 2):
        assert f"INFO:billing:attempt 2 of offset {offset}" in loop.output
