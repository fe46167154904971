"""`linear-retry scheduler run --http` serves the API beside the scheduler, or says why not."""

from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from linear_retry.cli import app
from linear_retry.cli.options.http import HttpOptions
from linear_retry.scheduler.service import SchedulerService
from linear_retry.store.database import Database
from tests.conftest import TopicFactory
from tests.kafka_operations import wait_until
from tests.prometheus import free_port
from tests.real_kafka import RealKafka
from tests.scheduler.running import request, running, settings

_RUN = ["scheduler", "run", "--topic", "billing.scheduled", "--allow", "orders*"]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ("--http 0.0.0.0:0", "without users, it listens on this machine alone"),
        ("--http 8099", "'8099': must be HOST:PORT, such as 127.0.0.1:8099"),
        ("--http localhost:x", "'localhost:x': must be HOST:PORT"),
        ("--http http://localhost:1", "must be HOST:PORT"),
        ("--http 127.0.0.1:0 --users none", "users file none: cannot be read"),
        ("--http 127.0.0.1:0 --trusted-proxy proxy", "trusted proxy 'proxy': must be an address"),
        ("--http 127.0.0.1:0 --tls-cert a.pem", "--tls-cert and --tls-key need one another"),
        ("--http 127.0.0.1:0 --tls-cert a.pem --tls-key b.pem", "certificate a.pem with key b.pem"),
        ("--users users", "--trusted-proxy, --host-name, --tls-cert and --tls-key need --http"),
    ],
)
def test_what_cannot_be_meant(
    options: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refused with exit code 2 before Kafka is asked for anything."""
    monkeypatch.chdir(tmp_path)
    done = CliRunner(env={"COLUMNS": "500"}).invoke(
        app, [*_RUN, "-b", "localhost:1", *options.split()]
    )
    assert 2 == done.exit_code
    assert problem in done.output


@pytest.mark.broker
def test_the_api_beside_the_scheduler(
    kafka: RealKafka, topic: TopicFactory, database: Database
) -> None:
    """It is ready once the intake is, and a message that waits for an hour can be sent now."""
    intake, destination = topic(), topic()
    kafka.produce(intake, [(0, b"key", b"value", request(destination, 3600.0))])
    wanted = settings(kafka, intake)
    port = free_port()
    http = HttpOptions(http=f"127.0.0.1:{port}")
    with (
        HttpOptions(http=f"127.0.0.1:{port}").serving_api(
            database, SchedulerService(database, wanted)
        ),
        httpx.Client(base_url=f"http://127.0.0.1:{port}") as unused,
    ):
        answer = unused.get("/readyz")
        assert (503, "the intake has not begun") == (answer.status_code, answer.json()["error"])
        assert 200 == unused.get("/livez").status_code
    with (
        running(kafka, database, wanted) as scheduler,
        http.serving_api(database, scheduler.service),
        httpx.Client(base_url=f"http://127.0.0.1:{port}") as client,
    ):
        wait_until(
            lambda: client.get("/readyz").is_success,
            "it is ready",
            lambda: (client.get("/readyz").text, scheduler.ended),
        )
        wait_until(lambda: client.get("/api/v1/messages").json()["messages"], "it is stored")
        token = client.get("/api/v1/session").json()["csrf_token"]
        answer = client.post(
            "/api/v1/messages/send-now", json={"ids": [1]}, headers={"X-CSRF-Token": token}
        )
        assert {"changed": 1, "gone": 0, "due": 0} == answer.json()
        assert b"value" == scheduler.wait_for(destination, 1)[0].value
        wait_until(
            lambda: (
                'linear_retry_store_sent_total{service="scheduler"} 1.0'
                in client.get("/metrics").text
            ),
            "it is counted",
        )
        taken_in = f'linear_retry_attempts_total{{group="{intake}.scheduler",outcome="succeeded"}}'
        assert f"{taken_in} 1.0" in client.get("/metrics").text
        lag = f'linear_retry_lag{{group="{intake}.scheduler",partition="0",topic="{intake}"}}'
        wait_until(lambda: lag in client.get("/metrics").text, "the lag is known")
