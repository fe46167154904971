"""Statistics, the audit, probes and metrics are right, also while the store is down."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import httpx
import psycopg
import pytest
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import make_url, text

from linear_retry.scheduler.http import create_app
from linear_retry.store import dead_letters, messages
from linear_retry.store.database import Database
from linear_retry.web import serve
from tests.kafka_operations import wait_until
from tests.postgres import Postgres
from tests.scheduler.http.conftest import ACCESS, client_of
from tests.store.contents import new_dead_letter, new_message

_FAR_MS = 10**14


@pytest.fixture(autouse=True)
def _stored(request: pytest.FixtureRequest) -> None:
    if "api" not in request.fixturenames:
        return
    database: Database = request.getfixturevalue("database")
    with database.begin() as connection:
        rows = [new_message(due_ms=_FAR_MS), new_message(due_ms=0)]
        messages.add(database, connection, rows)
        dead_letters.add(database, connection, [new_dead_letter()] * 2)


def test_statistics(viewer: httpx.Client) -> None:
    """What waits by destination, what is held, and dead letters by error."""
    assert {
        "waiting": [
            {"destination": "orders", "waiting": 2, "due": 1, "is_more": False, "oldest_due_ms": 0}
        ],
        "held": [],
        "dead": [
            {"reason": "too-large", "error": "orders[0] refuses a message of 2 MB", "count": 2}
        ],
    } == viewer.get("/api/v1/statistics").json()
    answer = viewer.get("/api/v1/statistics", params={"service": "outbox"}).json()
    assert {"waiting": [], "held": [], "dead": []} == answer


def test_the_audit(operator: httpx.Client, viewer: httpx.Client) -> None:
    """The latest first, page by page."""
    for comment in ("one", "two"):
        given = {"ids": [1], "comment": comment}
        operator.post("/api/v1/dead-letters/delete", json=given).raise_for_status()
    (latest,) = viewer.get("/api/v1/audit", params={"limit": 1}).json()["changes"]
    assert ("ann", "delete-dead-letter", 0) == (latest["actor"], latest["action"], latest["count"])
    (first,) = viewer.get("/api/v1/audit", params={"before_id": latest["id"]}).json()["changes"]
    assert {"ids": [1], "comment": "one"} == first["details"]


def test_metrics(viewer: httpx.Client) -> None:
    """In Prometheus's form, with services, destinations and reasons as labels and nothing else."""
    answer = viewer.get("/metrics", headers={"Accept": "text/plain"}).raise_for_status()
    found = {
        (
            sample.name.removeprefix("linear_retry_store_"),
            *sorted(sample.labels.values()),
        ): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }
    assert {
        ("messages_waiting", "orders", "scheduler"): 2,
        ("messages_due", "orders", "scheduler"): 1,
        ("first_due_timestamp_seconds", "orders", "scheduler"): 0,
        ("dead_letters", "scheduler", "too-large"): 2,
    } == found


def test_probes_need_no_login(database: Database) -> None:
    """They say what is wrong with the service."""
    problems: dict[str, str] = {}
    app = create_app(
        database,
        ACCESS,
        alive=lambda: problems.get("alive"),
        ready=lambda: problems.get("ready"),
    )
    with serve(app, ACCESS, 0) as server, client_of(server) as probe:
        assert [200, 200] == [probe.get(path).status_code for path in ("/livez", "/readyz")]
        problems |= {"alive": "the sender has ended", "ready": "the intake has not begun"}
        assert (503, "the sender has ended") == _answer(probe, "/livez")
        assert (503, "the intake has not begun") == _answer(probe, "/readyz")


def _answer(client: httpx.Client, path: str) -> tuple[int, str]:
    answer = client.get(path)
    return answer.status_code, answer.json()["error"]


_READS = [
    *("/api/v1/messages", "/api/v1/messages/1", "/api/v1/messages/selection", "/readyz"),
    *("/api/v1/dead-letters", "/api/v1/dead-letters/1", "/api/v1/dead-letters/selection"),
    *("/api/v1/statistics", "/api/v1/audit", "/metrics"),
]


def test_while_the_store_is_down() -> None:
    """Every route answers 503 with one sentence, and works again once the store does."""
    with Postgres() as postgres:
        database = Database(postgres.url)
        postgres.stop()
        with (
            serve(create_app(database, ACCESS), ACCESS, 0) as server,
            client_of(server, "ann") as ann,
        ):
            for path in _READS:
                status, error = _answer(ann, path)
                assert 503 == status, path
                assert error.startswith("store postgresql://"), path
                assert "\n" not in error
            given = {"ids": [1]}
            answer = ann.post("/api/v1/messages/delete", json=given)
            assert (503, "5") == (answer.status_code, answer.headers["Retry-After"])
            assert 200 == ann.get("/livez").status_code
            postgres.start()
            assert 200 == ann.get("/readyz").status_code
        database.close()


def test_while_the_pool_is_exhausted(postgres_url: str) -> None:
    """A request that gets no connection within 10 s is answered with 503 too."""
    database = Database(postgres_url)
    with serve(create_app(database, ACCESS), ACCESS, 0) as server, client_of(server, "ann") as ann:
        with ExitStack() as held:
            for _ in range(15):
                held.enter_context(database.begin())
            status, error = _answer(ann, "/api/v1/messages")
        assert (503, True) == (status, "QueuePool limit" in error)
        assert 200 == ann.get("/api/v1/messages").status_code
    database.close()


def test_probes_do_not_wait_for_requests(postgres_url: str) -> None:
    """While eight requests waited for a lock of the database, `/readyz` and `/metrics` hung: the
    pod got no more traffic, and nobody saw why."""
    database = Database(postgres_url)
    waiting = text("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'")

    def are_all_waiting() -> bool:
        with database.reading() as connection:
            return bool(connection.execute(waiting).scalar_one() == 8)

    with (
        serve(create_app(database, ACCESS), ACCESS, 0) as server,
        client_of(server, "ann") as ann,
        ThreadPoolExecutor(8) as requests,
    ):
        with psycopg.connect(make_url(postgres_url).render_as_string()) as other:
            other.execute("LOCK TABLE linear_retry_audit")
            asked = [requests.submit(ann.get, "/api/v1/audit") for _ in range(8)]
            wait_until(are_all_waiting, "all wait for the lock")
            assert [200, 200] == [ann.get(path).status_code for path in ("/readyz", "/metrics")]
        assert [200] * 8 == [each.result().status_code for each in asked]
    database.close()
