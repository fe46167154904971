"""The options of what is served over HTTP: who may use it, under which names, with TLS."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import typer

from linear_retry.log.lines import log_listening

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from linear_retry.scheduler.http import Served
    from linear_retry.store.database import Database
    from linear_retry.web import Access

_FORM = "must be HOST:PORT, such as 127.0.0.1:8099 or [::1]:8099"


def listening_address(value: str | None) -> str | None:
    """Checks an option that says where to listen."""
    if value is not None:
        _host_and_port(value)
    return value


def _host_and_port(value: str) -> tuple[str, int]:
    try:
        parts = urlsplit(f"//{value}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if host is None or port is None or "@" in value or "/" in value:
        raise typer.BadParameter(f"{value!r}: {_FORM}")
    return host, port


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessOptions:
    """Who may use what is served, under which names, and with which certificate."""

    users: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Who may use it: lines of name:role:hash, where the role is viewer or "
            "operator, and the hash argon2's of a password, or sha256:DIGITS of a token.",
        ),
    ] = None
    trusted_proxy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ADDRESS",
            help="A proxy, or a network of them, that says who the user is; repeat it for more.",
        ),
    ] = None
    user_header: Annotated[
        str, typer.Option(metavar="NAME", help="The header in which the proxy says it.")
    ] = "X-Forwarded-User"
    host_name: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A name under which browsers reach it, beside localhost and addresses; "
            "repeat it for more.",
        ),
    ] = None
    tls_cert: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The certificate with its chain, in PEM: HTTPS alone."),
    ] = None
    tls_key: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The certificate's key, in PEM.")
    ] = None

    @property
    def is_given(self) -> bool:
        """Whether any of them is."""
        return any((self.users, self.trusted_proxy, self.host_name, self.tls_cert, self.tls_key))

    def access(self) -> Access:
        """Returns who may use it. Raises `ConfigurationError`."""
        from linear_retry.web import Access, networks, read_users

        return Access(
            None if self.users is None else read_users(self.users),
            networks(self.trusted_proxy or ()),
            self.user_header,
            frozenset(name.lower() for name in self.host_name or ()),
        )

    def check(self) -> None:
        """Raises `typer.BadParameter` for an option without the one that it needs."""
        if (self.tls_cert is None) != (self.tls_key is None):
            raise typer.BadParameter("--tls-cert and --tls-key need one another")

    @contextmanager
    def serving(self, app: ASGIApp, access: Access, address: str, what: str) -> Iterator[None]:
        """Serves `app` (`what` says the log) there until the `with` is left.

        Raises `ConfigurationError`.
        """
        from linear_retry.web import Tls, serve

        tls = None if self.tls_cert is None else Tls(str(self.tls_cert), str(self.tls_key))
        host, port = _host_and_port(address)
        with serve(app, access, port, host, tls=tls) as server:
            log_listening(what, host, server.port, is_secure=tls is not None)
            yield


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpOptions(AccessOptions):
    """Where the API listens, and who may use it."""

    http: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            callback=listening_address,
            help="Serve the HTTP API there, such as 127.0.0.1:8099. Anything but this machine "
            "needs --users or --trusted-proxy.",
        ),
    ] = None

    @contextmanager
    def serving_api(self, database: Database, service: Served) -> Iterator[None]:
        """Serves the API, if there is an address for it, until the `with` is left.

        Raises `ConfigurationError`, and `typer.BadParameter` for options that need one another.
        """
        self.check()
        if self.http is None:
            if self.is_given:
                raise typer.BadParameter(
                    "--users, --trusted-proxy, --host-name, --tls-cert and --tls-key need --http"
                )
            yield
            return
        from linear_retry.scheduler.http import ServiceMetrics, create_app

        access = self.access()
        app = create_app(
            database,
            access,
            alive=service.not_alive,
            ready=service.not_ready,
            collectors=[ServiceMetrics(service)],
        )
        with self.serving(app, access, self.http, "API"):
            yield
