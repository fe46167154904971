"""A message that Kafka refuses does not take its neighbours with it, nor the order."""

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from sqlalchemy import select

from linear_retry import Strategy
from linear_retry.errors import UsageError
from linear_retry.monitoring.outbox_metrics import OutboxMetrics
from linear_retry.outbox import Outbox
from linear_retry.scheduler.changes import Changes, Reason
from linear_retry.store import messages
from linear_retry.store.database import Database
from linear_retry.store.schema import dead_letter
from tests.conftest import TopicFactory
from tests.kafka_operations import wait_until
from tests.outbox.conftest import MakeOutbox
from tests.real_kafka import RealKafka


def _dead(database: Database) -> list[tuple[bytes | None, str]]:
    with database.reading() as connection:
        rows = connection.execute(select(dead_letter).order_by(dead_letter.c.id))
        return [(row.value, row.reason) for row in rows]


def test_what_was_sent_with_a_message_that_is_too_large_arrives_in_order(
    make_outbox: MakeOutbox,
    up: dict[str, Any],
    kafka: RealKafka,
    topic: TopicFactory,
    database: Database,
) -> None:
    """The broker refuses the whole batch; only the message beyond the topic's limit is dead."""
    name = topic(1, {"max.message.bytes": "2000"})
    large = b"x" * 5_000
    outbox = make_outbox(up, sender=True, on_refused="dead-letter")
    for number in range(50):
        outbox.produce(name, large if number == 20 else b"%d" % number, b"k")
    assert 0 == outbox.flush()
    small = [b"%d" % number for number in range(50) if number != 20]
    wait_until(lambda: len(kafka.read(name)) >= len(small), "the others are sent")
    assert small == list(dict.fromkeys(each.value() for each in kafka.read(name)))
    assert [(large, "too-large")] == _dead(database)


def _numbers(kafka: RealKafka, topic: str) -> list[bytes | None]:
    """The first two bytes of each value, without repetitions."""
    found = ((each.value() or b"")[:2] for each in kafka.read(topic))
    return list(dict.fromkeys(found))


def _held(outbox: Outbox, name: str) -> bool:
    return [name] == [each.destination for each in outbox.held_lanes]


def test_a_key_keeps_its_order_until_its_topic_takes_the_message(
    make_outbox: MakeOutbox, up: dict[str, Any], kafka: RealKafka, topic: TopicFactory
) -> None:
    """A message beyond the limit was dead at once, and the key's later ones overtook it; once the
    limit is raised, all of them are there, in order."""
    name = topic(1, {"max.message.bytes": "2000"})
    outbox = make_outbox(up, sender=True, strategy=Strategy([0.2]))
    values = [b"%02d" % number + (b"x" * 5_000 if number == 1 else b"") for number in range(4)]
    for value in values:
        outbox.produce(name, value, b"k")
    assert 0 == outbox.flush()
    wait_until(lambda: _held(outbox, name), "its lane is held", outbox.health)
    [lane] = outbox.held_lanes
    wait_until(lambda: outbox.held_lanes[0].failures > 3, "it is tried again", outbox.health)
    health = outbox.health()
    assert ("storing", True) == (health.state, health.ready)
    assert f"{name} (lane {lane.slot}): " in health.reason
    assert "MSG_SIZE_TOO_LARGE" in health.reason
    lanes_held = {each.name: each.samples for each in OutboxMetrics(outbox).collect()}
    assert [1] == [each.value for each in lanes_held["linear_retry_outbox_lanes_held"]]
    assert [b"00"] == _numbers(kafka, name)
    kafka.set_topic(name, {"max.message.bytes": "20000"})
    wait_until(lambda: len(_numbers(kafka, name)) == 4, "all are sent", outbox.health)
    assert values == list(dict.fromkeys(each.value() for each in kafka.read(name)))
    wait_until(lambda: outbox.health().state == "direct", "nothing is held", outbox.health)
    assert () == tuple(outbox.held_lanes)
    assert 0 == outbox.counts.dead


def _give_up(changes: Changes, number: int, _: Callable[[], object]) -> object:
    return changes.give_up([number], Reason("ann"))


def _edit(changes: Changes, number: int, _: Callable[[], object]) -> object:
    return changes.edit_message(number, {"value": b"01"}, Reason("ann"))


def _send(changes: Changes, number: int, raise_limit: Callable[[], object]) -> object:
    raise_limit()
    return changes.send_now([number], Reason("ann"))


