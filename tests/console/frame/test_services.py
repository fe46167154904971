"""What does not answer holds up nothing else."""

from concurrent.futures import ThreadPoolExecutor

import httpx

from linear_retry.web import HttpServer
from tests.console.conftest import address, signed_in
from tests.kafka_operations import wait_until
from tests.patience import PATIENCE_S

_REFUSED = "wait for the brokers already: try again in a moment"


def test_brokers_that_are_away_hold_up_no_other_page(server: HttpServer) -> None:
    """More people than the server has threads open letters: most are refused, in words."""
    limits = httpx.Limits(max_connections=80)
    with (
        signed_in(server, "ann") as operator,
        httpx.Client(
            base_url=address(server), cookies=operator.cookies, timeout=PATIENCE_S, limits=limits
        ) as many,
        ThreadPoolExecutor(60) as pool,
    ):
        asked = [pool.submit(many.get, "/letters/orders.dlq/0/0") for _ in range(60)]
        wait_until(lambda: sum(each.done() for each in asked) >= 40, "most are refused")
        refused = [each.result() for each in asked if each.done()]
        assert [200, 200] == [operator.get(path).status_code for path in ("/now", "/login")]
        with operator.stream("GET", "/now/stream") as events:
            assert "event: part" == next(events.iter_lines())
        assert not all(each.done() for each in asked)
        answers = [each.result() for each in asked]
    assert {(503, True)} == {(each.status_code, _REFUSED in each.text) for each in refused}
    waited = [each.text for each in answers if _REFUSED not in each.text]
    assert waited
    assert all("localhost:1: no answer" in text for text in waited)
