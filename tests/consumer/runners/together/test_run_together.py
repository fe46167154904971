"""`run_together` refuses lines that cannot work together, before anything starts."""

import asyncio
from typing import Any

import pytest

from linear_retry import (
    ConfigurationError,
    LinearConsumer,
    RetryTopics,
    UsageError,
    run_together,
    run_together_async,
)
from linear_retry.kafka import Message

_RETRIES = RetryTopics("orders.billing.retry", strategy=[1])
_OTHERS = RetryTopics("orders.invoices.retry", strategy=[1])


def _consumer(topics: Any, group: str = "billing", **options: Any) -> LinearConsumer:
    return LinearConsumer(
        {"bootstrap.servers": "localhost:1", "group.id": group},
        topics,
        strategy=[],
        transient=OSError,
        dead_letters="orders.dlq",
        **options,
    )


def _live(**options: Any) -> LinearConsumer:
    return _consumer(["orders"], **options)


def _handle(_: Message) -> None:
    pytest.fail("handled")


async def _handle_async(_: Message) -> None:
    pytest.fail("handled")


@pytest.mark.parametrize(
    ("live", "retry", "said"),
    [
        (_consumer(_RETRIES), _live(), "takes the live line, then a function"),
        (_live(), _live(), "takes the live line, then a function"),
        (_live(), _consumer(_RETRIES, "invoices"), "give both the same group.id"),
        (_live(on_exhausted=_OTHERS), _consumer(_RETRIES), "give both the same RetryTopics"),
    ],
)
def test_lines_that_do_not_belong_together(
    live: LinearConsumer, retry: LinearConsumer, said: str
) -> None:
    """What leaves the one would never come back by the other."""
    with pytest.raises(ConfigurationError, match=said):
        run_together(live, lambda: retry, _handle, threads=True)


def test_a_consumer_in_place_of_its_function() -> None:
    """It could not go to the other process; the error says what to write."""
    retry: Any = _consumer(_RETRIES)
    with pytest.raises(ConfigurationError, match="write retry_line, not"):
        run_together(_live(on_exhausted=_RETRIES), retry, _handle)
    with pytest.raises(ConfigurationError, match="write retry_line, not"):
        asyncio.run(run_together_async(_live(on_exhausted=_RETRIES), retry, _handle_async))


def test_a_handler_that_would_never_be_awaited() -> None:
    """The error names the function to use."""
    with pytest.raises(UsageError, match="run_together_async"):
        run_together(_live(on_exhausted=_RETRIES), _create, _handle_async)


def test_a_handler_that_cannot_be_imported() -> None:
    """Is refused, and the live line has not started."""
    live = _live(on_exhausted=_RETRIES)
    with pytest.raises(ConfigurationError, match=r"cannot be pickled.*\(threads=True\)"):
        run_together(live, _create, lambda _: None)
    assert "starting" == live.health().state


def _create() -> LinearConsumer:
    return _consumer(_RETRIES, "invoices")


@pytest.mark.parametrize("threads", [False, True])
def test_a_function_that_creates_the_wrong_line(*, threads: bool) -> None:
    """It is called where the line would run, and that ends the live line, too."""
    live = _live(on_exhausted=_RETRIES, start_timeout_s=60.0)
    with pytest.raises(ConfigurationError, match=r"give both the same group\.id"):
        run_together(live, _create, _handle, threads=threads)


def test_a_function_that_cannot_be_imported() -> None:
    """Is named, before anything starts."""
    with pytest.raises(ConfigurationError, match=r"^retry=.*cannot be pickled"):
        run_together(_live(on_exhausted=_RETRIES), lambda: _consumer(_RETRIES), _handle)
