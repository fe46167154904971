"""Is what docs/dead-letters.md says true?"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from confluent_kafka import Producer

from linear_retry.dead_letter import HEADER_NAMES, Death, Record, dead_letter
from linear_retry.kafka.embedded import EmbeddedKafka

_PAGE = (Path(__file__).parent.parent / "docs" / "dead-letters.md").read_text("utf-8")


def test_the_table_has_every_header() -> None:
    """The page's table names each header of ours, and no other."""
    rows = "\n".join(line.split("|")[1] for line in _PAGE.splitlines() if line.startswith("| `"))
    rows = rows.replace(
        "`-message`, `-stack`", "`retry-exception-message`, `retry-exception-stack`"
    )
    assert set(HEADER_NAMES) == set(re.findall(r"`([a-z-]+)`", rows))


def test_the_code_reads_letters(capsys: pytest.CaptureFixture[str]) -> None:
    """The page's code prints the letters of a dead-letter topic."""
    found = re.search(r"```python\n(.*?)```", _PAGE, re.DOTALL)
    assert found is not None
    death = Death("billing", "exhausted", 3, 1, 2, "s@1")
    letter = dead_letter(Record("orders", 3, 1042, 5, b"ann", b"book"), death)
    with EmbeddedKafka() as broker:
        broker.create_topic("orders.dlq", 1)
        producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        producer.produce("orders.dlq", letter.value, letter.key, headers=[*letter.headers()])
        assert 0 == producer.flush(10)
        # Three seconds without a letter are the end here; the page waits longer.
        code = found[1].replace("localhost:9092", broker.bootstrap).replace("poll(10)", "poll(3)")
        exec(compile(code, "dead-letters.md", "exec"), {})
    assert "billing/orders/3/1042/5 1 exhausted None\n" == capsys.readouterr().out
