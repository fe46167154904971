"""Books orders, and announces each booking: consume, transform and produce, each effect once."""

import json
import logging

from confluent_kafka import Message
from sqlalchemy import Connection, create_engine, text

from linear_retry import DeadLetters, LinearConsumer
from linear_retry.inbox import Inbox
from linear_retry.outbox import Outbox

KAFKA = {"bootstrap.servers": "localhost:9092"}
STORE = "sqlite:///ledger.db"  # in production "postgresql://user@host/database"

BOOK = text("INSERT INTO booking (number, cents) VALUES (:number, :cents)")
BALANCE = text("SELECT sum(cents) FROM booking")

engine = create_engine(STORE)
outbox = Outbox(KAFKA, store=STORE)


def book(message: Message, transaction: Connection) -> None:
    """Books one order. The booking, its announcement and the order's place are one transaction."""
    order = json.loads(message.value() or b"")
    if order["cents"] == 0:
        raise ValueError(f"order {order['order']} costs nothing")
    transaction.execute(BOOK, {"number": order["order"], "cents": order["cents"]})
    booked = {"order": order["order"], "balance": transaction.scalar(BALANCE)}
    outbox.add(transaction, "orders.booked", json.dumps(booked).encode(), key=b"ledger")


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE IF NOT EXISTS booking (number INT, cents INT)"))
    with (
        outbox,
        LinearConsumer(
            {**KAFKA, "group.id": "ledger", "auto.offset.reset": "earliest"},
            ["orders"],
            strategy=[1, 2, 5],
            transient=ConnectionError,
            dead_letters=DeadLetters("orders.dlq", transactional=True),
            inbox=Inbox(engine),
        ) as consumer,
    ):
        consumer.run(book)  # until Ctrl-C, SIGTERM or consumer.stop()
