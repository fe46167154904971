"""`linear-retry topics plan|create|check|status` on a real broker."""

import itertools
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from linear_retry.cli import app
from linear_retry.kafka.topics.description import Topics
from linear_retry.records.dead_letter import FailureInfo, to_dead_letter
from linear_retry.records.lineage import Hop
from linear_retry.records.record import Record
from linear_retry.retry.clock import now_ms
from tests.cli.result import Result
from tests.real_kafka import RealKafka

pytestmark = pytest.mark.broker

_numbers = itertools.count(1)


class _Scene:
    """A source of three partitions on a real broker, and a strategy of three distinct delays."""

    def __init__(self, kafka: RealKafka, directory: Path) -> None:
        self.kafka = kafka
        self.source = f"planned-{next(_numbers)}"
        self.prefix = f"{self.source}.billing.retry"
        self.strategy = directory / "retries.json"
        self.write_strategy(["5m", "5m", "30m", "30m", "1h"])
        kafka.create_topic(self.source, 3, {"max.message.bytes": "2000000"})

    def write_strategy(self, delays: list[str]) -> None:
        self.strategy.write_text(json.dumps(delays))

    def run(self, command: str, *more: str) -> Result:
        shared = ["--journal", f"{self.source}.journal", "--control", f"{self.source}.control"]
        options = ["--group", "billing", "--strategy", str(self.strategy), *shared]
        arguments = ["topics", command, self.source, *options, "-b", self.kafka.bootstrap, *more]
        done = CliRunner().invoke(app, arguments)
        return Result(done.exit_code, done.stdout, done.stderr)

    def names(self) -> list[str]:
        letters = f"{self.source}.dlq"
        retry = [f"{self.prefix}.{delay}" for delay in ("5m", "30m", "1h")]
        shared = [f"{self.source}.journal", f"{self.source}.control"]
        return [*retry, letters, f"{letters}.resolved", *shared]

    def problems(self) -> dict[str, list[tuple[str, str]]]:
        """Of each topic with problems their rules and severities."""
        return {
            one["topic"]: [(each["rule"], each["severity"]) for each in one["problems"]]
            for one in self.run("check", "--json").objects
            if one["problems"]
        }


@pytest.fixture
def scene(kafka: RealKafka, tmp_path: Path) -> _Scene:
    return _Scene(kafka, tmp_path)


def test_a_plan_lists_every_topic(scene: _Scene) -> None:
    """And the permissions of both groups; nothing is created."""
    planned = scene.run("plan", "--json")
    assert (0, "") == (planned.code, planned.err)
    topics = [one for one in planned.objects if one["kind"] == "topic"]
    assert scene.names() == [one["topic"] for one in topics]
    assert [False] * 7 == [one["exists"] for one in topics]
    assert [3, 3, 3, 3, 3, 1, 1] == [one["partitions"] for one in topics]
    assert "2016384" == topics[0]["settings"]["max.message.bytes"]
    groups = {one["group"] for one in planned.objects if one["kind"] == "acl"}
    assert {"billing", "billing.retry", None} == groups
    again = scene.run("plan")
    assert "missing" in again.out
    assert ["topic", "purpose", "state", "partitions", "replicas"] == again.rows[0]


def test_what_is_created_is_right(scene: _Scene) -> None:
    """The check finds every topic missing before, and nothing afterwards."""
    before = scene.problems()
    assert scene.names() == list(before)
    assert 1 == scene.run("check").code
    made = scene.run("create", "--json")
    assert (0, "") == (made.code, made.err)
    assert [(name, "created") for name in scene.names()] == [
        (one["topic"], one["outcome"]) for one in made.objects
    ]
    checked = scene.run("check")
    assert (0, "") == (checked.code, checked.out)
    assert "7 topics checked: 0 errors, 0 warnings\n" == checked.err


