"""The routes of statistics, of the audit, of health and of metrics."""

from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Annotated, TypeAlias

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from fastapi import APIRouter, Header, Query
from fastapi.responses import JSONResponse, Response
from prometheus_client.registry import Collector

from linear_retry.monitoring.metrics import exposition
from linear_retry.scheduler.http import models as m
from linear_retry.scheduler.http.metrics import StoreMetrics
from linear_retry.store import audit
from linear_retry.store.database import Database
from linear_retry.store.listing import statistics
from linear_retry.store.records import Service

Probe: TypeAlias = Callable[[], str | None]
"""Returns the problem in one sentence, or None."""

OPEN = _LIVEZ, _READYZ = "/livez", "/readyz"
"""For probes, which have no login."""


def routes(
    database: Database, alive: Probe, ready: Probe, collectors: Sequence[Collector] = ()
) -> APIRouter:
    """Returns the routes; `alive` and `ready` say what prevents either."""
    router = APIRouter()
    _add_statistics(router, database)
    _add_metrics(router, [StoreMetrics(database), *collectors])
    _add_probes(router, database, alive, ready)
    return router


def _add_statistics(router: APIRouter, database: Database) -> None:
    @router.get("/api/v1/statistics")
    def get_statistics(service: Service = "scheduler") -> m.Statistics:
        """Counts what waits by destination, and dead letters by error; lists lanes on hold."""
        with database.reading() as connection:
            return m.Statistics.model_validate(
                {
                    "waiting": statistics.waiting(database, connection, service),
                    "held": statistics.held(connection, service),
                    "dead": statistics.dead(connection, service),
                }
            )

    @router.get("/api/v1/audit")
    def list_audit(
        before_id: m.Id | None = None, limit: Annotated[int, Query(ge=1, le=500)] = 100
    ) -> m.Audit:
        """Lists changes, the latest first; `before_id` is the last id of the page before."""
        with database.reading() as connection:
            found = audit.read(connection, limit=limit, before_id=before_id)
        return m.Audit.model_validate({"changes": found})


def _add_metrics(router: APIRouter, collectors: Sequence[Collector]) -> None:
    worker = CapacityLimiter(1)

    @router.get("/metrics", response_class=Response)
    async def get_metrics(accept: Annotated[str, Header()] = "") -> Response:
        """Returns metrics for Prometheus."""
        body, content_type = await run_sync(exposition, collectors, accept, limiter=worker)
        return Response(body, headers={"Content-Type": content_type})


def _add_probes(router: APIRouter, database: Database, alive: Probe, ready: Probe) -> None:
    worker = CapacityLimiter(1)

    def ask() -> str | None:
        with database.reading() as connection:
            database.now_ms(connection)
        return ready()

    @router.get(_LIVEZ)
    async def get_livez() -> JSONResponse:  # not in a thread: all may wait for the store
        """Returns 503 if the service should be started again."""
        return _answer(alive())

    @router.get(_READYZ)
    async def get_readyz() -> JSONResponse:  # not in theirs: they may all wait for a lock
        """Returns 503 while the store does not answer, or the service does not work."""
        return _answer(await run_sync(ask, limiter=worker))


def _answer(problem: str | None) -> JSONResponse:
    if problem is None:
        return JSONResponse({"ok": True})
    return JSONResponse({"ok": False, "error": problem}, HTTPStatus.SERVICE_UNAVAILABLE)
