"""Other systems' dead letters are read by the table."""

import pytest

from linear_retry.dlq.letters.foreign import DIGITS, FOREIGN, ForeignFormat, Origin
from linear_retry.dlq.letters.letter import read_letter
from linear_retry.records.record import Record
from linear_retry.records.text import Header

_SPRING: dict[str, bytes] = {
    "kafka_dlt-original-topic": b"orders",
    "kafka_dlt-original-partition": (3).to_bytes(4),
    "kafka_dlt-original-offset": (1042).to_bytes(8),
    "kafka_dlt-original-timestamp": (1_795_253_536_810).to_bytes(8),
    "kafka_dlt-original-timestamp-type": b"CreateTime",
    "kafka_dlt-original-consumer-group": b"billing",
    "kafka_dlt-exception-fqcn": b"org.springframework.kafka.ListenerExecutionFailedException",
    "kafka_dlt-exception-cause-fqcn": b"java.net.ConnectException",
    "kafka_dlt-exception-message": b"Listener failed; refused",
    "kafka_dlt-exception-stacktrace": b"java.net.ConnectException: refused\n\tat a.B.c(B.java:1)\n",
}
_CONNECT: dict[str, bytes] = {
    "__connect.errors.topic": b"orders",
    "__connect.errors.partition": b"3",
    "__connect.errors.offset": b"1042",
    "__connect.errors.connector.name": b"warehouse",
    "__connect.errors.task.id": b"0",
    "__connect.errors.stage": b"VALUE_CONVERTER",
    "__connect.errors.class.name": b"org.apache.kafka.connect.json.JsonConverter",
    "__connect.errors.exception.class.name": b"org.apache.kafka.connect.errors.DataException",
    "__connect.errors.exception.message": b"Converting byte[] failed",
    "__connect.errors.exception.stacktrace": b"org.apache...DataException\n\tat a.B.c(B.java:1)\n",
}


def _record(headers: dict[str, bytes]) -> Record:
    found: tuple[Header, ...] = (("tenant", b"acme"), *headers.items())
    return Record("orders.DLT", 1, 9, 1_795_253_600_000, b"ann", b"book", found)


def test_a_letter_of_spring_kafka() -> None:
    """Its integers are big-endian; the cause's type counts, since the exception is a wrapper."""
    letter = read_letter(_record(_SPRING))
    assert ("spring-kafka", None, "foreign/orders.DLT/1/9/61a9f605e634", 1) == (
        letter.format,
        letter.problem,
        letter.id,
        letter.generation,
    )
    assert Origin("orders", 3, 1042, 1_795_253_536_810) == letter.origin
    assert ("billing", None, None) == (letter.group_id, letter.reason, letter.failures)
    assert "java.net.ConnectException" == letter.exception_type
    assert "Listener failed; refused" == letter.exception_message
    assert letter.exception_stack is not None
    assert "B.java:1" in letter.exception_stack


def test_a_letter_of_an_older_spring_kafka() -> None:
    """Before 2.8 there is neither a cause nor a group: the exception's own type is there."""
    newer = {"kafka_dlt-exception-cause-fqcn", "kafka_dlt-original-consumer-group"}
    letter = read_letter(_record({k: v for k, v in _SPRING.items() if k not in newer}))
    assert (letter.exception_type or "").endswith("ListenerExecutionFailedException")
    assert letter.group_id is None


def test_a_letter_of_kafka_connect() -> None:
    """Its numbers are text; a sink connector's group is `connect-` and its name; no timestamp."""
    letter = read_letter(_record(_CONNECT))
    assert ("kafka-connect", None) == (letter.format, letter.problem)
    assert Origin("orders", 3, 1042, -1) == letter.origin
    assert ("connect-warehouse", "VALUE_CONVERTER") == (letter.group_id, letter.reason)
    assert "org.apache.kafka.connect.errors.DataException" == letter.exception_type
    assert "Converting byte[] failed" == letter.exception_message


@pytest.mark.parametrize(
    ("headers", "name", "content"),
    [
        (_SPRING, "kafka_dlt-original-partition", b"3"),
        (_SPRING, "kafka_dlt-original-offset", b"\0\0\0\x07"),
        (_CONNECT, "__connect.errors.offset", b"ten"),
        (_CONNECT, "__connect.errors.partition", b"\0\0\0\x03"),
    ],
)
def test_what_is_garbled_is_reported_and_the_rest_is_read(
    headers: dict[str, bytes], name: str, content: bytes
) -> None:
    """A number that is none is a problem of the letter, never an error; its topic stays known."""
    letter = read_letter(_record(headers | {name: content}))
    assert letter.origin is not None
    assert "orders" == letter.origin.topic
    assert (letter.problem or "").startswith(f"{name} is ")


def test_texts_that_are_no_utf_8_are_read_all_the_same() -> None:
    """A stack trace in another encoding is no reason to show nothing."""
    letter = read_letter(_record(_SPRING | {"kafka_dlt-exception-message": b"caf\xe9"}))
    assert ("caf\ufffd", None) == (letter.exception_message, letter.problem)


def test_a_source_connectors_letter_has_no_origin() -> None:
    """Where the topic is empty, the letter says that nobody knows where it came from."""
    letter = read_letter(_record(_CONNECT | {"__connect.errors.topic": b""}))
    assert letter.origin is None
    assert "__connect.errors.topic" in (letter.problem or "")


def test_a_further_system_is_one_row_more() -> None:
    """The table is data: a row is all that a new format needs."""
    row = ForeignFormat(
        name="others",
        prefixes=("dead-letter-",),
        topic="dead-letter-topic",
        partition=("dead-letter-partition", DIGITS),
        offset=("dead-letter-offset", DIGITS),
        reason=("dead-letter-reason",),
    )
    headers = {
        "dead-letter-topic": b"t",
        "dead-letter-partition": b"1",
        "dead-letter-reason": b"no",
    }
    letter = read_letter(_record(headers), formats=(*FOREIGN, row))
    assert ("others", Origin("t", 1, None), "no") == (letter.format, letter.origin, letter.reason)


@pytest.mark.parametrize("form", FOREIGN, ids=lambda form: form.name)
def test_each_rows_headers_begin_with_its_prefixes(form: ForeignFormat) -> None:
    """A replay leaves out what begins with it: none of a system's own headers goes along."""
    names = {
        *(form.topic, form.partition[0], form.offset[0]),
        *form.reason,
        *form.exception_type,
        *form.exception_message,
        *form.exception_stack,
    }
    assert [] == [name for name in names if not name.startswith(form.prefixes)]
