"""The options of the scheduler's HTTP API."""

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
    from linear_retry.scheduler.service import SchedulerService
    from linear_retry.store.database import Database

_FORM = "must be HOST:PORT, such as 127.0.0.1:8099 or [::1]:8099"


def _address(value: str | None) -> str | None:
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
class HttpOptions:
    """Where the API listens, and who may use it."""

    http: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            callback=_address,
            help="Serve the HTTP API there, such as 127.0.0.1:8099. Anything but this machine "
            "needs --users or --trusted-proxy.",
        ),
    ] = None
    users: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Who may use the API: lines of name:role:hash, where the role is viewer or "
            "operator, and the hash is argon2's.",
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
            help="A name under which browsers reach the API, beside localhost and addresses; "
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

    @contextmanager
    def serving(self, database: Database, service: SchedulerService) -> Iterator[None]:
        """Serves the API, if there is an address for it, until the `with` is left.

        Raises `ConfigurationError`, and `typer.BadParameter` for options that need one another.
        """
        self._check()
        if self.http is None:
            yield
            return
        from linear_retry.scheduler.http import Access, Tls, create_app, networks, read_users, serve

        access = Access(
            None if self.users is None else read_users(self.users),
            networks(self.trusted_proxy or ()),
            self.user_header,
            frozenset(name.lower() for name in self.host_name or ()),
        )
        tls = None if self.tls_cert is None else Tls(str(self.tls_cert), str(self.tls_key))
        app = create_app(
            database,
            access,
            service.destinations,
            alive=service.not_alive,
            ready=service.not_ready,
        )
        host, port = _host_and_port(self.http)
        with serve(app, access, port, host, tls=tls) as server:
            log_listening(host, server.port, is_secure=tls is not None)
            yield

    def _check(self) -> None:
        if (self.tls_cert is None) != (self.tls_key is None):
            raise typer.BadParameter("--tls-cert and --tls-key need one another")
        others = (self.users, self.trusted_proxy, self.host_name, self.tls_cert)
        if self.http is None and any(others):
            raise typer.BadParameter(
                "--users, --trusted-proxy, --host-name, --tls-cert and --tls-key need --http"
            )
