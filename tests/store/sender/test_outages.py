"""The store or the brokers go away and come back: the sender waits, and sends each message once."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from sqlalchemy import make_url

from linear_retry.errors import StoreError
from linear_retry.store.database import Database
from linear_retry.store.lanes import lease_of
from linear_retry.store.migrations import migrate
from linear_retry.store.sender.progress import Resumed, Sent, Waiting, log_progress
from linear_retry.store.sender.sender import Sender
from tests.conftest import TopicFactory
from tests.kafka_operations import wait_until
from tests.patience import PATIENCE_S
from tests.postgres import Postgres
from tests.real_kafka import RealKafka
from tests.store.sender.scene import Scene

pytestmark = pytest.mark.broker

_TIMEOUT_MS = 2_000
_LATE_S = 30
_SHORT = dict.fromkeys(
    ("transaction.timeout.ms", "message.timeout.ms", "socket.timeout.ms"), _TIMEOUT_MS
)


def _impatient(config: dict[str, Any]) -> Producer:
    """A producer whose transactions end sooner."""
    is_transactional = "transactional.id" in config
    return Producer(config | (_SHORT if is_transactional else {}))


@contextmanager
def _running(sender: Sender) -> Iterator[threading.Event]:
    stop, errors = threading.Event(), list[BaseException]()

    def run() -> None:
        try:
            sender.run(stop)
        except BaseException as error:  # noqa: BLE001  (raised by the test's own thread)
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield stop
    finally:
        stop.set()
        thread.join(PATIENCE_S)
    assert not thread.is_alive()
    assert [] == errors


def test_the_store_goes_away_amid_sending(kafka: RealKafka, topic: TopicFactory) -> None:
    """What was acknowledged is deleted once it is back, and not sent again."""
    name, count = topic(4), 12_000
    with Postgres() as postgres:
        database = Database(postgres.url)
        migrate(database)
        scene = Scene(kafka, database)
        scene.add_numbers(name, range(count), partitions=4)
        with _running(scene.sender()):
            wait_until(lambda: any(isinstance(each, Sent) for each in scene.told), "some are sent")
            postgres.stop()
            wait_until(lambda: _waits_for("store", scene), "it says that it waits")
            postgres.start()
            wait_until(lambda: scene.waiting() == 0, "all are sent", lambda: scene.told[-9:])
            wait_until(
                lambda: Resumed("scheduler", "store") in scene.told, "it says that it goes on"
            )
        assert 1 == sum(isinstance(each, Waiting) for each in scene.told)
        values = scene.values(name, count)
        assert sorted(values, key=lambda value: int(value or b"")) == [
            b"%d" % number for number in range(count)
        ]
        database.close()


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
def test_the_brokers_are_away_for_longer_than_a_transaction_lasts(
    own_kafka: RealKafka, database: Database
) -> None:
    """No lane is held for it; afterwards all is sent in order, each message once."""
    name, count = "orders", 12_000
    own_kafka.create_topic(name, 4)
    scene = Scene(own_kafka, database)
    scene.add_numbers(name, range(count), partitions=4)
    with _running(scene.sender(producer=_impatient)):
        wait_until(lambda: any(isinstance(each, Sent) for each in scene.told), "some are sent")
        own_kafka.kill()
        killed_s = time.monotonic()
        wait_until(lambda: _waits_for("brokers", scene), "it says that it waits")
        wait_until(lambda: time.monotonic() > killed_s + 2 * _TIMEOUT_MS / 1000, "it is too late")
        own_kafka.start()
        wait_until(lambda: scene.waiting() == 0, "all are sent", lambda: scene.told[-9:])
    values = [int(value or b"") for value in scene.values(name, count)]
    assert [list(range(each, count, 4)) for each in range(4)] == [
        [number for number in values if number % 4 == each] for each in range(4)
    ]
    kinds = {type(each).__name__ for each in scene.told}
    assert {"LeasesTaken", "Sent", "Waiting", "Resumed"} == kinds


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
def test_it_stops_soon_while_brokers_are_away(own_kafka: RealKafka, database: Database) -> None:
    """Whoever ends the service need not wait for them."""
    own_kafka.create_topic("orders")
    scene = Scene(own_kafka, database)
    scene.add_numbers("orders", range(100))
    patient = dict.fromkeys(_SHORT, 300_000)  # the most that librdkafka takes
    config = own_kafka.client_settings(**patient)
    with _running(scene.sender(config=config)) as stop:
        wait_until(lambda: scene.waiting() == 0, "all are sent")
        own_kafka.kill()
        scene.add_numbers("orders", range(100, 200))
        wait_until(lambda: scene.shares() == [8], "it has its leases")
        stop.set()
    assert 100 == scene.waiting()


class _Stalled:
    """A real producer; the one with this transactional id gets no answer to a commit for a time."""

    def __init__(self, config: dict[str, Any], suffix: str, answered: threading.Event) -> None:
        self._producer, self._answered = Producer(config), answered
        self._is_stalled = str(config.get("transactional.id")).endswith(suffix)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._producer, name)

    def commit_transaction(self, timeout_s: float) -> None:
        if self._is_stalled and not self._answered.wait(timeout_s):
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "no answer", False, True))
        self._producer.commit_transaction(timeout_s)


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
def test_a_destination_that_does_not_answer_keeps_only_its_lease_waiting(
    kafka: RealKafka, topic: TopicFactory, database: Database
) -> None:
    """Such as one with too few replicas: the other leases' lanes are sent meanwhile."""
    name, answered = topic(8), threading.Event()
    scene = Scene(kafka, database)
    stalled = _lease(name, 0)
    waiting = {each for each in range(8) if _lease(name, each) == stalled}
    scene.add_numbers(name, range(80), partitions=8)
    sender = scene.sender(producer=lambda config: _Stalled(config, f"-{stalled}", answered))
    with _running(sender):
        wait_until(lambda: scene.waiting() == 10 * len(waiting), "the others are sent")
        scene.add_numbers(name, range(80, 160), partitions=8)
        wait_until(lambda: scene.waiting() == 20 * len(waiting), "the others are sent again")
        answered.set()
        wait_until(lambda: scene.waiting() == 0, "all are sent")
    values = [int(value or b"") for value in scene.values(name, 160)]
    assert [list(range(each, 160, 8)) for each in range(8)] == [
        [number for number in values if number % 8 == each] for each in range(8)
    ]
    assert {"LeasesTaken", "Sent"} == {type(each).__name__ for each in scene.told}


