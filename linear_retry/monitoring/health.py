"""The HTTP endpoint for probes, Prometheus and curl."""

import json
import socket
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import datetime
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer
from threading import Event
from typing import Any, Self, TypeAlias
from urllib.parse import urlsplit

from linear_retry.consumer.linear_consumer import LinearConsumer
from linear_retry.consumer.operations.health import Health
from linear_retry.errors import ConfigurationError
from linear_retry.log.repeating import Repeating
from linear_retry.retry.circuits import CircuitView
from linear_retry.scope import Scope

__all__ = ["HealthServer", "serve"]

_Answer: TypeAlias = tuple[HTTPStatus, bytes, str]
_SLOWEST_S = 10.0
_JSON = "application/json"


class HealthServer:
    """A server that answers until it is closed, or its `with` is left. `port` is its port."""

    def __init__(self, server: ThreadingTCPServer) -> None:
        self._server = server
        self.port: int = server.server_address[1]
        self._begun = Event()
        self._thread = Repeating("health", self._serve)
        self._thread.start()
        # `shutdown` waits for ever for a server that has never begun.
        self._begun.wait()

    def close(self) -> None:
        """Stops taking requests. Idempotent."""
        self._thread.stop()
        self._server.shutdown()
        self._thread.close()
        self._server.server_close()

    def _serve(self, _: Event) -> None:
        self._begun.set()
        self._server.serve_forever(0.1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def serve(consumer: LinearConsumer, port: int, host: str = "127.0.0.1") -> HealthServer:
    """Answers HTTP requests about `consumer` in threads of its own, until the `with` is left.

    `/livez`: 200 while it is alive, also while a circuit is open, else 503; `/readyz`: 200 while it
    is in its group and not asked to stop, else 503; both with its `Health` as JSON. `/circuits`:
    every circuit that is not closed, as JSON. `/metrics`: for Prometheus; 503 without the extra
    `prometheus`. Port 0 picks a free one.

    There is no login, and the texts of exceptions are visible to everyone who reaches the port: by
    default only this machine. `host="0.0.0.0"`, or `"::"` for IPv6, listens on every network of the
    machine, which probes and scrapes from outside a container need.

    Raises `ConfigurationError` if it cannot listen on this host and port.
    """

    class Handler(_Handler):
        answers = _answers(consumer)

    try:
        server = _Server(host, port, Handler)
    except (OSError, OverflowError, TypeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigurationError(
            f"port={port!r}: {host} cannot listen there ({reason}); give another port, or 0 for "
            "a free one, and an address of this machine"
        ) from error
    return HealthServer(server)


class _Server(ThreadingTCPServer):
    """Not an HTTPServer, which looks up the host's name: with a broken DNS that takes seconds."""

    daemon_threads = allow_reuse_address = True

    def __init__(self, host: str, port: int, handler: type[BaseHTTPRequestHandler]) -> None:
        # IPv4 where a name has both: `localhost` has always been 127.0.0.1 here.
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM)
        self.address_family = min(family for family, *_ in found)
        super().__init__((host, port), handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignores the error: the client has disconnected."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    answers: Mapping[str, Callable[[str], _Answer]]
    timeout = _SLOWEST_S

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        answer = self.answers.get(path)
        if answer is None:
            paths = {"error": f"{path}: there is {', '.join(self.answers)}"}
            self._send(_json(HTTPStatus.NOT_FOUND, paths))
        else:
            self._send(answer(self.headers.get("Accept", "")))

    def log_message(self, format: str, *_: Any) -> None:  # noqa: A002  (the name is the base's)
        """Logs nothing: there is a probe every few seconds."""

    def _send(self, answer: _Answer) -> None:
        status, body, content_type = answer
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _answers(consumer: LinearConsumer) -> Mapping[str, Callable[[str], _Answer]]:
    return {
        "/livez": lambda _: _health(consumer.health(), lambda health: health.alive),
        "/readyz": lambda _: _health(consumer.health(), lambda health: health.ready),
        "/circuits": lambda _: _json(HTTPStatus.OK, _circuits(consumer.circuits)),
        "/metrics": _metrics(consumer),
    }


def _health(health: Health, is_well: Callable[[Health], bool]) -> _Answer:
    status = HTTPStatus.OK if is_well(health) else HTTPStatus.SERVICE_UNAVAILABLE
    return _json(status, asdict(health))


def _circuits(views: Mapping[Scope, CircuitView]) -> list[dict[str, Any]]:
    opened = [(scope, view) for scope, view in views.items() if view.state != "closed"]
    return [{"scope": str(scope), **asdict(view)} for scope, view in opened]


def _metrics(consumer: LinearConsumer) -> Callable[[str], _Answer]:
    try:
        from linear_retry.monitoring.metrics import Metrics, exposition
    except ModuleNotFoundError:
        missing = {"error": "prometheus-client is missing: pip install 'linear-retry[prometheus]'"}
        return lambda _: _json(HTTPStatus.SERVICE_UNAVAILABLE, missing)
    metrics = Metrics(consumer)

    def answer(accept: str) -> _Answer:
        body, content_type = exposition([metrics], accept)
        return HTTPStatus.OK, body, content_type

    return answer


def _json(status: HTTPStatus, value: object) -> _Answer:
    text = json.dumps(value, default=_plain, ensure_ascii=False)
    return status, text.encode("utf-8", "backslashreplace") + b"\n", _JSON


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return value.isoformat(timespec="milliseconds")
    raise TypeError(f"{value!r} is nothing that JSON has")
