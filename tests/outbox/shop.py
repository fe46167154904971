"""An application that stores orders, each with a message: a process for tests to kill.

Arguments: the store's URL, the brokers, the topic, the first number.
"""

import itertools
import sys

from sqlalchemy import create_engine, text

from linear_retry.outbox import Outbox


def main(store: str, bootstrap: str, topic: str, first: int) -> None:
    """Commits two of three transactions, until it is killed."""
    url = store.replace("postgresql:", "postgresql+psycopg:")
    engine = create_engine(url, connect_args={"timeout": 30} if "sqlite" in url else {})
    with Outbox({"bootstrap.servers": bootstrap, "log_level": 0}, store=store) as outbox:
        for number in itertools.count(first):
            with engine.connect() as connection, connection.begin() as transaction:
                connection.execute(text(f"INSERT INTO shop_order VALUES ({number})"))
                outbox.add(connection, topic, b"%d" % number, b"k%d" % (number % 20))
                if number % 3 == 0:
                    transaction.rollback()


if __name__ == "__main__":
    _store, _bootstrap, _topic, _first = sys.argv[1:]
    main(_store, _bootstrap, _topic, int(_first))
