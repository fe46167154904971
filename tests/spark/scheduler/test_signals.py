"""SIGTERM and Ctrl-C end the scheduler whatever it waits for."""

import signal
from pathlib import Path

import pytest

from tests.kafka_operations import wait_until
from tests.patience import PATIENCE_S
from tests.real_kafka import RealKafka
from tests.spark.alone import READY, alone, read_until
from tests.spark.scheduler.running import now_ms, request

_RUN = ("spark", "scheduler", "run", "--topic", "scheduled", "--allow", "*", "--checkpoint")
"""Far less than without an answer from brokers, on a machine that is busy."""


def test_it_starts_without_brokers(tmp_path: Path) -> None:
    """It used to wait half a minute for their answer before the signal had an effect."""
    with alone({}, *_RUN, f"{tmp_path}/state", "--bootstrap", "127.0.0.1:1") as child:
        read_until(child, READY)
        child.send_signal(signal.SIGTERM)
        assert ("", "terminated\n") == child.communicate(timeout=PATIENCE_S)
    assert 143 == child.returncode


@pytest.mark.broker
@pytest.mark.long
def test_its_brokers_have_gone_away(own_kafka: RealKafka, tmp_path: Path) -> None:
    """The first Ctrl-C ends it though no query runs: it used to be started again for ever."""
    for name in ("scheduled", "scheduled.dlq", "orders"):
        own_kafka.create_topic(name)
    config = tmp_path / "kafka.json"
    config.write_text(
        '{"kafka.default.api.timeout.ms": "2000", "kafka.request.timeout.ms": "1000"}'
    )
    where = ("--bootstrap", own_kafka.bootstrap, "--config", str(config))
    with alone({}, *_RUN, f"{tmp_path}/state", *where) as child:
        read_until(child, "sends to *")
        sent = request("orders", now_ms(), "first")
        own_kafka.produce("scheduled", [(0, b"key", b"value", sent)])
        wait_until(lambda: own_kafka.read("orders"), "it runs")
        own_kafka.kill()
        read_until(child, "starts again in")
        child.send_signal(signal.SIGINT)
        said = child.communicate(timeout=PATIENCE_S)
    assert (130, "", "interrupted\n") == (child.returncode, *said)
