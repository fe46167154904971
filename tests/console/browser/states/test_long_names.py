"""Names as long as Kafka allows, on the page of outages."""

from pathlib import Path

import pytest
from playwright.sync_api import Page

from linear_retry.journal.entry import encode
from linear_retry.retry.clock import now_ms
from tests.console.browser.consuming import Line
from tests.journal.journal_story import Life, opened
from tests.kafka_operations import wait_until

pytestmark = pytest.mark.broker

_NAME = "payments.settlement.eu-west-1." + "x" * 215


def test_one_long_name_leaves_the_others_readable(line: Line, page: Page, tmp_path: Path) -> None:
    """Its column took the whole width: of the others, each line had one or two letters."""
    at_ms = now_ms() - 60_000
    lives = [Life("pod-1", group="billing"), Life("pod-2", group=_NAME)]
    entries = [
        lives[0].says(at_ms, opened(("orders", 0), 7, at_ms)),
        lives[1].says(at_ms, opened((_NAME, 0), 7, at_ms)),
    ]
    line.kafka.produce(line.journal, [(0, each.key, encode(each), ()) for each in entries])
    with line.console(tmp_path) as at:
        address = f"{at}/outages"
        rows = page.locator("tbody tr")
        wait_until(lambda: page.goto(address) and rows.count() == 2, "the journal is read")
        for row in rows.all():
            for cell in ("Began", "Group", "End", "First error"):
                box = row.locator(f"[data-name='{cell}']").bounding_box()
                assert box is not None
                assert box["width"] >= 80, cell
