"""Mutates sound bytes."""

import random
from collections.abc import Callable, Sequence
from typing import TypeAlias

Change: TypeAlias = Callable[[bytes, random.Random], bytes]

MAX_BYTES = 70_000
"""A little more than a strategy may have."""

TOKENS = (
    *rb"""NaN Infinity -Infinity 1e999 -1e999 -0.0 1e-999 5e-324 604800 604800.0001 0 1 1000 1001
    99999999999999999999 1.7976931348623157e308 true false null [] {} [[]] 2.0 0.5 "" "1h1h" "1s1m"
    "168h" "168h1ms" "5s\n" " 5s" "-5s" "1e3s" "\ud800" "\udfff" "\u0000" "\ud83d\ude00" "every"
    "times" "exponential" "initial" "factor" "max" "within" "delays" "jitter" "max_elapsed"
    "description" , : [ ] { } " "7d" {"every":1,"times":2} {"every":1,"every":1} \ // # \u \ud83d
    {"exponential":{"initial":1,"factor":2,"max":5,"times":3}}
    {"exponential":{"initial":1,"within":"1h","times":3}} "max_elapsed":"5m",""".split(),
    *(
        b"\x00",
        b"\xff",
        b"\xef\xbb\xbf",
        b"\xed\xa0\x80",
        b"\xc0\x80",
        b"\xe2\x82",
        b"\xf4\x90\x80\x80",
    ),
    *("٣".encode(), "５".encode(), b"\x1b[31m", b"\r\n", b"9" * 5000, b"[" * 2000, b'{"a":' * 2000),
    *(b" " * 60_000, b'"%b":' % (b"k" * 20_000)),
)


def mutated(content: bytes, others: Sequence[bytes], rng: random.Random) -> bytes:
    """`content` after one to five changes, `MAX_BYTES` at most; `others` may be grafted in."""
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        change = rng.choice(_CHANGES)
        if change is _graft:
            content = _graft(content, rng.choice(others), rng)
        else:
            content = change(content, rng)
    return content[:MAX_BYTES]


def _place(content: bytes, rng: random.Random) -> int:
    return rng.randint(0, len(content))


def _insert(content: bytes, rng: random.Random) -> bytes:
    at = _place(content, rng)
    return content[:at] + rng.choice(TOKENS) + content[at:]


def _replace_value(content: bytes, rng: random.Random) -> bytes:
    """What stands between two separators: a whole number, text or brace."""
    at = [index for index, byte in enumerate(content[:5000]) if byte in b"[]{},:"]
    if len(at) < 2:
        return _insert(content, rng)
    index = rng.randrange(len(at) - 1)
    return content[: at[index] + 1] + rng.choice(TOKENS) + content[at[index + 1] :]


def _cut_out(content: bytes, rng: random.Random) -> bytes:
    start = _place(content, rng)
    return content[:start] + content[start + rng.choice((1, 1, 2, 5, 50)) :]


def _truncate(content: bytes, rng: random.Random) -> bytes:
    return content[: _place(content, rng)]


def _repeat(content: bytes, rng: random.Random) -> bytes:
    start = _place(content, rng)
    part = content[start : start + rng.choice((1, 2, 8, 40, 200))]
    times = rng.choice((2, 2, 3, 10, 100, 2000))
    return (content[:start] + (part * times)[:MAX_BYTES]) + content[start:]


def _flip(content: bytes, rng: random.Random) -> bytes:
    if not content:
        return rng.randbytes(3)
    at = rng.randrange(len(content))
    return content[:at] + bytes([content[at] ^ (1 << rng.randrange(8))]) + content[at + 1 :]


def _nest(content: bytes, rng: random.Random) -> bytes:
    opening, closing = rng.choice(((b"[", b"]"), (b'{"delays":', b"}"), (b'[{"every":', b"}]")))
    depth = rng.choice((1, 1, 2, 100, 3000))
    return opening * depth + content[:5000] + closing * depth


def _graft(content: bytes, other: bytes, rng: random.Random) -> bytes:
    return content[: _place(content, rng)] + other[_place(other, rng) :]


_CHANGES: tuple[Callable[..., bytes], ...] = (
    _insert,
    _replace_value,
    _replace_value,
    _replace_value,
    _replace_value,
    _replace_value,
    _cut_out,
    _truncate,
    _repeat,
    _flip,
    _nest,
    _graft,
)