@pytest.mark.parametrize(
    ("decide", "expected"),
    [
        (_give_up, [b"00", b"02", b"03"]),
        (_edit, [b"00", b"01", b"02", b"03"]),
        (_send, [b"00", b"01", b"02", b"03"]),
    ],
)
def test_an_operator_decides_about_a_held_message(
    make_outbox: MakeOutbox,
    up: dict[str, Any],
    kafka: RealKafka,
    topic: TopicFactory,
    database: Database,
    decide: Callable[[Changes, int, Callable[[], object]], object],
    expected: list[bytes],
) -> None:
    """Given up, the later ones are sent without it; edited, or sent once its topic takes it, in
    their order with it: at once, however long the wait. Meanwhile other lanes are sent."""
    name = topic(1, {"max.message.bytes": "2000"})
    outbox = make_outbox(up, sender=True, strategy=Strategy([3_600]))
    for number in range(4):
        value = b"%02d" % number + (b"x" * 5_000 if number == 1 else b"")
        outbox.produce(name, value, b"k")
        outbox.produce(name, b"other", b"another key")
    assert 0 == outbox.flush()
    wait_until(lambda: _held(outbox, name), "its lane is held", outbox.health)
    with database.reading() as connection:
        waiting = messages.waiting(connection, "outbox")
    head = next(each for each in waiting if each.key == b"k")
    assert b"01" == (head.value or b"")[:2]
    decide(
        Changes(database), head.id, lambda: kafka.set_topic(name, {"max.message.bytes": "20000"})
    )
    wait_until(lambda: b"03" in _numbers(kafka, name), "the later ones are sent", outbox.health)
    assert expected == [each for each in _numbers(kafka, name) if each != b"ot"]
    wait_until(lambda: outbox.health().state == "direct", "nothing is held", outbox.health)


def test_a_missing_topic_holds_up_no_other(
    make_outbox: MakeOutbox, up: dict[str, Any], kafka: RealKafka, topic: TopicFactory
) -> None:
    """Its messages wait as the strategy says, and are sent once it is there."""
    name = topic()
    missing = f"{name}-missing"
    waits = Strategy([{"every": 0.5, "times": 100}])
    settings = up | {"allow.auto.create.topics": False, "message.timeout.ms": 1_000}
    outbox = make_outbox(settings, sender=True, strategy=waits)
    outbox.produce(missing, b"1", b"k")
    outbox.produce(name, b"2", b"k")
    assert 0 == outbox.flush()
    wait_until(lambda: kafka.read(name), "the other topic's message is sent")
    kafka.create_topic(missing)
    wait_until(lambda: kafka.read(missing), "it is sent once its topic exists")
    assert [[b"1"], [b"2"]] == [
        [one.value() for one in kafka.read(each)] for each in (missing, name)
    ]


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
def test_a_name_that_no_topic_can_have_is_refused(
    make_outbox: MakeOutbox, down: dict[str, Any], database: Database
) -> None:
    """At once, where the mistake is: sent directly, stored, or in a transaction."""
    outbox = make_outbox(down)
    for wrong in ("orders ", "x" * 600, ""):
        for retry in (True, False):
            with pytest.raises(UsageError, match="no topic can have this name"):
                outbox.produce(wrong, b"1", retry=retry)
        with pytest.raises(UsageError, match="no topic can have this name"):
            outbox.add(None, wrong, b"1")
    assert 0 == outbox.flush()


def test_a_message_that_its_topic_never_takes_dies_alone(
    make_outbox: MakeOutbox,
    up: dict[str, Any],
    kafka: RealKafka,
    topic: TopicFactory,
    database: Database,
) -> None:
    """A compacted topic takes none without a key; those of other lanes were in the same batch."""
    name = topic(1, {"cleanup.policy": "compact"})
    outbox = make_outbox(up, sender=True)
    for number in range(30):
        outbox.produce(name, b"%d" % number, None if number == 7 else b"k%d" % number)
    assert 0 == outbox.flush()
    keyed = {b"%d" % number for number in range(30) if number != 7}
    wait_until(lambda: keyed == {each.value() for each in kafka.read(name)}, "all others")
    wait_until(lambda: outbox.health().state == "direct", "the store is empty")
    assert [(b"7", "refused")] == _dead(database)


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
def test_a_topic_that_is_deleted_and_made_again_gets_all_in_order(
    make_outbox: MakeOutbox, up: dict[str, Any], kafka: RealKafka, topic: TopicFactory
) -> None:
    """Those that were produced meanwhile, and those that come afterwards behind them."""
    name = topic()
    settings = up | {"allow.auto.create.topics": False, "message.timeout.ms": 1_000}
    outbox = make_outbox(settings, sender=True, strategy=Strategy([{"every": 0.5, "times": 100}]))
    outbox.produce(name, b"before", b"k")
    assert 0 == outbox.flush()
    kafka.delete_topic(name)
    admin = AdminClient(kafka.client_settings())
    wait_until(lambda: name not in admin.list_topics(timeout=5.0).topics, "it is gone")
    for number in range(20):
        outbox.produce(name, b"%d" % number, b"k")
    assert 0 == outbox.flush()
    wait_until(lambda: outbox.health().state == "storing", "they are stored", detail=outbox.health)
    kafka.create_topic(name)
    for number in range(20, 40):
        outbox.produce(name, b"%d" % number, b"k")
    assert 0 == outbox.flush()
    wait_until(lambda: len(kafka.read(name)) >= 40, "all are sent", outbox.health)
    values = [each.value() for each in kafka.read(name)]
    assert [b"%d" % number for number in range(40)] == list(dict.fromkeys(values))
