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
    assert text.stack.endswith("builtins.Exception: no answer\n")


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


def test_causes_come_first_and_the_error_last() -> None:
    """A chain reads as Python prints it."""
    stack = _stack(_chain_of(3))
    assert stack.index("the first") < stack.index("ValueError: 1") < stack.index("ValueError: 2")


def test_a_suppressed_context_is_left_out() -> None:
    """`raise ... from None` says that the context is of no interest."""
    error = KeyError("lost")
    error.__context__, error.__suppress_context__ = ValueError("hidden"), True
    assert "hidden" not in _stack(error)


def test_a_context_is_told_from_a_cause() -> None:
    """What was being handled is introduced as that."""
    error = KeyError("lost")
    error.__context__ = ValueError("seen")
    assert "ValueError: seen\n\nDuring handling of the above exception" in _stack(error)


@pytest.mark.parametrize("length", [10_000, 100_000])
def test_a_long_chain_keeps_what_is_nearest(length: int) -> None:
    """Of a chain without end the error itself and the nearest causes stay."""
    stack = _stack(_chain_of(length))
    assert stack.endswith(f"ValueError: {length - 1}\n")
    assert "the first" not in stack


def test_a_chain_in_a_circle_ends() -> None:
    """An exception that is its own cause's cause is described once."""
    one, other = ValueError("one"), ValueError("other")
    one.__cause__, other.__cause__ = other, one
    assert 1 == _stack(one).count("ValueError: one")


def test_a_group_shows_its_first_leaves() -> None:
    """A group says what its first members are, nested or not, but never all ten thousand."""
    inner = ExceptionGroup("inner", [ValueError("leaf 0"), ValueError("leaf 1")])
    many = [ValueError(f"leaf {n}") for n in range(2, 10_000)]
    stack = _stack(ExceptionGroup("outer", [inner, *many]))
    assert stack.endswith("ExceptionGroup: outer (9999 sub-exceptions)\n")
    assert ["leaf 0" in stack, "leaf 2" in stack, "leaf 3" in stack] == [True, True, False]


def test_a_deeply_nested_group_is_described() -> None:
    """Nesting beyond Python's recursion limit is no obstacle."""
    group: Exception = ValueError("the leaf")
    for _ in range(3000):
        group = ExceptionGroup("nest", [group])
    assert "the leaf" in _stack(group)


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