def test_created_twice(scene: _Scene) -> None:
    """What is there is left as it is, be it wrong, and what is missing is added."""
    wrong = f"{scene.prefix}.5m"
    scene.kafka.create_topic(wrong, 1)
    assert 0 == scene.run("create").code
    again = scene.run("create")
    assert 0 == again.code
    assert [f"{name}: exists, unchanged" for name in scene.names()] == again.out.splitlines()
    (found,) = Topics({"bootstrap.servers": scene.kafka.bootstrap}).describe([wrong]).values()
    assert found is not None
    assert (1, False) == (found.partitions, found.stamps_by_broker)


def test_each_fault_is_named(scene: _Scene) -> None:
    """Too few partitions, the writers' clocks, retention, compaction: each with its rule."""
    assert 0 == scene.run("create").code
    scene.write_strategy(["5m", "30m", "1h", "2h", "3h", "4h"])
    scene.kafka.create_topic(f"{scene.prefix}.2h", 1, {"message.timestamp.type": "LogAppendTime"})
    short = {"message.timestamp.type": "LogAppendTime", "retention.ms": "3600000"}
    scene.kafka.create_topic(f"{scene.prefix}.3h", 3, short)
    scene.kafka.create_topic(f"{scene.prefix}.4h", 3, {"cleanup.policy": "compact"})
    problems = scene.problems()
    assert {
        f"{scene.prefix}.2h": ["partitions", "size", "retention"],
        f"{scene.prefix}.3h": ["size", "retention"],
        f"{scene.prefix}.4h": ["compaction", "size", "timestamps"],
    } == {topic: [rule for rule, _ in found] for topic, found in problems.items()}
    checked = scene.run("check")
    assert 1 == checked.code
    assert "retention.ms=3600000 (1h) is no longer than the delay, 3h" in checked.out


def test_topics_that_no_delay_uses(scene: _Scene) -> None:
    """Those are named with the records that the retry line has not come to."""
    assert 0 == scene.run("create").code
    scene.write_strategy(["5m"])
    left = f"{scene.prefix}.1h"
    scene.kafka.produce(left, [(n % 3, None, b"waits", []) for n in range(5)])
    scene.kafka.commit("billing.retry", left, {0: 2})
    checked = scene.run("check")
    assert 0 == checked.code
    empty, some = sorted(checked.out.splitlines(), key=len)
    assert f"{scene.prefix}.30m: no delay of the strategy uses this topic, and it is empty" in empty
    assert f"{left}: no delay of the strategy uses this topic, but 3 records in it have" in some


def _waiting(offset: int, group: str) -> list[tuple[str, bytes | None]]:
    hop = Hop("orders.retry.5m", 1, "s@1", 1_000)
    failure = FailureInfo(group, "transient", 1, 5, 6, "s@1", hop=hop)
    return to_dead_letter(Record("orders", 0, offset, 1, b"k", b"v"), failure).headers()


def _status(scene: _Scene, prefix: str, *more: str) -> Result:
    arguments = ["topics", "status", prefix, "--group", "billing", "-b", scene.kafka.bootstrap]
    done = CliRunner().invoke(app, [*arguments, *more])
    return Result(done.exit_code, done.stdout, done.stderr)


def test_the_topic_of_a_scheduler(scene: _Scene) -> None:
    """It takes the place of retry topics; what would lose the only copies of records is found."""
    shared = ["--no-journal", "--no-control", "-b", scene.kafka.bootstrap]
    later = f"{scene.source}.later"

    def run(command: str, *more: str) -> Result:
        wanted = [scene.source, "--group", "billing", "--scheduler", later]
        done = CliRunner().invoke(app, ["topics", command, *wanted, *shared, *more])
        return Result(done.exit_code, done.stdout, done.stderr)

    planned = run("plan", "--json").objects
    first = next(one for one in planned if one["kind"] == "topic")
    assert (later, "scheduler", 3) == (first["topic"], first["purpose"], first["partitions"])
    granted = {(one["group"], one["resource"], one["name"]) for one in planned if "group" in one}
    line = f"{later}.scheduler"
    assert {
        ("billing", "Topic", later),
        (line, "Topic", later),
        (line, "Group", line),
        (line, "Topic", scene.source),
        (line, "TransactionalId", "linear-retry-"),
    } < granted
    assert f"{later}: created, 3 partitions" in run("create").out
    assert (0, "") == (run("check").code, run("check").out)
    wrong = {"cleanup.policy": "compact,delete", "retention.ms": "86400000"}
    later = f"{scene.source}.wrong"
    scene.kafka.create_topic(later, 3, wrong | {"retention.bytes": "1000000"})
    (found,) = [one for one in run("check", "--json").objects if one["purpose"] == "scheduler"]
    assert [
        ("compaction", "error"),
        ("size", "error"),
        ("retention", "error"),
        ("retention", "warning"),
    ] == [(each["rule"], each["severity"]) for each in found["problems"]]