class _Unexpected:
    """A real producer; the one with this transactional id meets a defect once there is one."""

    def __init__(self, config: dict[str, Any], suffix: str, defect: threading.Event) -> None:
        self._producer, self._defect = Producer(config), defect
        self._is_struck = str(config.get("transactional.id")).endswith(suffix)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._producer, name)

    def begin_transaction(self) -> None:
        if self._is_struck and self._defect.is_set():
            raise RuntimeError("a defect")
        self._producer.begin_transaction()


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
def test_what_other_leases_have_sent_is_deleted_whatever_the_error_of_one(
    kafka: RealKafka, topic: TopicFactory, database: Database
) -> None:
    """It would be sent again, as often as the error comes."""
    name, defect = topic(8), threading.Event()
    scene = Scene(kafka, database)
    struck = _lease(name, 0)
    waiting = {each for each in range(8) if _lease(name, each) == struck}
    sender = scene.sender(producer=lambda config: _Unexpected(config, f"-{struck}", defect))
    scene.add_numbers(name, range(8), partitions=8)
    scene.send_all(sender)
    defect.set()
    scene.add_numbers(name, range(8, 16), partitions=8)
    with pytest.raises(RuntimeError, match="a defect"):
        wait_until(lambda: sender.step() < 0, "it fails")
    sender.close()
    assert len(waiting) == scene.waiting()
    assert 16 - len(waiting) == len(scene.values(name, 16 - len(waiting)))


class _Told:
    """A real producer that calls `then` once a transaction is committed."""

    def __init__(self, config: dict[str, Any], then: Callable[[], None]) -> None:
        self._producer, self._then = Producer(config), then

    def __getattr__(self, name: str) -> Any:
        return getattr(self._producer, name)

    def commit_transaction(self, timeout_s: float) -> None:
        self._producer.commit_transaction(timeout_s)
        self._then()


class _Late:
    """A real producer that is told only later that its transaction is committed."""

    def __init__(self, config: dict[str, Any], answered: threading.Event) -> None:
        self._producer, self._answered = Producer(config), answered

    def __getattr__(self, name: str) -> Any:
        return getattr(self._producer, name)

    def commit_transaction(self, timeout_s: float) -> None:
        self._producer.commit_transaction(timeout_s)
        self._answered.wait(_LATE_S)


