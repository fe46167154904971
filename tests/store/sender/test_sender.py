"""What is due is sent in the order of its lane, and deleted; what is refused holds its own lane."""

import random
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from confluent_kafka import Producer

from linear_retry.errors import ConfigurationError
from linear_retry.store.lanes import lease_of
from linear_retry.store.sender.identity import claim_cluster
from linear_retry.store.sender.progress import (
    LaneHeld,
    LaneResumed,
    MessageDied,
    Sent,
)
from linear_retry.store.sender.settlement import until_it_works
from tests.conftest import TopicFactory
from tests.kafka_operations import wait_until
from tests.store.sender.scene import Scene, due_message

pytestmark = pytest.mark.broker


def _of_partition(values: list[bytes | None], partitions: int) -> list[list[int]]:
    numbers = [int(value or b"-1") for value in values]
    return [[n for n in numbers if n % partitions == each] for each in range(partitions)]


def test_lanes_are_sent_in_order_whoever_stores_at_the_same_time(
    scene: Scene, topic: TopicFactory
) -> None:
    """Each message once, in the order of the due times of its partition."""
    name, partitions = topic(4), 4
    numbers = list(range(2_000))
    parts = [numbers[n::5] for n in range(5)]
    for part in parts:
        random.shuffle(part)
    with ThreadPoolExecutor(5) as pool:
        list(pool.map(lambda part: scene.add_numbers(name, part, partitions=4), parts))
    scene.send_all(scene.sender())
    values = list(scene.values(name, len(numbers)))
    assert [numbers[n::4] for n in range(4)] == _of_partition(values, partitions)
    assert len(numbers) == sum(each.count for each in scene.told if isinstance(each, Sent))


def test_content_is_sent_byte_for_byte(scene: Scene, topic: TopicFactory) -> None:
    """Tombstones, null keys, binary headers, the timestamp, and the partition."""
    name, now_ms = topic(3), int(time.time() * 1000) - 5_000
    headers = (("a", b"\x00\xff"), ("a", None), ("", b""))
    common = {"destination": name, "slot": "2", "headers": headers, "timestamp_ms": now_ms}
    contents = [(None, None), (b"\x00\xff", None), (None, b""), (b"k", bytes(range(256)) * 3000)]
    scene.add(*(due_message(key=key, value=value, **common) for key, value in contents))
    scene.send_all(scene.sender())
    received = scene.received(name, len(contents))
    assert contents == [(each.key(), each.value()) for each in received]
    for each in received:
        assert (2, list(headers), now_ms) == (
            *(each.partition(), each.headers()),
            each.timestamp()[1],
        )


def test_two_senders_share_the_lanes(scene: Scene, topic: TopicFactory) -> None:
    """Half of the leases each; together they send each message once and in order."""
    name = topic(8)
    first, second = scene.sender(lease_s=15.0), scene.sender(lease_s=15.0)
    first.step()
    for start in range(0, 3_000, 300):
        scene.add_numbers(name, range(start, start + 300), partitions=8)
        first.step()
        second.step()

    def is_shared() -> bool:
        first.step()
        second.step()
        return scene.shares() == [4, 4]

    wait_until(is_shared, "each has its share", detail=scene.shares)
    scene.add_numbers(name, range(3_000, 4_000), partitions=8)
    scene.send_all(first, second)
    values = list(scene.values(name, 4_000))
    assert [list(range(n, 4_000, 8)) for n in range(8)] == _of_partition(values, 8)


def test_an_instance_that_closes_frees_its_leases(scene: Scene, topic: TopicFactory) -> None:
    """Another need not wait for the end of a lease."""
    name = topic()
    scene.add_numbers(name, [1])
    first = scene.sender(lease_s=3600)
    scene.send_all(first)
    first.close()
    scene.add_numbers(name, [2])
    scene.send_all(scene.sender())
    assert [b"1", b"2"] == scene.values(name, 2)


def test_nothing_is_sent_early(scene: Scene, topic: TopicFactory) -> None:
    """By the database's clock; a late step sends in the order of the due times."""
    name = topic()
    sender = scene.sender()
    with scene.database.reading() as connection:
        now_ms = scene.database.now_ms(connection)
    scene.add_numbers(name, [now_ms + 300, now_ms + 3_600_000, now_ms - 1])
    wait_until(lambda: sender.step() >= 0 and scene.waiting() == 1, "two are sent")
    assert scene.values(name, 2) == [b"%d" % (now_ms - 1), b"%d" % (now_ms + 300)]
    assert all(each.latest_ms >= 0 for each in scene.told if isinstance(each, Sent))


def test_a_lane_that_waits_has_its_producer(scene: Scene, topic: TopicFactory) -> None:
    """Its first message is not late by the time that a producer takes; other leases have none."""
    ids: list[str] = []

    def make(config: dict[str, Any]) -> Producer:
        ids.extend(value for key, value in config.items() if key == "transactional.id")
        return Producer(config)

    destination = topic()
    scene.add(due_message(destination=destination, due_ms=int(time.time() * 1000) + 3_600_000))
    sender = scene.sender(producer=make)
    assert 0 == sender.step()
    assert [str(lease_of("scheduler", destination, "0"))] == [each[-1] for each in ids]


