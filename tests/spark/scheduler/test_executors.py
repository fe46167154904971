"""The state is divided among executors, each of which sends what it has."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import TopicFactory
from tests.docs.markdown import ROOT
from tests.patience import PATIENCE_S
from tests.real_kafka import RealKafka
from tests.spark.scheduler.running import arrived, now_ms, request

pytestmark = [pytest.mark.broker, pytest.mark.long]

_COUNT = 200


def test_two_executors_share_the_work(
    kafka: RealKafka, topic: TopicFactory, tmp_path: Path
) -> None:
    """Each message arrives once and not early, those of a partition in the order of their times,
    and both executors have taken part."""
    intake, orders = topic(4), topic(2)
    command = (sys.executable, "-m", "tests.spark.scheduler.on_executors")
    where = (kafka.bootstrap, intake, topic(), str(tmp_path / "state"))
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [*command, *where], cwd=ROOT, stdin=pipe, stdout=pipe, text=True
    ) as child:
        assert child.stdout is not None
        assert "started\n" == child.stdout.readline()
        first_ms = now_ms() + 10_000
        kafka.produce(
            intake,
            (
                (
                    n % 4,
                    b"%d" % n,
                    b"value",
                    request(orders, first_ms + n * 7 % _COUNT, str(n), n % 2),
                )
                for n in range(_COUNT)
            ),
        )
        found = arrived(kafka, orders, _COUNT)
        output, _ = child.communicate("", timeout=PATIENCE_S)
    assert 0 == child.returncode
    assert all(each.timestamp_ms >= first_ms for each in found)
    for partition in range(2):
        ours = [dict(each.headers) for each in found if each.partition == partition]
        due_ms = [int(each["retry-at-ms"] or b"") for each in ours]
        assert _COUNT // 2 == len(due_ms)
        assert sorted(due_ms) == due_ms
    tasks = json.loads(output)
    assert {"driver", "0", "1"} == tasks.keys()
    assert min(tasks["0"], tasks["1"]) > 0
