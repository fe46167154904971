"""The banks that the example calls: `python examples/accounts/banks.py [CLOSED ...]`.

`POST /transfers` on port 8000 pays a transfer, and prints it. Those of a closed bank get 503.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

closed = frozenset(sys.argv[1:])


class Banks(BaseHTTPRequestHandler):
    """Takes one transfer."""

    protocol_version = "HTTP/1.1"  # the workers keep their connections

    def do_POST(self) -> None:
        """Answers 200 or 503, and prints what is paid."""
        transfer = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        is_closed = transfer["bank"] in closed
        if not is_closed:
            # In one call: other threads print too.
            print(f"paid {transfer['account']} {transfer['number']}\n", end="", flush=True)
        self.send_response(503 if is_closed else 200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  (http.server's name)
        """Logs nothing: what is paid is printed."""


if __name__ == "__main__":
    try:
        ThreadingHTTPServer(("127.0.0.1", 8000), Banks).serve_forever()
    except KeyboardInterrupt:
        print("down")
