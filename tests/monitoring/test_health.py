"""Probes, Prometheus and a person with curl get the right answer, and only that."""

import json
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Message

from linear_retry import ConfigurationError, LinearConsumer
from linear_retry.monitoring.health import HealthServer, serve
from tests.consumer.conftest import fake
from tests.consumer.group import OutageError, PoisonError, consumer_on
from tests.fake.cluster import FakeKafka
from tests.patience import PATIENCE_S

__all__ = ["fake"]


def ask(served: HealthServer, path: str, method: str = "GET") -> tuple[int, str, bytes]:
    """Status, content type, body."""
    request = urllib.request.Request(f"http://127.0.0.1:{served.port}{path}", method=method)
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers["Content-Type"], error.read()


def reported(served: HealthServer, path: str) -> tuple[int, Any]:
    """Status and what the JSON says."""
    status, content_type, body = ask(served, path)
    assert "application/json" == content_type
    return status, json.loads(body)


@pytest.fixture
def consumer(fake: FakeKafka) -> Iterator[LinearConsumer]:
    with consumer_on(fake, on_permanent="stop") as made:
        yield made


def test_before_it_runs(consumer: LinearConsumer) -> None:
    """Alive and not ready: with a reason for whoever looks."""
    with serve(consumer, 0, "127.0.0.1") as served:
        assert 200 == reported(served, "/livez")[0]
        status, health = reported(served, "/readyz")
        assert (503, "starting") == (status, health["state"])
        assert "not in its group" in health["reason"]
        assert (200, []) == reported(served, "/circuits")


def test_while_it_waits(consumer: LinearConsumer) -> None:
    """Alive and ready: standing still on purpose is no reason to be started again."""
    seen: dict[str, tuple[int, Any]] = {}
    errors: list[Exception] = [OutageError("down")]

    def handle(_: Message) -> None:
        if errors:
            raise errors.pop()
        # The held message's own attempt: its circuit is half-open.
        seen.update({path: reported(served, path) for path in ("/livez", "/readyz", "/circuits")})
        consumer.stop()

    with serve(consumer, 0, "127.0.0.1") as served:
        consumer.run(handle)
    assert (200, 200) == (seen["/livez"][0], seen["/readyz"][0])
    assert "open" == seen["/readyz"][1]["state"]
    assert "2026-01-01T00:00:01.000+00:00" == seen["/readyz"][1]["until"]
    (circuit,) = seen["/circuits"][1]
    place = [circuit[name] for name in ("scope", "topic", "partition", "offset", "failures")]
    assert ["consumer", "orders", 0, 0, 1] == place
    assert ("half-open", "OutageError('down')") == (circuit["state"], circuit["error"])
    assert "2026-01-01T00:00:00.000+00:00" == circuit["since"]


def test_after_its_death(consumer: LinearConsumer) -> None:
    """Neither alive nor ready, and the error is named."""

    def handle(_: Message) -> None:
        raise PoisonError("bad")

    with serve(consumer, 0, "127.0.0.1") as served:
        with pytest.raises(Exception, match="PoisonError"):
            consumer.run(handle)
        for path in ("/livez", "/readyz"):
            status, health = reported(served, path)
            assert (503, "dead") == (status, health["state"])
            assert health["error"].startswith("PermanentError(")


@pytest.mark.parametrize("host", ["::1", "::", "localhost", "", "0.0.0.0"])
def test_it_listens_where_it_is_told(consumer: LinearConsumer, host: str) -> None:
    """An IPv6 address was refused, as if this machine did not have it; others stay as they were."""
    address = "[::1]" if ":" in host else "127.0.0.1"
    with serve(consumer, 0, host) as served:
        where = f"http://{address}:{served.port}/livez"
        assert 200 == urllib.request.urlopen(where, timeout=10).status


def test_metrics(consumer: LinearConsumer) -> None:
    """As Prometheus reads them."""
    with serve(consumer, 0, "127.0.0.1") as served:
        status, content_type, body = ask(served, "/metrics")
    assert 200 == status
    assert content_type.startswith("text/plain")
    assert b'linear_retry_state{group="billing",state="starting"} 1.0' in body


