"""`linear-retry demo --scheduler` ends with a proof that holds, or with one sentence."""

import json

import pytest
from confluent_kafka.admin import AdminClient

from tests.demo.test_demo import ran
from tests.patience import PATIENCE_S
from tests.real_kafka import RealKafka


def test_the_demo_on_its_own_broker_proves_itself() -> None:
    """Plain lines in a pipe: orders wait in a database, come back, and none is left there."""
    ended = ran("--scheduler")
    assert (0, "") == (ended.returncode, ended.stderr)
    assert 7 == ended.stdout.count("OK")
    assert 2 == ended.stdout.count("dead letter after retry #6")
    assert "0 waiting, 0 refused" in ended.stdout
    assert "docs/guides/scheduler.md" in ended.stdout.splitlines()[-1]


@pytest.mark.broker
def test_the_demo_on_a_real_cluster_leaves_nothing_behind(kafka: RealKafka) -> None:
    """As JSON; its topics and both groups are gone afterwards."""
    ended = ran("--scheduler", "--bootstrap", kafka.bootstrap, "--json")
    assert (0, "") == (ended.returncode, ended.stderr)
    *_, proof = (json.loads(line) for line in ended.stdout.splitlines())
    assert [] == [verdict for verdict in proof["proof"] if not verdict["holds"]]
    admin = AdminClient(kafka.client_settings())
    groups = admin.list_consumer_groups().result().valid
    left = {*admin.list_topics(timeout=PATIENCE_S).topics, *(group.group_id for group in groups)}
    assert set() == {name for name in left if name.startswith("linear-retry-demo")}


def test_one_demo_at_a_time() -> None:
    """Two of them are refused before anything begins."""
    ended = ran("--scheduler", "--retry-topics")
    assert 2 == ended.returncode
    assert "give one of them alone" in ended.stderr
