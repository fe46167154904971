"""A consumer that books each message, and announces it, in one transaction; it is to be killed.

`python -m tests.torture.inbox_kills.member ARGUMENTS`, with the fields of `Arguments` as JSON.
"""

import json
import random
import sys
from dataclasses import dataclass
from typing import Any

from sqlalchemy import create_engine, text

from linear_retry import DeadLetters, LinearConsumer
from linear_retry.inbox import Inbox
from linear_retry.kafka import Message
from linear_retry.outbox import Outbox

_WORKERS = 4
_BOOK = text("INSERT INTO booking (account, number) VALUES (:account, :number)")
_POISON_EACH = 17
_FAILS = 0.1


@dataclass(frozen=True, slots=True)
class Arguments:
    """`announced` is the topic that each booking is announced in; `by_key`: keys are the order."""

    consumer: dict[str, Any]
    producer: dict[str, Any]
    topic: str
    letters: str
    announced: str
    url: str
    by_key: bool


def is_poison(number: int) -> bool:
    """Whether the handler refuses the message of this number."""
    return number % _POISON_EACH == _POISON_EACH - 1


def main(arguments: Arguments) -> None:
    """Consumes until it is told to stop."""
    engine = create_engine(
        arguments.url.replace("postgresql:", "postgresql+psycopg:"), pool_size=_WORKERS
    )
    with (
        Outbox(arguments.producer, store=arguments.url) as outbox,
        LinearConsumer(
            arguments.consumer,
            [arguments.topic],
            strategy=[0.05] * 30,
            transient=ConnectionError,
            dead_letters=DeadLetters(arguments.letters, transactional=True),
            scope="key" if arguments.by_key else "partition",
            concurrency=_WORKERS,
            inbox=Inbox(engine),
        ) as consumer,
    ):

        def handler(message: Message, transaction: Any) -> None:
            account, value = message.key() or b"", message.value() or b""
            row = {"account": account.decode(), "number": int(value)}
            transaction.execute(_BOOK, row)
            outbox.add(transaction, arguments.announced, value, key=account)
            if is_poison(int(value)):
                raise ValueError("poison")
            if random.random() < _FAILS:
                raise ConnectionError("down")

        consumer.run(handler)


if __name__ == "__main__":
    main(Arguments(**json.loads(sys.argv[1])))
