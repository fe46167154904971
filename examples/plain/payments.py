"""The payment service that the examples call: start it, stop it, and see the consumer wait.

`python examples/plain/payments.py [--free-orders]` takes `POST /charges` on port 8000. A free order
(0 cents) is declined with 402, unless the option is given; what is not an order, with 400.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

accepts_free_orders = "--free-orders" in sys.argv


class Payments(BaseHTTPRequestHandler):
    """Takes the price of one order."""

    def do_POST(self) -> None:
        """Answers 200, 402 or 400, and prints the order's place in Kafka."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        status, verdict, what = _verdict(body)
        # Before the answer: the next order may be in another thread as soon as that is sent.
        print(verdict, self.headers["Idempotency-Key"], what, flush=True)
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  (http.server's name)
        """Logs nothing: the charges are printed."""


def _verdict(body: bytes) -> tuple[int, str, str]:
    try:
        order = json.loads(body)
        number, cents = order["order"], order["cents"]
    except (ValueError, TypeError, KeyError):
        return 400, "refused", "not an order"
    if cents > 0 or accepts_free_orders:
        return 200, "charged", f"order {number}"
    return 402, "declined", f"order {number}"


if __name__ == "__main__":
    try:
        ThreadingHTTPServer(("127.0.0.1", 8000), Payments).serve_forever()
    except KeyboardInterrupt:
        print("down")
