"""Takes the pictures of the console's guide, of a real run: `make pictures`."""

import random
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from linear_retry import events as e
from linear_retry.journal.entry import Entry
from linear_retry.records.dead_letter import DeadLetter, FailureInfo, to_dead_letter
from linear_retry.records.record import Record
from linear_retry.records.text import ErrorText
from linear_retry.retry.clock import now_ms
from linear_retry.scope import Scope
from linear_retry.store.database import Database
from linear_retry.store.migrations import migrate
from tests.chromium import browser
from tests.console.browser.filled import filled
from tests.dlq.scene import Scene
from tests.journal.journal_story import Life, opened
from tests.real_kafka import RealKafka

FOLDER = Path(__file__).parents[3] / "docs" / "pictures" / "console"
PAGES = {
    "letters": "/letters/orders.dlq",
    "letter": "/letters/orders.dlq/0/0",
    "stored": "/stored/scheduler/waiting",
    "outages": "/outages",
}
_ENDS: tuple[e.CloseOutcome, ...] = (*("recovered",) * 3, "dead-lettered")
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
    for group, count in (("billing", 14), ("payments", 6), ("stock", 9)):
        for number in range(count):
            life = Life(f"pod-{number % 3}", f"{group}-{number}", group)
            began_ms = ends_ms - rng.randrange(_WEEK_MS)
            length_ms = min(int(rng.lognormvariate(6.5, 1.5) * 1000), ends_ms - began_ms)
            scope = Scope("orders", number % 6)
            found.append(life.says(began_ms, opened(("orders", number % 6), 7, began_ms, scope)))
            closed = e.CircuitClosed(scope, rng.choice(_ENDS), length_ms / 1000)
            found.append(life.says(began_ms + length_ms, closed))
    return found


def main() -> None:
    """Writes each page at 1280 px, in light."""
    FOLDER.mkdir(exist_ok=True)
    rng = random.Random(7)
    with TemporaryDirectory() as made, RealKafka(Path(made) / "kafka") as kafka:
        for topic in ("orders", "orders.dlq"):
            kafka.create_topic(topic, 2)
        scene = Scene(kafka, "orders", "orders.dlq")
        scene.add_letters(_letters(rng))
        store_url = f"sqlite:///{made}/store.sqlite3"
        store = Database(store_url)
        migrate(store)
        store.close()
        with filled(scene, Path(made), store_url, _outages(rng)) as shown, browser() as by:
            page = by.new_page(viewport={"width": 1280, "height": 800}, color_scheme="light")
            for name, path in PAGES.items():
                shown.open(page, path)
                page.screenshot(path=FOLDER / f"{name}.png")


if __name__ == "__main__":
    main()
