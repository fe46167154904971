"""The layer: a consumer with an inbox and an outbox is killed again and again; another goes on."""

import json
import random
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from contextlib import closing
from dataclasses import asdict

from sqlalchemy import text

from linear_retry.store.database import Database
from linear_retry.store.migrations import migrate
from tests import dying_with_parent
from tests.kafka_operations import wait_until
from tests.patience import PATIENCE_S
from tests.postgres import Postgres
from tests.real_kafka import RealKafka
from tests.torture.inbox_kills.member import Arguments, is_poison
from tests.torture.layer import Counts, OnBroker

_KEYS = 6
_MESSAGES = 120
_KILLS = 4
_PARTITIONS = 2


def play(seed: int, kafka: RealKafka) -> Counts:
    """Each message is booked and announced once, in the order of its key, or is one letter.

    In every second play keys are the order, else partitions.
    """
    rng = random.Random(seed)
    with Postgres() as server, closing(Database(server.url)) as database:
        migrate(database)
        with database.begin() as connection:
            connection.execute(text("CREATE TABLE booking (id SERIAL, account TEXT, number INT)"))
        arguments = _arguments(seed, kafka, server.url)
        wanted = sum(not is_poison(number) for number in range(_MESSAGES))
        for least in sorted(rng.randrange(wanted) for _ in range(_KILLS)):
            member = _started(arguments)
            wait_until(lambda least=least: len(_booked(database)) >= least, "bookings")  # type: ignore[misc]  # each its own
            member.kill()
            member.wait(PATIENCE_S)
        killed, last = _owners(database), _started(arguments)
        wait_until(lambda: len(_booked(database)) >= wanted, "all bookings")
        wait_until(lambda: len(_announced(kafka, arguments)) >= wanted, "all are announced")
        wait_until(lambda: len(kafka.read(arguments.letters)) >= _MESSAGES - wanted, "letters")
        # All may have been done before it: a signal that comes while it is imported kills it.
        wait_until(lambda: bool(_owners(database) - killed), "the last one has begun")
        last.send_signal(signal.SIGTERM)
        assert last.wait(PATIENCE_S) == 0
        _check(_booked(database), "booked")
        _check(_announced(kafka, arguments), "announced")
        letters = [int(letter.value() or b"") for letter in kafka.read(arguments.letters)]
        assert sorted(letters) == [n for n in range(_MESSAGES) if is_poison(n)], letters
    return Counter(
        {"kills": _KILLS, f"kills {'by key' if arguments.by_key else 'in order'}": _KILLS}
    )


def _arguments(seed: int, kafka: RealKafka, url: str) -> Arguments:
    name = f"inbox-{seed}-{time.time_ns()}"
    letters, announced = f"{name}.dlq", f"{name}.announced"
    for topic in (name, letters, announced):
        kafka.create_topic(topic, _PARTITIONS)
    kafka.produce(
        name,
        [(n % _KEYS % _PARTITIONS, b"%d" % (n % _KEYS), b"%d" % n, []) for n in range(_MESSAGES)],
    )
    group = {"group.id": name, "auto.offset.reset": "earliest"}
    quick = {"session.timeout.ms": 1_000, "heartbeat.interval.ms": 200}
    consumer, producer = kafka.client_settings(**group, **quick), kafka.client_settings()
    by_key = bool(seed % 2)
    return Arguments(consumer, producer, name, letters, announced, url, by_key)


def _started(arguments: Arguments) -> "subprocess.Popen[bytes]":
    given = json.dumps(asdict(arguments))
    command = [sys.executable, "-m", "tests.torture.inbox_kills.member", given]
    return subprocess.Popen(dying_with_parent.guarded(*command), stderr=subprocess.DEVNULL)


def _owners(database: Database) -> set[str]:
    """The members that have a place."""
    with database.reading() as connection:
        return set(connection.scalars(text("SELECT owner FROM linear_retry_inbox_place")))


def _booked(database: Database) -> list[int]:
    with database.reading() as connection:
        return list(connection.scalars(text("SELECT number FROM booking ORDER BY id")))


def _announced(kafka: RealKafka, arguments: Arguments) -> list[int]:
    """Each id once, where it was first: an outbox that is killed may send one again."""
    first: dict[object, int] = {}
    for each in kafka.read(arguments.announced):
        first.setdefault(dict(each.headers() or [])["retry-message-id"], int(each.value() or b""))
    return [*first.values()]


def _check(numbers: list[int], what: str) -> None:
    found: dict[int, list[int]] = defaultdict(list)
    for number in numbers:
        found[number % _KEYS].append(number)
    for key in range(_KEYS):
        wanted = [n for n in range(key, _MESSAGES, _KEYS) if not is_poison(n)]
        assert found[key] == wanted, f"{what} of key {key}: {found[key]}, not {wanted}"


INBOX_KILLS = OnBroker("inbox-kills", "plays", 2, 250, play, at_once=3)
