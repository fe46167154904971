"""Serves an application over HTTP or HTTPS in a thread of its own."""

import socket
import ssl
import threading
from dataclasses import dataclass
from typing import Any, Self

import uvicorn
from starlette.types import ASGIApp

from linear_retry.errors import ConfigurationError
from linear_retry.files import printable_path
from linear_retry.web.security.access import Access

_BACKLOG = 100
_SLOWEST_END_S = 5


@dataclass(frozen=True, slots=True)
class Tls:
    """The files of the server's certificate, with its chain, and of its key; both in PEM."""

    certificate: str
    key: str


class HttpServer:
    """A server that answers until it is closed, or its `with` is left. `port` is its port."""

    def __init__(self, server: uvicorn.Server, listening: socket.socket) -> None:
        self._server = server
        self.port: int = listening.getsockname()[1]
        self._thread = threading.Thread(
            target=server.run, args=([listening],), name="linear_retry http", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Takes no more requests, and ends those under way within 5 s. Idempotent."""
        self._server.should_exit = True
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def serve(
    app: ASGIApp, access: Access, port: int, host: str = "127.0.0.1", *, tls: Tls | None = None
) -> HttpServer:
    """Serves `app` at this address until the `with` is left; port 0 picks a free one.

    Raises `ConfigurationError` if everyone who reaches the address would be an operator, if it
    cannot listen there, or if the files of `tls` are not a certificate and its key.
    """
    access.check_listening(host)
    if tls is not None:
        _check(tls)
    listening = _listening(host, port)
    return HttpServer(uvicorn.Server(_config(app, tls)), listening)


def _config(app: ASGIApp, tls: Tls | None) -> uvicorn.Config:
    files: dict[str, Any] = (
        {} if tls is None else {"ssl_certfile": tls.certificate, "ssl_keyfile": tls.key}
    )
    return uvicorn.Config(
        app,
        # Its lines would have the queries, and with them keys that somebody searches for.
        access_log=False,
        log_config=None,
        log_level="warning",
        # Otherwise any local client names its own address by X-Forwarded-For.
        proxy_headers=False,
        server_header=False,
        ws="none",
        timeout_graceful_shutdown=_SLOWEST_END_S,
        **files,
    )


def _listening(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listening = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except (OSError, OverflowError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigurationError(
            f"{host}:{port}: cannot listen there ({reason}); give another port, or 0 for a free "
            "one, and an address of this machine"
        ) from error
    # Its connections inherit it. asyncio sets it only for sockets that were made with IPPROTO_TCP:
    # without it each answer waits for a delayed acknowledgement, 40 ms.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def _check(tls: Tls) -> None:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(tls.certificate, tls.key)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise ConfigurationError(
            f"certificate {printable_path(tls.certificate)} with key {printable_path(tls.key)}: "
            f"{error.strerror if isinstance(error, OSError) else error}; give both as PEM files"
        ) from error