def test_messages_that_are_out(scene: _Scene) -> None:
    """What the retry line has not committed, and until when; not what other groups retry."""
    assert 0 == scene.run("create").code
    topic = f"{scene.prefix}.5m"
    waits = [(n % 3, b"k", b"v", _waiting(n, "billing")) for n in range(5)]
    scene.kafka.produce(topic, [*waits, (1, b"k", b"v", _waiting(9, "audit"))])
    scene.kafka.commit("billing.retry", topic, {0: 1})
    before_ms = now_ms()
    shown = _status(scene, scene.prefix, "--json")
    assert 0 == shown.code
    assert "group billing.retry has no members: nothing is retried" in shown.err
    names = [f"{scene.prefix}.{delay}" for delay in ("5m", "30m", "1h")]
    assert names == [one["topic"] for one in shown.objects]
    out, *others = shown.objects
    assert (300_000, 4, 0) == (out["delay_ms"], out["out"], out["due"])
    assert before_ms + 200_000 < out["first_due_ms"] <= out["last_due_ms"] < before_ms + 300_000
    assert [(0, None)] * 2 == [(one["out"], one["last_due_ms"]) for one in others]
    lines = _status(scene, scene.prefix).rows
    assert [topic, "5m", "4", "0"] == lines[1][:4]


def test_messages_that_are_out_in_one_topic(scene: _Scene) -> None:
    """Its name has no delay: they are due when their headers say so."""
    scene.kafka.create_topic(scene.prefix)
    scene.kafka.produce(scene.prefix, [(0, b"k", b"v", _waiting(1, "billing"))])
    (out,) = _status(scene, scene.prefix, "--json").objects
    assert (None, 1, 1, 1_000) == tuple(
        out[name] for name in ("delay_ms", "out", "due", "first_due_ms")
    )


def test_whether_a_retry_line_runs_is_not_known(scene: _Scene) -> None:
    """The brokers list no such group: it never ran, or may not be described. It was said to have
    no members, as if they had answered."""
    assert 0 == scene.run("create").code
    shown = _status(scene, scene.prefix, "--group", f"audit-{scene.prefix}")
    assert 0 == shown.code
    assert "has members is not known" in shown.err


def test_the_status_of_no_topic(scene: _Scene) -> None:
    """A wrong prefix is no empty table."""
    shown = _status(scene, "nowhere")
    assert (3, "") == (shown.code, shown.out)
    assert "nor one with a delay after it, such as nowhere.5m" in shown.err


def test_a_source_that_is_missing(scene: _Scene) -> None:
    """Its partitions are not known, so nothing is planned, and nothing created."""
    scene.source = "nowhere"
    for command in ("plan", "create", "check"):
        done = scene.run(command)
        assert (3, "") == (done.code, done.out)
        assert "no such topic: nowhere" in done.err


def test_one_that_cannot_be_created(scene: _Scene) -> None:
    """The others are created all the same, and it is reported with the broker's reason."""
    scene.kafka.create_topic(f"{scene.source}_dlq")
    planned = scene.run("plan")
    assert f"{scene.source}.dlq: brokers do not create it beside {scene.source}_dlq" in planned.err
    made = scene.run("create")
    assert 3 == made.code
    assert 6 == made.out.count(": created, ")
    assert f"creating topic '{scene.source}.dlq' is refused" in made.err
    assert "1 topic of 7 not created" in made.err