def test_a_missing_destination_holds_its_own_lane(scene: Scene, topic: TopicFactory) -> None:
    """And goes on in order, once the topic is there."""
    missing, there = f"{topic()}-missing", topic()
    scene.add_numbers(missing, range(3))
    scene.add_numbers(there, range(3))
    sender = scene.sender(delays=lambda _: 0.2)

    def is_held() -> bool:
        sender.step()
        return scene.waiting() == 3 and any(isinstance(each, LaneHeld) for each in scene.told)

    wait_until(is_held, "one lane is held, and the other is sent")
    (held, *_) = [each for each in scene.told if isinstance(each, LaneHeld)]
    assert (missing, "0", 1, 0.2) == (held.destination, held.slot, held.failures, held.wait_s)
    assert "does not exist" in held.error
    scene.kafka.create_topic(missing)
    scene.send_all(sender)
    assert [b"0", b"1", b"2"] == scene.values(missing, 3) == scene.values(there, 3)
    assert [missing] == [each.destination for each in scene.told if isinstance(each, LaneResumed)]


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
def test_what_names_no_possible_topic_dies(scene: Scene, topic: TopicFactory) -> None:
    """Brokers answer to such a name as to no other missing one; all other lanes go on."""
    there = topic(8)
    scene.add(*(due_message(destination=each, retry_id="no") for each in ("orders ", "x" * 600)))
    scene.add_numbers(there, range(16), partitions=8)
    scene.send_all(scene.sender())
    assert 16 == len(scene.values(there, 16))
    assert [("no", "refused"), ("no", "refused")] == scene.dead()


def test_a_destination_is_deleted_and_made_again(scene: Scene, topic: TopicFactory) -> None:
    """While it is sent to: nothing is lost, and other lanes go on meanwhile."""
    deleted, other = topic(), topic()
    sender = scene.sender()
    scene.add_numbers(deleted, [1])
    scene.send_all(sender)
    scene.kafka.delete_topic(deleted)
    scene.add_numbers(deleted, [2, 3])
    scene.add_numbers(other, [2, 3])
    sender = scene.sender(delays=lambda _: 0.2)
    wait_until(lambda: sender.step() >= 0 and scene.waiting() == 2, "the other lane is sent")
    scene.kafka.create_topic(deleted)
    scene.send_all(sender)
    assert [b"2", b"3"] == scene.values(deleted, 2) == scene.values(other, 2)


def test_a_partition_that_its_topic_lacks_is_sent_by_key(scene: Scene, topic: TopicFactory) -> None:
    """A topic made again with fewer partitions, or a foreign record's mistake."""
    name = topic(2)
    scene.add(*(due_message(destination=name, slot="7", value=b"%d" % n) for n in range(5)))
    scene.send_all(scene.sender())
    assert [b"0", b"1", b"2", b"3", b"4"] == scene.values(name, 5)
    assert 1 == len({each.partition() for each in scene.kafka.read(name)})


def test_what_is_too_large_dies_and_its_lane_goes_on(scene: Scene, topic: TopicFactory) -> None:
    """What stands before it and after it is sent in order."""
    name = topic(1, {"max.message.bytes": "20000"})
    small = [due_message(destination=name, value=b"%d" % n) for n in range(4)]
    large = due_message(destination=name, value=bytes(1_000_000), retry_id="large")
    scene.add(*small[:2], large, *small[2:])
    scene.send_all(scene.sender())
    assert [b"0", b"1", b"2", b"3"] == scene.values(name, 4)
    assert [("large", "too-large")] == scene.dead()
    assert ["large"] == [each.retry_id for each in scene.told if isinstance(each, MessageDied)]


def test_a_topic_that_takes_only_small_batches(scene: Scene, topic: TopicFactory) -> None:
    """Messages that fit by themselves are no dead letters, however they were batched."""
    name = topic(1, {"max.message.bytes": "2000"})
    scene.add(*(due_message(destination=name, value=b"%d" % n * 900) for n in range(6)))
    scene.send_all(scene.sender())
    assert [b"%d" % n * 900 for n in range(6)] == scene.values(name, 6)
    assert [] == scene.dead()


def test_a_record_that_its_topic_never_accepts_dies(scene: Scene, topic: TopicFactory) -> None:
    """Such as one without a key for a compacted topic: its lane does not wait for ever."""
    name = topic(1, {"cleanup.policy": "compact"})
    keyless = due_message(destination=name, key=None, retry_id="keyless")
    scene.add(keyless, due_message(destination=name, value=b"1"))
    scene.send_all(scene.sender())
    assert [b"1"] == scene.values(name, 1)
    assert [("keyless", "refused")] == scene.dead()


def test_what_is_exhausted_is_a_dead_letter(scene: Scene, topic: TopicFactory) -> None:
    """One after another, as the delays say; then the lane is empty."""
    name = f"{topic()}-missing"
    scene.add_numbers(name, range(2))
    scene.send_all(scene.sender())
    assert [("id-0", "exhausted"), ("id-1", "exhausted")] == scene.dead()
    failures = [each.failures for each in scene.told if isinstance(each, LaneHeld)]
    assert [1, 2, 3, 1, 2, 3] == failures


def test_a_store_is_bound_to_one_cluster(scene: Scene) -> None:
    """Its messages are not sent to topics of the same names elsewhere."""
    with scene.database.begin() as connection:
        claim_cluster(scene.database, connection, "another")
    with pytest.raises(ConfigurationError, match="must be another, for which it was made"):
        scene.sender().step()


def test_the_delays_of_the_scheduler_never_end() -> None:
    """Up to a minute."""
    assert [1, 2, 5, 10, 30, 60, 60] == [until_it_works(n) for n in range(1, 8)]
