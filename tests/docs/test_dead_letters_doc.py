"""docs/dead-letters/format.md is true."""

import re
from typing import Any

import pytest
from confluent_kafka import Message, Producer

from linear_retry.kafka.embedded.cluster import EmbeddedKafka
from linear_retry.kafka.producers.acknowledged import write_all
from linear_retry.kafka.topics.reader import TopicReader
from linear_retry.records.dead_letter import FailureInfo, to_dead_letter
from linear_retry.records.record import OutgoingRecord, Record
from linear_retry.records.retry_headers import HEADER_NAMES
from tests.docs.markdown import page

_PAGE = page("docs/dead-letters/format.md")

_BLOCKS = re.findall(r"```python\n(.*?)```", _PAGE, re.DOTALL)


def test_the_table_has_every_header() -> None:
    """The page's table names each header of ours, and no other."""
    rows = "\n".join(line.split("|")[1] for line in _PAGE.splitlines() if line.startswith("| `"))
    rows = rows.replace(
        "`-message`, `-stack`", "`retry-exception-message`, `retry-exception-stack`"
    )
    assert set(HEADER_NAMES) == set(re.findall(r"`([a-z-]+)`", rows))


def test_the_code_reads_letters(capsys: pytest.CaptureFixture[str]) -> None:
    """The page's code prints the letters of a dead-letter topic."""
    (code,) = [block for block in _BLOCKS if "subscribe" in block]
    failure = FailureInfo("billing", "exhausted", 3, 1, 2, "s@1")
    letter = to_dead_letter(Record("orders", 3, 1042, 5, b"ann", b"book"), failure)
    with EmbeddedKafka() as broker:
        broker.create_topic("orders.dlq", 1)
        producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        producer.produce("orders.dlq", letter.value, letter.key, headers=[*letter.headers()])
        assert 0 == producer.flush(10)
        # Three seconds without a letter are the end here; the page waits longer.
        code = code.replace("localhost:9092", broker.bootstrap).replace("poll(10)", "poll(3)")
        exec(compile(code, "dead-letters.md", "exec"), {})
    assert f"{letter.retry_id} 1 exhausted None\n" == capsys.readouterr().out


def test_the_code_sends_letters_in_transactions() -> None:
    """The page's transactional consumer sends the letter of what is refused, and goes on."""
    (code,) = [block for block in _BLOCKS if "transactional=True" in block]
    names: dict[str, Any] = {}

    def charge(message: Message) -> None:
        if message.value() == b"refused":
            raise ValueError(message.value())
        names["consumer"].stop()

    names["charge"] = charge
    with EmbeddedKafka() as broker:
        for topic in ("orders", "orders.dlq"):
            broker.create_topic(topic, 1)
        keys = {"bootstrap.servers": broker.bootstrap}
        values = (b"refused", b"paid")
        write_all(keys, [OutgoingRecord("orders", b"ann", each, (), 0) for each in values])
        code = code.replace("localhost:9092", broker.bootstrap)
        exec(compile(code, "dead-letters.md", "exec"), names)
        (letter,) = TopicReader({"bootstrap.servers": broker.bootstrap}).read_all("orders.dlq")
    assert (b"refused", b"0") == (letter.value, dict(letter.headers)["retry-original-offset"])
