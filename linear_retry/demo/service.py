"""A payment service that goes down twice, the orders, and the record of what it received."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer
from threading import Lock, Thread, Timer
from typing import Literal, Protocol, Self, TypeAlias

import httpx

from linear_retry.demo.evidence import ANSWER_OF_STATUS, Answer, Receipt, Request
from linear_retry.retry.retry_after import RetryAfter

Cancel: TypeAlias = Callable[[], None]
Schedule: TypeAlias = Callable[[float, Callable[[], None]], Cancel]
"""Calls a function after some seconds, in another thread, unless it is cancelled."""

PARTITIONS = 4
ORDERS = tuple(f"order-{number:03d}" for number in range(1, 401))
REJECTED = frozenset({"order-062", "order-291"})  # an expired card stays expired
TRANSIENT: tuple[type[Exception], ...] = (httpx.TransportError,)


@dataclass(frozen=True, slots=True)
class Outage:
    """Starts once `after_accepted` payments are made: by progress, so that all runs are alike."""

    after_accepted: int
    kind: Literal["refused", "unavailable"]
    lasts_s: float


class _Listener(ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False  # an outage starts in a request's thread, which would wait for itself

    def __init__(self, port: int, answer: Callable[[bytes], int]) -> None:
        super().__init__(("127.0.0.1", port), _Request, bind_and_activate=False)
        self.answer = answer
        self.server_bind()

    def listen(self) -> None:
        self.server_activate()
        Thread(target=self.serve_forever, args=(0.01,), name="payment-service", daemon=True).start()


class _Request(BaseHTTPRequestHandler):
    # HTTP/1.0 opens a connection for each request: one kept alive would outlive the listener,
    # and nothing would be refused.
    server: _Listener

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        body = self.rfile.read(length)
        if len(body) < length:
            return  # Ctrl-C has interrupted the client
        status = self.server.answer(body)
        self.send_response(status)
        if status == 503:
            self.send_header("Retry-After", "1")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  (http.server's name)
        """Logs nothing: the receipts are the log."""


def schedule_in_thread(delay_s: float, call: Callable[[], None]) -> Cancel:
    """Schedules by a timer thread."""
    timer = Timer(delay_s, call)
    timer.daemon = True
    timer.start()
    return timer.cancel


class PaymentService:
    """Takes payments at `url`: 200, 422 for an order in `rejected`, 503 or nothing while down.

    An outage starts after the last payment before it was answered: the n-th accepted payment is
    still answered, and the next connection is refused.
    """

    def __init__(
        self,
        outages: tuple[Outage, ...],
        rejected: frozenset[str],
        *,
        latency_s: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
        schedule: Schedule = schedule_in_thread,
    ) -> None:
        self._outages = {outage.after_accepted: outage for outage in outages}
        self._rejected = rejected
        self._latency_s = latency_s
        self._clock = clock
        self._schedule = schedule
        self._lock = Lock()
        self._receipts: list[Receipt] = []
        self._accepted = 0
        self._unavailable = False
        self._listening = True
        self._cancel: Cancel = lambda: None
        self._listener = _Listener(0, self._answer)
        self._port = int(self._listener.server_address[1])

    @property
    def url(self) -> str:
        """The address for payments; the same before, during and after an outage."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def receipts(self) -> tuple[Receipt, ...]:
        """The requests received so far, in order of arrival."""
        with self._lock:
            return tuple(self._receipts)

    def __enter__(self) -> Self:
        self._listener.listen()
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._cancel()
            self._stop_listening()

    def _answer(self, body: bytes) -> int:
        at_s = self._clock()
        time.sleep(self._latency_s)
        payment = json.loads(body)
        with self._lock:
            status = self._status(payment["order"])
            self._receipts.append(Receipt(at_s, payment["order"], status))
            if status == 200:
                self._accepted += 1
                self._begin(self._outages.get(self._accepted))
        return status

    def _status(self, order_id: str) -> int:
        if self._unavailable:
            return 503
        return 422 if order_id in self._rejected else 200

    def _begin(self, outage: Outage | None) -> None:
        if outage is None:
            return
        if outage.kind == "unavailable":
            self._unavailable = True
        else:
            self._stop_listening()
            # Bound but not listening: the kernel refuses, and nobody else can take the port.
            self._listener = _Listener(self._port, self._answer)
        self._cancel = self._schedule(outage.lasts_s, self._end)

    def _end(self) -> None:
        with self._lock:
            self._unavailable = False
            if not self._listening:
                self._listening = True
                self._listener.listen()

    def _stop_listening(self) -> None:
        if self._listening:
            self._listener.shutdown()
        self._listening = False
        self._listener.server_close()


class PaymentRejected(Exception):  # noqa: N818  (what the service says, in its own words)
    """The service will never take this payment: permanent."""


class Message(Protocol):
    """What the handler asks of a Kafka message: its value, the order's id."""

    def value(self) -> bytes | None: ...


class Payments:
    """Pays one order for each message; every request, however it ends, goes to `record`."""

    def __init__(
        self,
        url: str,
        record: Callable[[Request], object],
        *,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        # trust_env: a proxy from the environment would stand between us and the loopback.
        self._http = httpx.Client(base_url=url, timeout=5.0, trust_env=False, transport=transport)
        self._record = record

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def pay(self, message: Message) -> None:
        """Pays the order. Raises httpx.TransportError, RetryAfter (503), PaymentRejected (422)."""
        order_id = (message.value() or b"").decode()
        answer: Answer = "broken"
        retry_after_s = 0.0
        try:
            response = self._http.post("/payments", json={"order": order_id})
            answer = ANSWER_OF_STATUS.get(response.status_code, "broken")
            retry_after_s = float(response.headers.get("Retry-After", 0))
        except httpx.ConnectError:
            answer = "refused"
            raise
        finally:
            self._record(Request(order_id, answer, retry_after_s))
        match answer:
            case "rejected":
                raise PaymentRejected("422: the card has expired")
            case "unavailable":
                raise RetryAfter(retry_after_s, "503 Service Unavailable")
            case "broken":
                raise httpx.RemoteProtocolError(f"unexpected answer: {response.status_code}")
