"""Takes the pictures of the console's guide, of a real run: `make pictures`."""

import random
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import expect

from linear_retry import events as e
from linear_retry.console.jobs.job import Action, Options
from linear_retry.dlq import EVERYTHING
from linear_retry.journal.entry import Entry
from linear_retry.kafka import Message
from linear_retry.records.control import DEFAULT_TOPIC
from linear_retry.records.dead_letter import DeadLetter, FailureInfo, to_dead_letter
from linear_retry.records.record import Record
from linear_retry.records.text import ErrorText
from linear_retry.retry.clock import now_ms
from linear_retry.scope import Scope
from linear_retry.store.database import Database
from linear_retry.store.migrations import migrate
from tests.chromium import browser
from tests.console.browser.consuming import Line
from tests.console.browser.filled import Shown, filled
from tests.console.recording import record
from tests.dlq.scene import Scene
from tests.journal.journal_story import Life, opened
from tests.postgres import Postgres
from tests.real_kafka import RealKafka

FOLDER = Path(__file__).parents[3] / "docs" / "pictures" / "console"
PAGES = {
    "now": "/now",
    "letters": "/letters/orders.dlq",
    "letter": "/letters/orders.dlq/0/0",
    "stored": "/stored/scheduler/waiting",
    "job": "/jobs/1",
    "outages": "/outages",
    "audit": "/audit",
}
_ENDS: tuple[e.CloseOutcome, ...] = (*("recovered",) * 3, "dead-lettered")
_PLAN_S = 60.0
_WEEK_MS = 7 * 86_400_000
_ERRORS = (
    ErrorText("httpx.ConnectError", "ledger.internal:8080 refused the connection", "Traceback"),
    ErrorText("ValueError", "order without an amount", "Traceback"),
)


def _letters(rng: random.Random) -> Iterator[DeadLetter]:
    first_ms = now_ms() - _WEEK_MS // 7
    for number in range(40):
        at_ms = first_ms + number * 60_000
        key, value = f"customer-{rng.randrange(9)}", f'{{"order": {number}, "amount": 12.5}}'
        record = Record("orders", number % 2, number, at_ms, key.encode(), value.encode(), ())
        error = _ERRORS[rng.random() < 0.3]
        info = FailureInfo("billing", "exhausted", 9, at_ms, at_ms + 800_000, "orders@1", error)
        yield to_dead_letter(record, info)


def _outages(rng: random.Random) -> list[Entry]:
    found, ends_ms = [], now_ms()
    for group, count in (("invoices", 14), ("payments", 6), ("stock", 9)):
        for number in range(count):
            life = Life(f"pod-{number % 3}", f"{group}-{number}", group)
            began_ms = ends_ms - rng.randrange(_WEEK_MS)
            length_ms = min(int(rng.lognormvariate(6.5, 1.5) * 1000), ends_ms - began_ms)
            scope = Scope("orders", number % 6)
            found.append(life.says(began_ms, opened(("orders", number % 6), 7, began_ms, scope)))
            closed = e.CircuitClosed(scope, rng.choice(_ENDS), length_ms / 1000)
            found.append(life.says(began_ms + length_ms, closed))
    return found


def _refused(_: Message) -> None:
    raise ConnectionError("ledger.internal:8080 refused the connection")


def _work(shown: Shown) -> None:
    """A replay that is planned, and changes of some people."""
    services, topic = shown.services, shown.scene.letters
    services.jobs.plan(topic, Action.REPLAY, EVERYTHING, Options(check_newer=True), actor="ann")
    services.jobs.wait(1, _PLAN_S)
    for actor, action, subject, why, outcome in (
        ("ann", "give up", "orders[1]@977 of group billing", "cancelled", "given up by pod-1"),
        ("bob", "resolve", f"{topic}[0]@3", "refunded by hand", "done"),
        ("bob", "forward", f"{topic}[1]@8", "a comma in the amount", "changed: value"),
    ):
        record(services.audit, actor, action, subject, why=why, outcome=outcome)


def main() -> None:
    """Writes each page at 1280 px, in light."""
    FOLDER.mkdir(exist_ok=True)
    rng = random.Random(7)
    with (
        TemporaryDirectory() as made,
        RealKafka(Path(made) / "kafka") as kafka,
        Postgres() as postgres,
    ):
        line = Line(kafka, "orders", "orders.dlq", f"journal-{Path(made).name}", DEFAULT_TOPIC)
        for topic in (line.orders, line.letters, line.control):
            kafka.create_topic(topic, 2)
        scene = Scene(kafka, "orders", "orders.dlq")
        scene.add_letters(_letters(rng))
        store_url = postgres.new_database("console")
        with closing(Database(store_url)) as store:
            migrate(store)
        with (
            filled(scene, Path(made), store_url, _outages(rng)) as shown,
            line.consumed(_refused, "billing", scope="consumer", strategy=["5s", *["2m"] * 9]),
            browser() as by,
        ):
            _work(shown)
            line.add_orders(*[0] * 25, *[1] * 17)
            page = by.new_page(viewport={"width": 1280, "height": 800}, color_scheme="light")
            shown.open(page, "/now")
            expect(page.get_by_text("2 failures so far")).to_be_visible()
            expect(page.get_by_text("lag 42")).to_be_visible()
            for name, path in PAGES.items():
                shown.open(page, path)
                page.screenshot(path=FOLDER / f"{name}.png")


if __name__ == "__main__":
    main()
