"""The payment service that the examples call: start it, stop it, and see the consumer wait.

`python examples/payments.py [--free-orders]` takes `POST /charges` on port 8000. A free order (0
cents) is declined with 402, unless the option is given.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

accepts_free_orders = "--free-orders" in sys.argv


class Payments(BaseHTTPRequestHandler):
    """Takes the price of one order."""

    def do_POST(self) -> None:
        """Answers 200 or 402, and prints the order's place in Kafka."""
        order = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        accepted = order["cents"] > 0 or accepts_free_orders
        self.send_response(200 if accepted else 402)
        self.send_header("Content-Length", "0")
        self.end_headers()
        verdict = "charged" if accepted else "declined"
        print(verdict, self.headers["Idempotency-Key"], f"order {order['order']}", flush=True)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  (http.server's name)
        """Logs nothing: the charges are printed."""


if __name__ == "__main__":
    try:
        ThreadingHTTPServer(("127.0.0.1", 8000), Payments).serve_forever()
    except KeyboardInterrupt:
        print("down")
