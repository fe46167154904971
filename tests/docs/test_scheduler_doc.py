"""docs/guides/scheduler.md is true."""

import os
import re
import shlex
import shutil
import subprocess
import types
from pathlib import Path

import kubernetes_validate
import pytest
import yaml
from sqlalchemy import text
from typer.testing import CliRunner

from linear_retry import Scheduler
from linear_retry.cli import app
from linear_retry.records.dead_letter import FailureInfo, to_dead_letter
from linear_retry.records.lineage import Hop
from linear_retry.records.record import Record
from linear_retry.records.retry_headers import HEADER_NAMES, MESSAGE_ID
from linear_retry.scheduler.contract import read_request
from linear_retry.scheduler.destinations import Destinations
from linear_retry.store import messages
from linear_retry.store.database import Database
from linear_retry.store.records import NewMessage
from linear_retry.store.sender.sender import LEASE_S
from linear_retry.store.sender.settlement import until_it_works
from tests import kafka_jars
from tests.debian import unpacked
from tests.docs.markdown import blocks, code, page, table
from tests.patience import PATIENCE_S
from tests.real_kafka import RealKafka
from tests.scheduler.running import running, settings
from tests.store.contents import new_message

_PAGE = page("docs/guides/scheduler.md")
_SHELL = [line for block in blocks(_PAGE, "sh") for line in block.replace("\\\n", "").splitlines()]
_COMMANDS = [line for line in _SHELL if line.startswith("linear-retry ")]
_NOW_MS = 1_767_225_600_000


@pytest.mark.parametrize("line", _COMMANDS)
def test_the_commands_are_there(line: str) -> None:
    """Each with its options."""
    words = shlex.split(line)[1:]
    options = [word for word in words if word.startswith("-")]
    group, name = words[:2]
    helped = CliRunner(env={"COLUMNS": "200"}).invoke(app, [group, name, "--help"])
    assert 0 == helped.exit_code
    known = set(re.findall(r"--[a-z-]+", helped.output))
    assert [] == [option for option in options if option not in known]


def test_the_container_starts() -> None:
    """Its manifest is valid, and the command takes its arguments: only the broker is missing."""
    (block,) = blocks(_PAGE, "yaml")
    (container,) = yaml.safe_load(block)["containers"]
    pod = {"containers": [container], "volumes": [{"name": "users", "emptyDir": {}}]}
    manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": pod}
    kubernetes_validate.validate(manifest, "1.31", strict=True)
    words = [word.replace("kafka:9092", "127.0.0.1:1") for word in container["args"]]
    assert "linear-retry" == words[0]
    environment = {container["env"][0]["name"]: "sqlite:////nowhere/store.sqlite3"}
    started = CliRunner(env=environment).invoke(app, words[1:])
    assert (3, True) == (started.exit_code, "/nowhere/store.sqlite3" in started.output)


def test_the_consumer_sends_to_the_scheduler() -> None:
    """The page's program creates a consumer with the topic and the delays that the text names."""
    module = types.ModuleType("page")
    (program,) = blocks(_PAGE, "python")
    exec(program, vars(module))
    consumer = module.billing()
    retries = consumer._config.retries
    assert isinstance(retries, Scheduler)
    assert ("billing.scheduled", (300_000, 3_600_000, 86_400_000)) == (
        retries.topic,
        retries.strategy.delays_ms,
    )
    module.payments.close()


def test_the_headers_of_the_contract() -> None:
    """Those that are needed are enough, no header that the page names is unknown, and one without
    a needed one is dead."""
    rows = table(_PAGE, "header")
    assert {code(row[0])[0] for row in rows} <= HEADER_NAMES | {MESSAGE_ID}
    needed = [code(row[0])[0] for row in rows if row[1] == "yes"]
    values = {"retry-destination": b"orders", "retry-at-ms": b"0"}
    destinations = Destinations("billing.scheduled", ("orders*",))
    for left_out in (None, *needed):
        headers = tuple((name, values[name]) for name in needed if name != left_out)
        record = Record("billing.scheduled", 0, 0, -1, None, None, headers)
        found = read_request(record, destinations, _NOW_MS)
        assert isinstance(found, NewMessage) == (left_out is None)


def test_kcat_and_java_write_what_is_needed() -> None:
    """Both examples have the headers, and kcat's time is one in the future."""
    (java,) = blocks(_PAGE, "java")
    (kcat,) = [line for line in _SHELL if "kcat -P" in line]
    for example in (java, kcat):
        assert {"retry-destination", "retry-at-ms"} <= set(
            re.findall(r"retry-[a-z-]*[a-z]", example)
        )
    assert "(date +%s) + 3600) * 1000" in kcat


