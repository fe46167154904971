"""What waits in the store goes to a dead-letter topic, which then has all of it."""

import signal
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from threading import Event

import pytest
from typer.testing import CliRunner

from linear_retry import BrokerError, UsageError
from linear_retry.cli import app
from linear_retry.records.dead_letter import FailureInfo, parse, to_dead_letter
from linear_retry.records.lineage import Hop, Line, foreign_group, lineage_of
from linear_retry.records.record import Record
from linear_retry.records.retry_headers import HEADER_NAMES
from linear_retry.records.text import Header
from linear_retry.scheduler.drain import drain
from linear_retry.store import audit, dead_letters, messages
from linear_retry.store.database import Database
from linear_retry.store.lanes import LEASES
from linear_retry.store.sender.leases import Leases
from tests.conftest import TopicFactory
from tests.kafka_operations import wait_until
from tests.real_kafka import RealKafka
from tests.scenarios.process import Process
from tests.scheduler.running import counts, records
from tests.store.contents import new_dead_letter, new_message
from tests.store.sender.struck.child import Role
from tests.torture.struck.moments import Blow

pytestmark = pytest.mark.broker


def _retry(retry_id: bytes) -> tuple[Header, ...]:
    """The headers of a message that a consumer sent to the scheduler."""
    record = Record("orders", 3, 7, 1_767_225_600_000, b"key", b"value", (("trace", retry_id),))
    failure = FailureInfo(
        *("billing", "transient", 2, 1_767_225_600_000, 1_767_225_601_000, "retries@1"),
        hop=Hop("billing.scheduled", 1, "retries@1", 2**41),
    )
    return tuple(to_dead_letter(record, failure, lineage_of(record, Line("billing"))).headers())


def test_all_of_it_is_there(kafka: RealKafka, topic: TopicFactory, database: Database) -> None:
    """Due or not, each once: with its history where it has one, and by key where it has none.

    The time when it was due was lost."""
    letters = topic(2)
    with database.begin() as connection:
        ours = new_message(headers=_retry(b"1"), due_ms=2**41)
        foreign = new_message(slot="key-3", headers=(("retry-destination", b"orders"),))
        by_key_due_ms = foreign.due_ms
        many = [new_message(retry_id=f"{n}", value=None) for n in range(600)]
        messages.add(database, connection, [ours, foreign, *many])
        messages.add(database, connection, [new_message(service="outbox")])
    assert 602 == drain(database, kafka.client_settings(), "scheduler", letters)
    assert (1, 0) == counts(database)
    found = {
        letter.retry_id: letter
        for each in records(kafka, letters)
        for letter in (parse(each.headers, each.key, each.value),)
    }
    assert 602 == len(found)
    history = found["billing/orders/3/7/bceac9f871e1"]
    assert ("drained", "billing", 1, 2, 3) == (
        *(history.reason, history.group_id, history.step, history.failures),
        history.original_partition,
    )
    assert (("trace", b"1"),) == history.original_headers
    by_key = found["billing/orders/0/1"]
    assert ("orders", 2**31 - 1, 2**63 - 1) == (
        *(by_key.destination, by_key.original_partition),
        by_key.original_offset,
    )
    assert not {name for name, _ in by_key.original_headers} & HEADER_NAMES
    assert (2**41, by_key_due_ms) == (history.retry_at_ms, by_key.retry_at_ms)


def test_one_that_is_too_large_stays(
    kafka: RealKafka, topic: TopicFactory, database: Database
) -> None:
    """The store may have the only copy, so no reference is sent: the error says what to raise."""
    letters = topic(1, {"max.message.bytes": "10000"})
    with database.begin() as connection:
        messages.add(database, connection, [new_message(value=b"x" * 20_000)])
    with pytest.raises(BrokerError, match=r"takes no record so large: .*max\.message\.bytes"):
        drain(database, kafka.client_settings(), "scheduler", letters)
    assert (1, 0) == counts(database)


def test_what_is_replayed_goes_where_it_was_to_go(
    kafka: RealKafka, topic: TopicFactory, database: Database
) -> None:
    """By its key, where it named no partition: a replay refused the one that no topic has."""
    letters, destination = topic(), topic(3)
    with database.begin() as connection:
        by_key = new_message(destination=destination, slot="key-3", key=b"order-17")
        other = replace(by_key, slot="1", key=b"other")
        messages.add(database, connection, [by_key, by_key, other])
    assert 3 == drain(database, kafka.client_settings(), "scheduler", letters)
    command = ["dlq", "replay", letters, "-b", kafka.bootstrap, "--yes"]
    done = CliRunner().invoke(app, command)
    assert 0 == done.exit_code, done.output
    replayed = records(kafka, destination)
    found = [(each.key, each.partition) for each in replayed]
    assert [(b"order-17", 0)] * 2 + [(b"other", 1)] == sorted(found)
    # The place of another message in its headers would make it a duplicate of that.
    sent = {name for each in replayed for name, _ in each.headers if name.startswith("retry-")}
    assert {"retry-id", "retry-replay-id", "retry-replay-count"} == sent
    assert "group" == lineage_of(replayed[0], Line("group")).retry_id.partition("/")[0]
    assert foreign_group(replayed[0], Line("group")) is None


