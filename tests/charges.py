"""The service that the examples of the pages call, and a broker with orders for it."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from confluent_kafka import Producer

from linear_retry.kafka.embedded.cluster import EmbeddedKafka
from linear_retry.kafka.topics.reader import TopicReader
from tests.patience import PATIENCE_S


class Charges:
    """The service that the example calls; order `5` is the last one."""

    def __init__(self) -> None:
        self.received: list[tuple[bytes, str]] = []
        self.last_one = threading.Event()
        self._answers = {b"2": ["hangs up"], b"3": ["503"], b"4": ["402"]}

    def answer(self, order: bytes, idempotency_key: str) -> str:
        self.received.append((order, idempotency_key))
        if order == b"5":
            self.last_one.set()
        rest = self._answers.get(order)
        return rest.pop(0) if rest else "200"

    @contextmanager
    def served(self) -> Iterator[str]:
        """The address at which it answers."""
        charges = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                order = self.rfile.read(int(self.headers["Content-Length"]))
                known = self.path == "/charges"
                answer = charges.answer(order, self.headers["Idempotency-Key"]) if known else "404"
                if answer != "hangs up":
                    self.send_response(int(answer))
                    self.send_header("Content-Length", "0")
                    self.end_headers()

            def log_message(self, *_: object) -> None:
                """Not on stderr."""

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            thread = threading.Thread(target=server.serve_forever)
            thread.start()
            try:
                yield f"http://127.0.0.1:{server.server_port}"
            finally:
                server.shutdown()
                thread.join()


@contextmanager
def broker_with_orders(*orders: bytes) -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka() as broker:
        broker.create_topic("orders", 1)
        broker.create_topic("orders.dlq", 1)
        producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        for order in orders:
            producer.produce("orders", order)
        assert 0 == producer.flush(PATIENCE_S)
        yield broker


def reasons(broker: EmbeddedKafka) -> list[tuple[bytes | None, str]]:
    letters = TopicReader({"bootstrap.servers": broker.bootstrap}).read_all("orders.dlq")
    return [
        (letter.value, (dict(letter.headers)["retry-reason"] or b"").decode()) for letter in letters
    ]


def run_example(program: str, *options: str) -> str:
    """Run it as a process: in order, retried, dead-lettered, and ended by SIGTERM.

    What it says on stderr, with the address of the page. `options` are Python's.
    """
    charges = Charges()
    with broker_with_orders(b"1", b"2", b"3", b"4", b"5") as broker, charges.served() as url:
        for written, here in (("localhost:9092", broker.bootstrap), ("http://localhost:8000", url)):
            assert 1 == program.count(written)
            program = program.replace(written, here)
        program = program.replace("RetryAfter(10)", "RetryAfter(1)")
        output = _run([sys.executable, *options, "-c", program], charges.last_one)
        assert [(b"4", "permanent")] == reasons(broker)
    offsets = [("1", 0), ("2", 1), ("2", 1), ("3", 2), ("3", 2), ("4", 3), ("5", 4)]
    expected = [(order.encode(), f"orders/0/{offset}") for order, offset in offsets]
    assert expected == [(order, key.rpartition("/")[0]) for order, key in charges.received]
    assert 5 == len({key for _, key in charges.received})
    return output.replace(url, "http://localhost:8000")


def _run(command: list[str], last_one: threading.Event) -> str:
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, env=os.environ | {"NO_PROXY": "127.0.0.1"}
    ) as child:
        try:
            assert last_one.wait(PATIENCE_S), "the example stands still"
            child.send_signal(signal.SIGTERM)
            output = child.communicate(timeout=PATIENCE_S)[1]
        finally:
            child.kill()
    assert 0 == child.returncode, output
    return output