def test_without_the_extra_the_rest_is_there() -> None:
    """A service that has no prometheus-client is told which extra to install."""
    code = """
import sys, urllib.request, urllib.error
sys.modules["prometheus_client"] = None
from linear_retry import LinearConsumer, Strategy
from linear_retry.monitoring.health import serve
keys = {"bootstrap.servers": "127.0.0.1:9", "group.id": "billing"}
consumer = LinearConsumer(
    keys, ["orders"], strategy=Strategy([1]), transient=OSError, dead_letters="dlq"
)
with serve(consumer, 0, "127.0.0.1") as served:
    where = f"http://127.0.0.1:{served.port}"
    print(urllib.request.urlopen(where + "/livez").status)
    try:
        urllib.request.urlopen(where + "/metrics")
    except urllib.error.HTTPError as error:
        print(error.code, error.read().decode())
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=PATIENCE_S
    )
    first, second = done.stdout.strip().split("\n")
    assert "200" == first
    assert second.startswith('503 {"error": "prometheus-client is missing: pip install')
    assert "" == done.stderr


def test_another_path_is_answered_with_what_there_is(consumer: LinearConsumer) -> None:
    """With or without a query."""
    with serve(consumer, 0, "127.0.0.1") as served:
        status, body = reported(served, "/healthz")
        assert (404, "/healthz: there is /livez, /readyz, /circuits, /metrics") == (
            status,
            body["error"],
        )
        assert 200 == reported(served, "/livez?verbose=1")[0]
        assert 501 == ask(served, "/livez", "POST")[0]


def test_a_port_in_use_is_reported_in_a_sentence(consumer: LinearConsumer) -> None:
    """Which port, why, and what to do."""
    with serve(consumer, 0, "127.0.0.1") as served:
        expected = (
            rf"^port={served.port}: 127\.0\.0\.1 cannot listen there \(Address already in use\);"
            r" give another port, or 0 for a free one, and an address of this machine$"
        )
        with pytest.raises(ConfigurationError, match=expected):
            serve(consumer, served.port, "127.0.0.1")


@pytest.mark.parametrize("port", [-1, 65_536, "metrics", None])
def test_what_is_no_port_is_refused(consumer: LinearConsumer, port: Any) -> None:
    """Before anything is bound."""
    with pytest.raises(ConfigurationError, match=r"^port="):
        serve(consumer, port)


@pytest.mark.parametrize("host", ["192.0.2.1", "\0"])
def test_what_is_no_host_of_this_machine_is_refused(consumer: LinearConsumer, host: str) -> None:
    """An address of others, and what is no name."""
    with pytest.raises(ConfigurationError, match=r"^port=0: .* an address of this machine$"):
        serve(consumer, 0, host)


def test_only_this_machine_is_answered_by_default(consumer: LinearConsumer) -> None:
    """There is no login: who is to be let in from elsewhere is the service's word."""
    for options, expected in (((), "127.0.0.1"), (("0.0.0.0",), "0.0.0.0")):
        with serve(consumer, 0, *options) as served:
            assert [expected] == _listening_on(served.port)


def _listening_on(port: int) -> list[str]:
    """127.0.0.2 is this machine too, and only answered where every address is."""
    found = []
    for address in ("127.0.0.1", "127.0.0.2"):
        with socket.socket() as other:
            if other.connect_ex((address, port)) == 0:
                found.append(address)
    return ["0.0.0.0"] if len(found) == 2 else found


def test_whoever_goes_away_is_no_error(
    consumer: LinearConsumer, capfd: pytest.CaptureFixture[str]
) -> None:
    """A probe that has no time for the answer leaves no traceback, and the next one is answered."""
    with serve(consumer, 0, "127.0.0.1") as served:
        for _ in range(5):
            with socket.create_connection(("127.0.0.1", served.port)) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                probe.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        assert 200 == reported(served, "/livez")[0]
    assert ("", "") == capfd.readouterr()


def test_left_it_answers_no_more(consumer: LinearConsumer) -> None:
    """And its port is free again; closing twice is nothing."""
    with serve(consumer, 0, "127.0.0.1") as served:
        assert 200 == reported(served, "/livez")[0]
    served.close()
    with serve(consumer, served.port, "127.0.0.1") as again:
        assert 200 == reported(again, "/livez")[0]
