"""The Compose file starts what the examples need."""

import subprocess
import sys

import pytest
import yaml

from tests.docs.markdown import ROOT
from tests.kafka_jars import KAFKA_VERSION
from tests.real_kafka import RealKafka, free_ports

_FILE = ROOT / "examples" / "plain" / "compose.yaml"
_SERVICES = yaml.safe_load(_FILE.read_text("utf-8"))["services"]


def test_it_is_valid() -> None:
    """It keeps to the schema of the Compose specification."""
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec"]
    checked = subprocess.run([*command, _FILE], capture_output=True, text=True, check=False)
    assert 0 == checked.returncode, checked.stdout + checked.stderr


def test_it_creates_every_topic() -> None:
    """The topics that the examples name are there, dead letters with as many partitions."""
    (script,) = _SERVICES["topics"]["command"]
    words = [line.split() for line in script.splitlines() if "--topic" in line]
    topics = {
        line[line.index("--topic") + 1]: line[line.index("--partitions") + 1] for line in words
    }
    assert topics["orders"] == topics["orders.dlq"]
    assert {"linear-retry.journal", "linear-retry.control"} < topics.keys()


def test_waiting_for_the_services_is_a_success() -> None:
    """`up --wait` fails where a service ends, so the one that does has a profile."""
    assert ["kafka"] == [name for name, each in _SERVICES.items() if "profiles" not in each]


def test_the_host_reaches_the_broker_where_the_examples_look_for_it() -> None:
    """A client is sent on to the advertised address, which must be the published one."""
    kafka = _SERVICES["kafka"]
    assert ["127.0.0.1:9092:9092"] == kafka["ports"]
    listeners, advertised = (
        dict(each.split("://") for each in kafka["environment"][key].split(","))
        for key in ("KAFKA_LISTENERS", "KAFKA_ADVERTISED_LISTENERS")
    )
    assert {"HOST": "localhost:9092", "DOCKER": "kafka:19092"} == advertised
    assert {"HOST": ":9092", "DOCKER": ":19092", "CONTROLLER": ":9093"} == listeners


@pytest.mark.broker
def test_the_health_check_tells_a_broker_from_none(kafka: RealKafka) -> None:
    """It needs nothing but bash, and a broker that has opened its port."""
    (_, *command) = _SERVICES["kafka"]["healthcheck"]["test"]
    _, _, port = kafka.bootstrap.rpartition(":")
    (closed,) = free_ports(1)
    found = [
        subprocess.run(_at(command, each), capture_output=True, check=False).returncode
        for each in (port, str(closed))
    ]
    assert [0, 1] == found


def test_the_image_is_the_broker_that_the_tests_run_on() -> None:
    """An example that works in a test works with it."""
    assert {f"apache/kafka:{KAFKA_VERSION}"} == {each["image"] for each in _SERVICES.values()}


def _at(command: list[str], port: str) -> list[str]:
    return [word.replace("/localhost/19092", f"/127.0.0.1/{port}") for word in command]
