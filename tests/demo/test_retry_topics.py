"""`linear-retry demo --retry-topics` ends with a proof that holds, or with one sentence."""

import json
import re
import signal
import subprocess

import pytest
from confluent_kafka.admin import AdminClient

from tests.demo.test_demo import COMMAND, ran
from tests.patience import PATIENCE_S
from tests.real_kafka import RealKafka

_LETTERS = 4


def test_the_demo_on_its_own_broker_proves_itself() -> None:
    """Plain lines in a pipe: orders leave, come back and are dead-lettered; no claim fails."""
    ended = ran("--retry-topics")
    assert (0, "") == (ended.returncode, ended.stderr)
    assert 6 == ended.stdout.count("OK")
    assert _LETTERS == ended.stdout.count("s  dead letter: ")
    assert 2 == ended.stdout.count("dead letter after retry #6")
    assert "paid by retry #" in ended.stdout
    assert "docs/guides/retry-off-the-line.md" in ended.stdout.splitlines()[-1]
    assert "\x1b" not in ended.stdout


@pytest.mark.broker
def test_the_demo_on_a_real_cluster_leaves_nothing_behind(kafka: RealKafka) -> None:
    """As JSON; the topics have LogAppendTime, and they and both groups are gone afterwards."""
    ended = ran("--retry-topics", "--bootstrap", kafka.bootstrap, "--json")
    assert (0, "") == (ended.returncode, ended.stderr)
    *events, proof = (json.loads(line) for line in ended.stdout.splitlines())
    assert [] == [verdict for verdict in proof["proof"] if not verdict["holds"]]
    assert _LETTERS == sum(event["event"] == "DeadLettered" for event in events)
    admin = AdminClient(kafka.client_settings())
    groups = admin.list_consumer_groups().result().valid
    left = {*admin.list_topics(timeout=PATIENCE_S).topics, *(group.group_id for group in groups)}
    assert set() == {name for name in left if name.startswith("linear-retry-demo")}


def test_ctrl_c_ends_both_lines_with_a_message() -> None:
    """While orders wait in the retry topics."""
    with subprocess.Popen(
        [*COMMAND, "--retry-topics", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdout is not None
        for line in child.stdout:
            if json.loads(line)["event"] == "SentToRetry":
                break
        child.send_signal(signal.SIGINT)
        _, errors = child.communicate(timeout=PATIENCE_S)
    assert 130 == child.returncode
    assert re.fullmatch(r"interrupted: \d+ of 400 orders were done\n", errors)
