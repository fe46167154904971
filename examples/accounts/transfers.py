"""Sends transfers of 200 accounts to the topic `orders`.

`python examples/accounts/transfers.py [COUNT]` sends `COUNT` for each account, 5 unless given.
"""

import json
import sys

from confluent_kafka import Producer

ACCOUNTS = 200
BANKS = ("north", "south", "east", "west")


def main(count: int) -> None:
    """Each account's bank is one of `BANKS`, and its number is the message's key."""
    producer = Producer({"bootstrap.servers": "localhost:9092"})
    for number in range(1, count + 1):
        for account in range(ACCOUNTS):
            transfer = {"account": account, "bank": BANKS[account % len(BANKS)], "number": number}
            producer.produce("orders", json.dumps(transfer), key=str(account))
    if producer.flush(30):
        sys.exit("no broker has acknowledged the transfers within 30 s")
    print("transfers sent:", count * ACCOUNTS)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
