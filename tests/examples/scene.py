"""What the examples need around them: topics on the real broker, and a payment service."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from linear_retry.kafka.consumer.messages import read
from linear_retry.records.dead_letter import DeadLetter, parse
from tests.charges import Charges
from tests.examples.running import Copy
from tests.kafka_operations import KafkaOperations, wait_until
from tests.real_kafka import free_ports

ORDERS = (b"1", b"2", b"3", b"4", b"5")
ATTEMPTS = [b"1", b"2", b"2", b"3", b"3", b"4", b"5"]
"""What `charging` receives: the second gets no answer at first, the third 503, the fourth 402."""


@dataclass(frozen=True, slots=True)
class Scene:
    """A topic of orders and its dead-letter topic, and copies of examples that use them."""

    kafka: KafkaOperations
    orders: str
    copy: Copy

    @property
    def letters(self) -> str:
        """The dead-letter topic."""
        return f"{self.orders}.dlq"

    def produce(self, *values: bytes) -> None:
        """Orders in partition 0."""
        self.kafka.produce(self.orders, [(0, None, value, ()) for value in values])

    def dead_letters(self) -> list[DeadLetter]:
        """What is in the dead-letter topic, by partition and offset."""
        records = [read(message) for message in self.kafka.read(self.letters)]
        return [parse(record.headers, record.key, record.value) for record in records]

    def assert_kept_order(self, charges: Charges) -> None:
        """Each of `ORDERS` was attempted until it was done, in order; the declined one is dead."""
        assert ATTEMPTS == [order for order, _ in charges.received]
        letters = [(each.value, each.reason, each.failures) for each in self.dead_letters()]
        assert [(b"4", "permanent", 1)] == letters

    def all_is_committed(self, group: str) -> bool:
        """Whether nothing is left to read for the group."""
        ends = {number: end for number, end in self.kafka.end_offsets(self.orders).items() if end}
        return ends == self.kafka.committed(group, self.orders)

    def rewind(self, group: str) -> None:
        """What a crash does before its last commit: partition 0 comes again from its beginning."""
        self.kafka.commit(group, self.orders, {0: 0})

    def wait_until_committed(self, group: str) -> None:
        """Returns once nothing is left to read for the group."""
        wait_until(lambda: self.all_is_committed(group), f"{group} has committed all")


def make_scene(
    kafka: KafkaOperations, orders: str, directory: Path, port: int, probe_port: int
) -> Scene:
    """The payment service of its copies is on `port`, their own probes are on `probe_port`."""
    replacements = {
        "localhost:9092": kafka.bootstrap,
        "orders.dlq": f"{orders}.dlq",
        "orders.billing": f"{orders}.billing",
        "orders.booked": f"{orders}.booked",
        "topics create orders ": f"topics create {orders} ",
        "--allow orders ": f"--allow {orders} ",
        '"orders"': f'"{orders}"',
        "Journal()": f'Journal("{orders}.journal")',
        "--group payments": f"--group payments --journal {orders}.journal",
        "localhost:8000": f"127.0.0.1:{port}",
        "8000)": f"{port})",
        "8080": f"{probe_port}",
    }
    return Scene(kafka, orders, Copy(directory, replacements))


@contextmanager
def charging() -> Iterator[tuple[Charges, int]]:
    """A payment service that fails in several ways, and its port."""
    charges = Charges()
    with charges.served() as url:
        (port,) = re.findall(r":(\d+)$", url)
        yield charges, int(port)


def free_port() -> int:
    """A port that nobody listens on."""
    (port,) = free_ports(1)
    return port
