"""docs/concepts/off-the-line.md is true."""

import re

from linear_retry import Recovery, RetryTopics, Strategy
from linear_retry.consumer.partitions.queued_read_ahead import MOST_BYTES, MOST_MESSAGES
from linear_retry.records.retry_headers import RETRY_HEADERS
from tests.docs.markdown import code, page, table

_PAGE = page("docs/concepts/off-the-line.md")
_RETRIES = RetryTopics("orders.billing.retry", strategy=Strategy.named("retry-topics"))


def test_the_sequence_is_that_of_the_ready_strategy() -> None:
    """Six steps, three topics."""
    (sequence,) = re.findall(r"`(5m, [^`]+)`: six \*\*steps\*\*, and three topics", _PAGE)
    assert (6, 3) == (len(_RETRIES.strategy), len(_RETRIES.topics))
    written = RetryTopics("orders.billing.retry", strategy=sequence.split(", "))
    assert written.strategy.delays_ms == _RETRIES.strategy.delays_ms


def test_the_headers_are_ours() -> None:
    """Those of the table, and those that identify one wait."""
    ours = {header.name for header in RETRY_HEADERS}
    named = [code(row[0])[0] for row in table(_PAGE, "header")]
    assert {*named} <= ours
    (wait,) = re.findall(r"\*\*One wait is identified by four headers: (.*?)\*\*", _PAGE)
    assert 4 == len(code(wait))
    assert {*code(wait)} <= ours


def test_the_bounds_of_memory_are_those_of_the_code() -> None:
    """On this page, and beside the metrics."""
    assert f"at most {MOST_MESSAGES:,} messages of each partition" in _PAGE
    assert f"{MOST_BYTES // 1_000_000} MB in all" in _PAGE
    assert f"at most {MOST_MESSAGES:,} messages of each" in page("docs/reference/metrics.md")


def test_the_limits_are_those_of_the_code() -> None:
    """20 for retry topics, none for a recovery."""
    assert f"({_RETRIES.limit} by default)" in _PAGE
    assert Recovery(lambda _message, _error: None).limit is None


def test_the_form_with_one_topic_can_be_made() -> None:
    """As the page writes it, with what it says of its end."""
    (written,) = re.findall(r"`(RetryTopics\.single\(\"[^`]+)`", _PAGE)
    made = eval(written, {"RetryTopics": RetryTopics})
    assert (10.0, 300.0) == (made.strategy.delay_s(1), made.strategy.max_elapsed_s)
    assert not made.discards
