"""`linear-retry watch` on a real broker."""

import threading
from pathlib import Path
from typing import Any

import pytest

from linear_retry import Journal
from linear_retry.kafka import Message
from tests.cli.terminal import Piped
from tests.conftest import TopicFactory
from tests.kafka_operations import wait_until
from tests.real_kafka import RealKafka
from tests.scenarios.conftest import SceneFactory
from tests.scenarios.handlers import OutageError

pytestmark = pytest.mark.broker

_IMPATIENT = {"max.poll.interval.ms": 3000, "session.timeout.ms": 1000}


def _raise(_: Message) -> None:
    raise OutageError("the ledger is down")


def test_three_that_stand_still(
    kafka: RealKafka, scene: SceneFactory, topic: TopicFactory, tmp_path: Path
) -> None:
    """One waits: it is open, and takes over what the others had. One was killed, the handler of
    one hangs: neither can say so, and both are silent; `/readyz` tells which. The one that hung
    says so once it goes on; the killed one never."""
    group, journal = scene(3, strategy=[3600.0], config=_IMPATIENT), topic(2)
    hanging = threading.Event()
    arguments = ("--group", group.group, "--journal", journal, "--bootstrap", kafka.bootstrap)
    with Piped(tmp_path, "watch", *arguments, "--json") as watch:

        def now() -> dict[str, dict[str, Any]]:
            groups = [one for one in watch.objects if one["kind"] == "group"]
            return {one["member"]: one for group in groups[-1:] for one in group["members"]}

        def states() -> dict[str, str]:
            return {name: one["state"] for name, one in now().items()}

        killed = group.spawn("killed", config=_named("killed"), journals=[journal])
        hung = group.join(
            "hung", lambda _: hanging.wait(60), config=_named("hung"), listeners=[Journal(journal)]
        )
        group.join("open", _raise, config=_named("open"), listeners=[Journal(journal)])
        each = [1, 1, 1]
        wait_until(
            lambda: [len(one["partitions"]) for one in now().values()] == each, "one for each"
        )
        for number in range(3):
            group.produce(4, number)
        wait_until(lambda: states().get("open") == "open", "it is open", detail=group.story)
        killed.kill()
        try:
            silent = {"killed": "silent", "hung": "silent", "open": "open"}
            wait_until(lambda: states() == silent, "who has gone", 60.0, watch.said)
            assert "stuck" == hung.consumer.health().state
            assert {"open"} == {taken["by"] for taken in now()["killed"]["taken"]}
        finally:
            hanging.set()
        wait_until(lambda: states()["hung"] != "silent", "it goes on", 60.0)
        events = [one for one in watch.objects if one["kind"] == "event"]
        said = {one["event"] for one in events if one["member"] == "hung"}
        assert "HandlerTooSlow" in said
        assert ("silent", "open") == (states()["killed"], states()["open"])


def _named(name: str) -> dict[str, str]:
    """A static member: its name is the one that is shown."""
    return {"group.instance.id": name}