@contextmanager
def _living(leases: Leases) -> Iterator[set[int]]:
    """Keeps them, as an instance does, and gives them back; yields how many it has had."""
    leases.keep()
    ended, counts = Event(), {len(leases.numbers)}

    def keep() -> None:
        while not ended.wait(0.1):
            leases.keep()
            counts.add(len(leases.numbers))

    with ThreadPoolExecutor(1) as pool:
        keeping = pool.submit(keep)
        try:
            yield counts
        finally:
            ended.set()
        keeping.result()
    leases.give_back()


def test_not_beside_a_sender(kafka: RealKafka, topic: TopicFactory, database: Database) -> None:
    """What an instance may be sending is not dead-lettered, and it is not disturbed; one that was
    killed is waited for."""
    letters = topic()
    with database.begin() as connection:
        messages.add(database, connection, [new_message()])
    config = kafka.client_settings()
    with (
        _living(Leases(database, "scheduler", str(uuid.uuid4()), 1000)) as held,
        pytest.raises(UsageError, match="another process sends its messages"),
    ):
        drain(database, config, "scheduler", letters, lease_s=1)
    assert {LEASES} == held
    killed = Leases(database, "scheduler", str(uuid.uuid4()), 1000)
    killed.keep()
    assert 1 == drain(database, config, "scheduler", letters, lease_s=1)


def test_a_suspended_sender_is_fenced(
    kafka: RealKafka, topic: TopicFactory, database: Database, store_url: str, tmp_path: Path
) -> None:
    """Woken up in the middle of its batch it sends nothing of that: all of it is dead-lettered."""
    destination, letters, struck = topic(), topic(), tmp_path / "struck"
    with database.begin() as connection:
        added = [new_message(destination=destination, retry_id=f"{n}") for n in range(100)]
        messages.add(database, connection, added)
    blow = Blow("before commit_transaction", str(struck), "", 1, signal.SIGSTOP)
    role = Role(store_url, kafka.client_settings(), asdict(blow))
    child = "tests.store.sender.struck.child"
    sender = Process(role, tmp_path / "stderr", lambda: None, child)
    wait_until(struck.exists, "it is suspended", sender.stderr)
    assert 100 == drain(database, kafka.client_settings(), "scheduler", letters, lease_s=1)
    sender.signal(signal.SIGCONT)
    with database.begin() as connection:
        last = new_message(destination=destination, retry_id="last", timestamp_ms=None)
        messages.add(database, connection, [last])
    wait_until(lambda: records(kafka, destination), "it sends again", sender.stderr)
    sender.signal(signal.SIGTERM)
    assert 0 == sender.exit_code()
    assert (1, 100) == (len(records(kafka, destination)), len(records(kafka, letters)))


def test_the_command(kafka: RealKafka, topic: TopicFactory, store_url: str) -> None:
    """A dry run counts; --yes does it, and the audit has it; a topic that is missing is said, and
    so are the dead letters that stay in the store."""
    letters, database = topic(), Database(store_url)
    with database.begin() as connection:
        messages.add(database, connection, [new_message(), new_message()])
        dead_letters.add(database, connection, [new_dead_letter()])
    left = "not sent: 1 dead letter in the store; see list --dead\n"

    def run(to: str, *more: str) -> tuple[int, str]:
        arguments = ["scheduler", "drain", "--to", to, "-b", kafka.bootstrap, *more]
        done = CliRunner(env={"LINEAR_RETRY_STORE": store_url}).invoke(app, arguments)
        return done.exit_code, done.output

    assert (0, f"would send to {letters}: 2 messages; do it with --yes\n{left}") == run(letters)
    assert 3 == run("nowhere", "--yes")[0]
    assert (2, 1) == counts(database)
    assert (0, f"sent to {letters}: 2 messages\n{left}") == run(letters, "--yes", "--by", "ops")
    with database.reading() as connection:
        (change,) = audit.read(connection, limit=9)
    assert ("ops", "drain", 2) == (change.actor, change.action, change.count)
    database.close()
