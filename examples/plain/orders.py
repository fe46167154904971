"""Sends orders to the topic `orders`: `python examples/plain/orders.py [COUNT]`."""

import json
import sys

from confluent_kafka import Producer

CUSTOMERS = ("test", "ann", "bob", "eve")


def main(count: int) -> None:
    """Sends `count` orders, 10 unless given. Every tenth costs nothing."""
    producer = Producer({"bootstrap.servers": "localhost:9092"})
    for number in range(1, count + 1):
        customer = CUSTOMERS[number % len(CUSTOMERS)]
        order = {"order": number, "customer": customer, "cents": 0 if number % 10 == 0 else 1990}
        producer.produce("orders", json.dumps(order), key=customer)
    if producer.flush(30):
        sys.exit("no broker has acknowledged the orders within 30 s")
    print("orders sent:", count)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10)
