"""One line of Spark's many gives the cause of an error."""

import pytest

from linear_retry.spark.session import is_concurrent, last_cause

_RUNNING = """An error occurred while calling o30.getResult.
: org.apache.spark.SparkException: Exception thrown in awaitResult:
\tat org.apache.spark.SparkThreadUtils$.awaitResult(SparkThreadUtils.scala:53)
Caused by: {}
\tat java.base/java.lang.Thread.run(Thread.java:840)
"""
_CAST = (
    "org.apache.spark.SparkNumberFormatException: [CAST_INVALID_INPUT] The value 'x' of the type "
    '"STRING" cannot be cast to "INT" because it is malformed. SQLSTATE: 22018'
)
_PARSING = "[PARSE_SYNTAX_ERROR] Syntax error at or near '=='. SQLSTATE: 42601 (line 1, pos 9)"
_FOOTER = "[FAILED_READ_FILE.CANNOT_READ_FILE_FOOTER] Could not read footer. SQLSTATE: KD001"


@pytest.mark.parametrize(
    ("output", "cause"),
    [
        (_RUNNING.format(_CAST), _CAST),
        (f"\n{_PARSING}\n", _PARSING),
        (_FOOTER, _FOOTER),
        (_RUNNING.format("java.io.IOException: disk"), "java.io.IOException: disk"),
        ("", ""),
    ],
)
def test_the_last_cause_is_the_reason(output: str, cause: str) -> None:
    """In one line."""
    assert cause == last_cause(output)


@pytest.mark.parametrize(
    ("text", "is_of_two"),
    [
        ("[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log.", True),
        ("[DELTA_CONCURRENT_DELETE_DELETE] ConcurrentDeleteDeleteException: ...", True),
        ("java.util.concurrent.TimeoutException", False),
    ],
)
def test_the_slower_of_two_writers(text: str, is_of_two: bool) -> None:
    """What only another program's writing explains is told apart from every other error."""
    assert is_of_two == is_concurrent(text)
