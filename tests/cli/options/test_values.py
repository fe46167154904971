"""Outages are read from options and files, and what is none is refused."""

import re
from pathlib import Path
from tempfile import NamedTemporaryFile

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from linear_retry.cli.options.values import length_ms, read_lengths
from linear_retry.records.durations import duration_text


def parsed(content: bytes) -> tuple[list[int], list[str]]:
    """The outages, and the problems, without the name of the file."""
    problems: list[str] = []
    with NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        outages_ms = read_lengths(Path(file.name), problems)
    assert [] == [problem for problem in problems if not problem.startswith(f"{file.name}:")]
    return outages_ms, [problem.removeprefix(f"{file.name}:") for problem in problems]


@given(st.integers(0, 315_360_000_000))
def test_a_length_is_written_like_a_wait(outage_ms: int) -> None:
    """As a duration, or as a number of seconds, up to ten years."""
    assert outage_ms == length_ms(duration_text(outage_ms), "--outage")
    assert outage_ms == length_ms(f"{outage_ms // 1000}.{outage_ms % 1000:03}", "--outage")


def test_one_outage_on_each_line() -> None:
    """Blank lines and comments are passed over, however the lines end."""
    content = b"# 2025\r\n7m\r\n\r\n90s # deploy\n \n1h30m\n0.25\n\t42"
    assert ([420_000, 90_000, 5_400_000, 250, 42_000], []) == parsed(content)


@pytest.mark.parametrize(
    "text",
    [
        *("-5", "+5", "-7m", "7 m", "7M", "7D", "5m3", "1e3", "nan", "inf", ".5", "5.", "1_0"),
        *("٣", "0x5", "seven", "1,5", "", " 5", "[5]"),
    ],
)
def test_what_is_no_length_is_refused(text: str) -> None:
    """A sign, a space, an unknown unit, another notation: the value, the rule and the remedy."""
    with pytest.raises(typer.BadParameter, match=r"is not a duration; write it as \"2d\""):
        length_ms(text, "--outage")


@pytest.mark.parametrize("text", ["87600h1ms", "315360001", "999999999h", "9" * 400])
def test_what_is_too_long_is_refused(text: str) -> None:
    """More than ten years are refused, however many digits say so."""
    with pytest.raises(typer.BadParameter, match=r"longer than 10 years; write 87600h at most"):
        length_ms(text, "--outage")


def test_each_wrong_line_is_named() -> None:
    """File, line, value, rule and remedy, for each of them."""
    _, problems = parsed(b"7m\n-3 # no\n\n99999999h\n")
    assert ['2: "-3" is not a duration', '4: "99999999h" is longer than'] == [
        re.split(";| 10", problem)[0] for problem in problems
    ]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"\x7fELF\x02\x00\x01", " byte 5 is NUL, so it is not text;"),
        (b"5m\n\xff\n", " byte 3 is not UTF-8;"),
        (b"5" * 70_000, " it is larger than 65536 bytes;"),
    ],
)
def test_a_file_that_holds_no_outages(content: bytes, problem: str) -> None:
    """One sentence for the whole file: what is wrong, and the remedy."""
    _, problems = parsed(content)
    assert [problem] == [f"{found.partition(';')[0]};" for found in problems]


@given(st.binary(max_size=200))
def test_any_bytes_are_outages_or_a_problem(content: bytes) -> None:
    """Never an exception."""
    outages_ms, _ = parsed(content)
    assert [] == [outage_ms for outage_ms in outages_ms if not 0 <= outage_ms <= 315_360_000_000]
