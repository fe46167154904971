"""A short soak ends, with all that a long one shows."""

import json
from pathlib import Path

import pytest

from tests.conftest import TopicFactory
from tests.real_kafka import RealKafka
from tests.soak.course import Course
from tests.soak.judgement import judged
from tests.soak.lines import LINES
from tests.soak.soak import PARTITIONS, Soak

pytestmark = pytest.mark.broker


def test_a_short_soak(kafka: RealKafka, topic: TopicFactory, tmp_path: Path) -> None:
    """Outages, poison, a kill, messages that leave and come back: every guarantee holds, and every
    line is flat."""
    orders, letters = topic(PARTITIONS), topic(PARTITIONS)
    course = Course(20.0, messages_per_s=60.0, poison_every=100, last_outage_s=6.0)
    soak = Soak(kafka, tmp_path, course, topic=orders, letters=letters)
    soak.run()
    judgement = judged(soak)
    assert [] == judgement.broken
    assert [] == [verdict for verdict in judgement.lines if not verdict.is_flat]
    counts = judgement.counts
    assert counts["produced"] == counts["done"] >= 20 * 60
    assert counts["kill"] == 1
    assert counts["openings"] > 0
    assert counts["SentToRetry"] > 0
    assert counts["DeadLettered"] >= counts["produced"] // 100
    reported = json.loads(json.dumps(judgement.to_json()))
    assert reported["good"]
    of_first = [line for line in reported["lines"] if line["member"] == "member-1"]
    assert [line.name for line in LINES] == [line["line"] for line in of_first]
    assert all(line["points"] for line in of_first)
    # A busy machine may have looked too seldom at one of them to say how it goes.
    assert any(line["growth"] is not None for line in of_first)


def test_a_short_soak_by_key(kafka: RealKafka, topic: TopicFactory, tmp_path: Path) -> None:
    """One key of a hundred fails until the end, and more waits behind it than there is room for:
    the others are handled meanwhile, and it is in its order. No line is looked at: a second client,
    with its threads and files, comes in the midst of it."""
    orders, letters = topic(PARTITIONS), topic(PARTITIONS)
    course = Course(12.0, messages_per_s=300.0, poison_every=200)
    soak = Soak(kafka, tmp_path, course, topic=orders, letters=letters, scope="key")
    soak.run()
    judgement = judged(soak)
    assert [] == judgement.broken
    counts = judgement.counts
    assert counts["produced"] == counts["done"] >= 12 * 300
    assert counts["kill"] == 1
    assert counts["openings"] > 0
    assert counts["DeadLettered"] >= counts["produced"] // 200


def test_the_same_seed_fails_at_the_same_times() -> None:
    """What happens when is drawn before it begins; everything is repaired at the end."""
    happenings = Course(600.0, seed=7).happenings()
    assert happenings == Course(600.0, seed=7).happenings()
    assert happenings != Course(600.0, seed=8).happenings()
    assert {"outage", "repaired", "kill"} == {what for _, what in happenings}
    assert (600.0, "repaired") == happenings[-1]
    assert all(at_s <= 600 for at_s, _ in happenings)