def test_another_joins_while_a_batch_is_under_way(
    kafka: RealKafka, topic: TopicFactory, database: Database
) -> None:
    """It gets its share once what is under way is done: it would send those batches again."""
    name, answered = topic(8), threading.Event()
    scene = Scene(kafka, database)
    scene.add_numbers(name, range(80), partitions=8)
    length_s = 12.0  # longer than any step: what runs out meanwhile is sent again
    first = scene.sender(producer=lambda config: _Late(config, answered), lease_s=length_s)
    wait_until(lambda: first.step() >= 0 and scene.kafka.read(name), "it has sent")
    second = scene.sender(lease_s=length_s)
    looked_s = time.monotonic() + length_s / 2
    wait_until(
        lambda: first.step() + second.step() >= 0 and time.monotonic() > looked_s,
        "both have looked who is there",
    )
    answered.set()
    scene.send_all(first, second)
    wait_until(
        lambda: first.step() + second.step() >= 0 and scene.shares() == [4, 4], "it has its share"
    )
    assert 80 == len(scene.values(name, 80))
    scene.close()


@pytest.mark.parametrize("store_url", ["postgres"], indirect=True)
def test_a_lock_on_a_table_for_longer_than_a_lease(
    kafka: RealKafka, topic: TopicFactory, database: Database, store_url: str
) -> None:
    """Such as that of `CREATE INDEX`: the instance that stood by took the leases of the one that
    waited for it, and sent all of its batch once more."""
    name, locked, length_s = topic(8), threading.Event(), 8.0
    scene = Scene(kafka, database)
    scene.add_numbers(name, range(80), partitions=8)
    with psycopg.connect(make_url(store_url).render_as_string()) as other:

        def lock() -> None:
            if not locked.is_set():
                locked.set()
                other.execute("LOCK TABLE linear_retry_message IN SHARE MODE")

        first = scene.sender(producer=lambda config: _Told(config, lock), lease_s=length_s)
        with _running(first):
            wait_until(locked.is_set, "it has sent, and may not delete")
            with _running(scene.sender(lease_s=length_s)):
                wait_until(lambda: _waits_for("store", scene), "it says that it waits")
                held_s = time.monotonic() + 1.5 * length_s
                wait_until(lambda: time.monotonic() > held_s, "leases run out")
                other.commit()
                wait_until(lambda: scene.waiting() == 0, "all are settled")
                wait_until(lambda: scene.shares() == [4, 4], "both have their share")
    assert 80 == len(scene.values(name, 80))


@pytest.mark.parametrize("store_url", ["postgres"], indirect=True)
def test_a_lock_on_leases_holds_up_no_settlement(
    kafka: RealKafka, topic: TopicFactory, database: Database, store_url: str
) -> None:
    """What was sent waited with the leases, for as long as a statement may take: whoever got them
    first, once the lock was gone, sent it again."""
    name, answered = topic(8), threading.Event()
    scene = Scene(kafka, database)
    scene.add_numbers(name, range(80), partitions=8)
    sender = scene.sender(producer=lambda config: _Late(config, answered))
    wait_until(lambda: sender.step() >= 0 and len(scene.kafka.read(name)) == 80, "it has sent")
    with psycopg.connect(make_url(store_url).render_as_string()) as other:
        other.execute("LOCK TABLE linear_retry_lease")
        answered.set()
        for _ in range(60):  # each waits for half a lease
            with pytest.raises(StoreError, match="lock timeout"):
                sender.step()
            if scene.waiting() == 0:
                break
        assert 0 == scene.waiting()
    sender.close()
    assert 80 == len(scene.values(name, 80))


def test_progress_is_logged_without_keys_and_values(caplog: pytest.LogCaptureFixture) -> None:
    """One line when it waits; none for each batch."""
    caplog.set_level("INFO", "linear_retry")
    log_progress(Sent("scheduler", 1, 2))
    log_progress(Waiting("outbox", "brokers", "no broker answers"))
    (record,) = caplog.records
    assert "outbox: sending waits for the brokers: no broker answers" == record.getMessage()
    assert "WARNING" == record.levelname


def _lease(destination: str, partition: int) -> int:
    return lease_of("scheduler", destination, f"{partition}")


def _waits_for(away: str, scene: Scene) -> bool:
    return any(isinstance(each, Waiting) and each.away == away for each in scene.told)
