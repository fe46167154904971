"""The options of the scheduler's HTTP API."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from linear_retry.cli.options.http import AccessOptions, listening_address

if TYPE_CHECKING:
    from linear_retry.scheduler.http import Served
    from linear_retry.store.database import Database


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
