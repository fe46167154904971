"""Any exception is described briefly, by what says most."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linear_retry.records.text import (
    MESSAGE_LIMIT_BYTES,
    STACK_LIMIT_BYTES,
    ErrorText,
    brief,
    describe,
)


class _MuteError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def _raised(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as caught:  # noqa: BLE001  (gives any error its traceback)
        return caught


def _recurse(depth: int) -> None:
    if depth == 0:
        raise ValueError("at the bottom")
    _recurse(depth - 1)


def _chain_of(length: int) -> BaseException:
    error: BaseException = ValueError("the first")
    for number in range(length):
        later = ValueError(f"{number}")
        later.__cause__ = error
        error = later
    return error


def _stack(error: BaseException) -> str:
    stack = describe(error).stack
    assert stack is not None
    assert len(stack.encode()) <= STACK_LIMIT_BYTES
    return stack


def test_type_message_and_stack() -> None:
    """The type is qualified, the message is the error's text, the stack ends with both."""
    text = describe(_raised(Exception("no answer")))
    assert ErrorText("builtins.Exception", "no answer", text.stack) == text
    assert text.stack is not None
    assert text.stack.startswith("Traceback (most recent call last):\n")
    assert "    raise error\n" in text.stack
    assert text.stack.endswith("\nException: no answer\n")


@given(st.text(st.characters(), max_size=3000))
def test_any_message_fits_and_is_unicode(message: str) -> None:
    """Any text, with lone surrogates too, becomes at most 1 KiB of UTF-8."""
    text = describe(ValueError(message))
    assert text.message is not None
    assert len(text.message.encode()) <= MESSAGE_LIMIT_BYTES
    assert text.message == message.encode("utf-8", "replace").decode()[: len(text.message)]


def test_an_error_without_a_text_is_described() -> None:
    """An exception whose `__str__` raises is described all the same."""
    text = describe(_raised(_MuteError()))
    assert "<the exception's __str__ raised an exception>" == text.message
    assert text.type.endswith("_MuteError")


def test_the_end_of_a_deep_traceback_is_kept() -> None:
    """Of a thousand frames those nearest to the raise stay."""
    with pytest.raises(ValueError, match="bottom") as caught:
        _recurse(500)
    stack = _stack(caught.value)
    assert 'raise ValueError("at the bottom")' in stack
    assert "test_the_end_of_a_deep_traceback_is_kept" not in stack


def test_a_huge_message_does_not_push_the_frames_out() -> None:
    """A message of a megabyte leaves room for the frames and for the cause."""
    try:
        try:
            _recurse(1)
        except ValueError as cause:
            raise KeyError("x" * 1_000_000) from cause
    except KeyError as error:
        stack = _stack(error)
    assert 'raise ValueError("at the bottom")' in stack
    assert "direct cause of the following exception:\n\nTraceback" in stack
    assert 'raise KeyError("x" * 1_000_000)' in stack


def test_a_long_chain_keeps_what_is_nearest() -> None:
    """Of a chain without end the error itself and the nearest causes stay."""
    stack = _stack(_chain_of(10_000))
    assert stack.endswith("ValueError: 9999\n")
    assert "the first" not in stack


@pytest.mark.parametrize("depth", [2, 3000])
def test_a_nested_group_is_described(depth: int) -> None:
    """Nesting beyond Python's recursion limit is no obstacle."""
    group: Exception = ValueError("the leaf")
    for _ in range(depth):
        group = ExceptionGroup("nest", [group])
    assert ("the leaf" in _stack(group)) == (depth == 2)


def test_the_brief_form_is_one_line_without_control_characters() -> None:
    """Whatever a `__repr__` returns: no line of a log is forged by it, and no terminal changed. The
    bug: newlines and ESC of an exception's own went into logs, journal and metrics as they were."""

    class ForgingError(Exception):
        def __repr__(self) -> str:
            return "down\nERROR all is well\r\x1b[31m\x00\x85\u2028é"

    assert r"down\nERROR all is well\r\x1b[31m\x00\x85\u2028é" == brief(ForgingError())


def test_the_brief_form_is_short_when_escaped_too() -> None:
    """1 KiB at most, also where every character takes four."""

    class NoisyError(Exception):
        def __repr__(self) -> str:
            return "\x1b" * 5000

    assert 1024 == len(brief(NoisyError()))
