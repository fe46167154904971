"""Health and lag on a real broker."""

import json
import threading
import time
import urllib.error
import urllib.request
from itertools import pairwise
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from linear_retry import LinearConsumer, PermanentError, events
from linear_retry.kafka import Message
from linear_retry.monitoring.health import serve
from tests.kafka_operations import wait_until
from tests.prometheus import free_port
from tests.real_kafka import RealKafka
from tests.scenarios.conftest import SceneFactory
from tests.scenarios.handlers import Dependency, OutageError, PoisonError
from tests.scenarios.protocols import KIP_848, each_protocol
from tests.scenarios.scene import Scene

pytestmark = pytest.mark.broker

_HOUR_S = 3600.0
_POLL_S = 3.0
_IMPATIENT = {"max.poll.interval.ms": int(_POLL_S * 1000)}
_SHORT_SESSION = {"session.timeout.ms": 1000}


def _ask(port: int, path: str) -> tuple[int, str]:
    """Status, and the state in the body."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return answer.status, json.load(answer)["state"]
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)["state"]


def _metrics(port: int) -> dict[str, set[tuple[str, ...]]]:
    """Name to the other labels than the group, of what is not 0."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        families = text_string_to_metric_families(answer.read().decode())
        found: dict[str, set[tuple[str, ...]]] = {}
        for sample in (sample for family in families for sample in family.samples if sample.value):
            labels = tuple(text for name, text in sample.labels.items() if name != "group")
            found.setdefault(sample.name, set()).add(labels)
        return found


def _brokers_lag(group: Scene, consumer: LinearConsumer) -> dict[tuple[str, int], int]:
    """End less committed, as other clients see it; of what the consumer has."""
    ends, committed = group.kafka.end_offsets(group.topic), group.committed()
    return {
        (group.topic, number): end - committed.get((group.topic, number), 0)
        for number, end in ends.items()
        if (group.topic, number) in consumer.lag()
    }


def _raise(error: Exception) -> Any:
    def handle(_: Message) -> None:
        raise error

    return handle


def test_four_that_stand_still(scene: SceneFactory) -> None:
    """One waits for a dependency, the handler of one hangs, one has ended, one is killed.

    Health and metrics distinguish them; of the killed one nothing answers. The one that waits is
    alive and ready over three times max.poll.interval.ms, takes over what the others had, and its
    lag is what the broker says.
    """
    group = scene(4, strategy=[_HOUR_S], config=_IMPATIENT | _SHORT_SESSION)
    hanging = threading.Event()
    # Else the one that is to hang may be given what the other waits for, and waits for it too.
    anew = {"remember_failures": False}
    members = {
        "open": group.join("open", _raise(OutageError("down")), **anew),
        "stuck": group.join("stuck", lambda _: hanging.wait(60), **anew),
        "dead": group.join("dead", _raise(PoisonError("bad")), on_permanent="stop"),
    }
    port = free_port()
    killed = group.spawn("killed", health_port=port)
    served = {name: serve(member.consumer, 0, "127.0.0.1") for name, member in members.items()}
    try:
        for name in members:
            wait_until(lambda: _has_one(group, members[name].consumer), f"{name} has a partition")  # noqa: B023
        group.wait_for(events.Assigned, member="killed")
        wait_until(lambda: (200, "consuming") == _ask(port, "/readyz"), "it was well")
        killed.kill()
        begun_s = time.monotonic()
        for number in range(4):
            group.produce(4, number)
        for name, member in members.items():
            wait_until(lambda: member.consumer.health().state == name, name, detail=group.story)  # noqa: B023
        waiting = members["open"].consumer
        wait_until(lambda: len(waiting.lag()) == 4, "it has what the others had")
        wait_until(lambda: time.monotonic() - begun_s > 3 * _POLL_S, "three times the interval")
        reported = {
            name: (_ask(one.port, "/livez"), _ask(one.port, "/readyz"))
            for name, one in served.items()
        }
        assert {
            "open": ((200, "open"), (200, "open")),
            "stuck": ((503, "stuck"), (503, "stuck")),
            "dead": ((503, "dead"), (503, "dead")),
        } == reported
        with pytest.raises(urllib.error.URLError):
            _ask(port, "/livez")
        seen = {name: _metrics(one.port) for name, one in served.items()}
        assert [{(name,)} for name in seen] == [one["linear_retry_state"] for one in seen.values()]
        for metric in ("linear_retry_ready", "linear_retry_open_circuits"):
            assert ["open"] == [name for name, one in seen.items() if metric in one]
        assert "OutageError" in (waiting.health().error or "")
        assert "the handler of" in members["stuck"].consumer.health().reason
        assert "PoisonError" in (members["dead"].consumer.health().error or "")
        assert {(group.topic, number): 4 for number in range(4)} == waiting.lag(10)
        assert _brokers_lag(group, waiting) == waiting.lag(10)
    finally:
        hanging.set()
        for one in served.values():
            one.close()
    with pytest.raises(PermanentError):
        members["dead"].result()


def _has_one(group: Scene, consumer: LinearConsumer) -> bool:
    return consumer.health().ready and len(consumer.lag()) == 1


@each_protocol
def test_a_member_without_a_partition_is_ready(
    scene: SceneFactory, protocol: dict[str, Any]
) -> None:
    """More members than partitions: the one that has none is a member all the same."""
    group = scene(1, config=protocol)
    members = [group.join(name, Dependency()).consumer for name in ("first", "second")]
    wait_until(lambda: all(one.health().ready for one in members), "both are ready")
    wait_until(lambda: sum(len(one.lag()) for one in members) == 1, "one has the partition")


def test_a_member_that_has_lost_its_group_is_not_ready(
    own_kafka: RealKafka, own_scene: SceneFactory
) -> None:
    """KIP-848: it polls, and nobody says that it is in no group; with the broker it is again.

    The broker is away as its handler is too slow: so it has left, and cannot join.
    """
    group = own_scene(1, config=KIP_848 | _IMPATIENT)
    hanging = threading.Event()
    consumer = group.join("first", lambda _: hanging.wait(60)).consumer
    wait_until(lambda: consumer.health().ready, "it has joined")
    group.produce(1)
    group.wait_for_attempts(1)
    own_kafka.kill()
    # librdkafka looks once a second, and must have left by itself.
    wait_until(lambda: (consumer.health().polled_s or 0) > 2 * _POLL_S, "it has left")
    hanging.set()
    wait_until(lambda: consumer.health().state != "stuck", "it polls again")
    assert {("starting", False)} == _over_polls(consumer, 3)
    own_kafka.start()
    wait_until(lambda: consumer.health().ready, "it is in its group again")


def _over_polls(consumer: LinearConsumer, count: int) -> set[tuple[str, bool]]:
    """State and readiness at each look, until it has polled so often."""
    seen: set[tuple[str, bool]] = set()
    ages_s = [0.0]

    def look() -> bool:
        health = consumer.health()
        seen.add((health.state, health.ready))
        ages_s.append(health.polled_s or 0.0)
        return count <= sum(now_s < before_s for before_s, now_s in pairwise(ages_s))

    wait_until(look, f"{count} polls")
    return seen