_JAVA = """
import static java.nio.charset.StandardCharsets.UTF_8;

import java.time.Instant;
import java.util.Properties;
import java.util.UUID;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

public class Example {
    public static void main(String[] brokers) {
        var strings = "org.apache.kafka.common.serialization.StringSerializer";
        var settings = new Properties();
        settings.put("bootstrap.servers", brokers[0]);
        settings.put("key.serializer", strings);
        settings.put("value.serializer", strings);
        var dueAt = Instant.now();
        var reminder = "from Java";
        try (var producer = new KafkaProducer<String, String>(settings)) {
            EXAMPLE
        }
    }
}
"""


def _run_java(example: str, kafka: RealKafka, directory: Path) -> None:
    source = directory / "Example.java"
    source.write_text(_JAVA.replace("EXAMPLE", example))
    jars = f"{kafka_jars.directory()}/*"
    command = [kafka_jars.java(), "-cp", jars, str(source), kafka.bootstrap]
    subprocess.run(command, check=True, timeout=PATIENCE_S, capture_output=True)


def _run_kcat(example: str, kafka: RealKafka) -> None:
    environment = dict(os.environ)
    if shutil.which("kcat") is None:
        package = unpacked("kcat")
        beside = ":".join(str(path) for path in package.glob("usr/lib/*-linux-gnu"))
        path = f"{package}/usr/bin:{environment['PATH']}"
        environment |= {"PATH": path, "LD_LIBRARY_PATH": beside}
    at_once = example.replace("localhost:9092", kafka.bootstrap).replace("+ 3600", "- 1")
    subprocess.run(["sh", "-ec", at_once], env=environment, check=True, timeout=PATIENCE_S)


@pytest.mark.broker
def test_what_kcat_and_java_write_is_sent(
    own_kafka: RealKafka, sqlite_url: str, tmp_path: Path
) -> None:
    """Both examples, written to a real broker by the programs that they are for."""
    own_kafka.create_topic("orders")
    (create,) = [line for line in _COMMANDS if " topics create " in line]
    words = shlex.split(create.replace("localhost:9092", own_kafka.bootstrap))
    assert 0 == CliRunner().invoke(app, words[1:]).exit_code
    (java,) = blocks(_PAGE, "java")
    (kcat,) = [block for block in blocks(_PAGE, "sh") if "kcat -P" in block]
    _run_java(java, own_kafka, tmp_path)
    _run_kcat(kcat, own_kafka)
    database = Database(sqlite_url)
    with running(own_kafka, database, settings(own_kafka, "billing.scheduled")) as scheduler:
        found = scheduler.wait_for("orders", 2)
    database.close()
    assert [(b"order-17", b"from Java"), (b"order-17", b"remind me")] == sorted(
        (each.key, each.value) for each in found
    )


_HEADERS = to_dead_letter(
    Record("orders", 3, 1042, _NOW_MS, b"order-17", b"value"),
    FailureInfo(
        *("billing", "transient", 3, _NOW_MS, _NOW_MS, "retries@1"),
        hop=Hop("billing.scheduled", 1, "retries@1", _NOW_MS),
    ),
).headers()
_ROWS = 5_000


def test_what_a_message_takes(database: Database) -> None:
    """As much of the disk as the page says, with an error's text of a few words."""
    headers = (*_HEADERS, ("retry-exception-message", b"x" * 20))
    sizes = [len(name) + len(value or b"") for name, value in headers]
    assert 0.35 < sum(sizes) / 1000 < 0.45
    with database.begin() as connection:
        rows = (
            new_message(slot=str(n % 6), due_ms=n, value=os.urandom(1000), headers=headers)
            for n in range(_ROWS)
        )
        messages.add(database, connection, [*rows])
    size = "SELECT pg_total_relation_size('linear_retry_message')"
    if database.is_sqlite:
        size = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"
    with database.reading() as connection:
        taken = connection.execute(text(size)).scalar_one() / _ROWS / 1000
    postgresql, sqlite = re.findall(r"([\d.]+) KB in (?:PostgreSQL|SQLite)", _PAGE)
    assert float(sqlite if database.is_sqlite else postgresql) == pytest.approx(taken, rel=0.1)


def test_the_figures() -> None:
    """The reasons, waits and times of the page are the code's."""
    reasons = {code(row[0])[0] for row in table(_PAGE, "reason")}
    assert {"unreadable", "not-allowed", "too-far", "too-large", "refused", "given-up"} == reasons
    assert f"replaced after {LEASE_S:g} s" in _PAGE
    assert [1, 2, 5, 10, 30, 60, 60] == [until_it_works(failures) for failures in range(1, 8)]
