"""A Django application that stores messages in its transactions, in a process of its own.

Arguments: the database's URL, the topic. What it adds is sent by others.
"""

import sqlite3
import sys
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import django
import pytest
from django.conf import settings

from linear_retry.errors import UsageError
from linear_retry.outbox import Outbox

_BACKENDS = {"sqlite": "sqlite3", "postgresql": "postgresql"}


def _database(url: str) -> dict[str, Any]:
    parts = urlsplit(url)
    name = parts.path[1:]  # sqlite:////file: the slashes of an absolute path are three and one
    engine = f"django.db.backends.{_BACKENDS[parts.scheme]}"
    if not parts.hostname:
        return {"ENGINE": engine, "NAME": name, "OPTIONS": {"transaction_mode": "IMMEDIATE"}}
    place = {"HOST": parts.hostname, "PORT": parts.port, "USER": parts.username}
    return {"ENGINE": engine, "NAME": name} | place


def _write_elsewhere(url: str) -> None:
    """As the sender does; SQLite refuses it while another transaction may write."""
    if url.startswith("sqlite"):
        other = sqlite3.connect(url.removeprefix("sqlite:///"), timeout=0.0, isolation_level=None)
        with suppress(sqlite3.OperationalError):
            other.execute("INSERT INTO linear_retry_setting VALUES ('of another', '')")
        other.close()


def main(url: str, topic: str) -> None:
    """Commits some, rolls back others, and one savepoint within a transaction."""
    settings.configure(DATABASES={"default": _database(url)}, USE_TZ=True)
    django.setup()
    from django.db import connection, transaction

    config = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0}
    with Outbox(config, store=url, sender=False) as outbox:

        def add(value: str, *, fails: bool = False) -> None:
            with transaction.atomic():
                with connection.cursor() as cursor:
                    cursor.execute("INSERT INTO shop_order VALUES (%s)", [value])
                outbox.add(connection, topic, value, "key")
                if fails:
                    raise ValueError("the order is refused")

        def tried(value: str, *, fails: bool = False) -> None:
            with suppress(ValueError):
                add(value, fails=fails)

        tried("committed")
        tried("rolled back", fails=True)
        with transaction.atomic():
            add("outer")
            tried("savepoint rolled back", fails=True)
            tried("savepoint kept")
        with transaction.atomic():
            with connection.cursor() as cursor:
                cursor.execute("SELECT count(*) FROM shop_order")
                cursor.fetchall()
            _write_elsewhere(url)
            add("after reading")
        with pytest.raises(UsageError, match=r"no transaction.atomic\(\) is open"):
            outbox.add(connection, topic, "without a transaction", "key")
        connection.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
