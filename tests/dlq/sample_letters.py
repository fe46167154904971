"""Letters and records that tests of dead letters draw and make."""

from dataclasses import replace

from hypothesis import strategies as st

from linear_retry.dlq.letters.foreign import FOREIGN
from linear_retry.dlq.letters.letter import Letter, State, read_letter
from linear_retry.dlq.reading.resolutions import Resolution
from linear_retry.records.dead_letter import FailureInfo, to_dead_letter
from linear_retry.records.record import Record
from linear_retry.records.retry_headers import HEADER_NAMES, RETRY_HEADERS
from linear_retry.records.text import ErrorText, Header

INT64_MAX = 2**63 - 1
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
CONTENT = st.none() | st.binary(max_size=40) | TEXT.map(str.encode)
_FOREIGN_NAMES = sorted(
    {
        name
        for form in FOREIGN
        for name in (form.topic, form.partition[0], form.offset[0], *form.exception_type)
    }
)
_OUR_NAMES = sorted(HEADER_NAMES)
_RARE = [each.name for each in RETRY_HEADERS if each.may_be_missing]
_GARBAGE = st.binary(max_size=12) | st.sampled_from(
    [b"-1", b"+1", b" 1", b"1_0", b"9" * 5000, b"9" * 19, b"\xff", b"", b"\0", b"a\0b", b"01", b"0"]
)
REPLAYED: tuple[Header, ...] = (
    ("tenant", b"acme"),
    ("retry-id", b"billing/orders/3/7/158a9adb838c"),
    ("retry-generation", b"1"),
    ("retry-destination", b"orders"),
    ("retry-original-partition", b"3"),
    ("retry-original-offset", b"7"),
    ("retry-original-timestamp-ms", b"1795253536817"),
    ("retry-group-id", b"billing"),
    ("retry-replay-id", b"run-1"),
    ("retry-replay-count", b"1"),
)
"""The headers of `our_letter(7)`, replayed by `run-1`: its own, who it is, which replay sent it."""
HEADERS = st.lists(
    st.tuples(st.sampled_from(_OUR_NAMES), st.none() | _GARBAGE | st.just(b"1"))
    | st.tuples(st.sampled_from(_FOREIGN_NAMES), CONTENT)
    | st.tuples(TEXT, CONTENT),
    max_size=24,
).map(tuple)
_TIME = st.integers(-1, INT64_MAX)
_ERRORS = st.none() | st.builds(ErrorText, TEXT, st.none() | TEXT, st.none() | TEXT)
_FAILURES = st.builds(
    FailureInfo,
    TEXT.filter(bool),
    TEXT.filter(bool),
    st.integers(0, INT64_MAX),
    _TIME,
    _TIME,
    TEXT,
    _ERRORS,
)


def _records(
    topic: str, headers: st.SearchStrategy[tuple[Header, ...]]
) -> st.SearchStrategy[Record]:
    offsets = st.integers(0, INT64_MAX)
    partitions = st.integers(0, 2**31 - 1)
    return st.builds(Record, st.just(topic), partitions, offsets, _TIME, CONTENT, CONTENT, headers)


RECORDS = _records("orders.dlq", HEADERS)
"""Records of a dead-letter topic in which anything may lie."""


OWN_HEADERS: tuple[tuple[Header, ...], ...] = (
    (),
    (("tenant", b"acme"),),
    (("a", b"1"), ("retry-foo", None), ("a", b"\xff")),
)


@st.composite
def our_records(draw: st.DrawFn) -> Record:
    """What a `LinearConsumer` writes, now and then with a header garbled or gone."""
    dead = draw(_records("orders", st.sampled_from(OWN_HEADERS)))
    written = to_dead_letter(dead, draw(_FAILURES)).headers()
    for _ in range(draw(st.integers(0, 2))):
        index = draw(st.integers(0, len(written) - 1))
        name = written[index][0]
        changed = draw(st.sampled_from(["gone", "garbled", "twice"]))
        written = written[:index] + written[index + 1 :]
        if changed != "gone":
            written.insert(index, (name, draw(st.none() | _GARBAGE)))
        if changed == "twice":
            written.append((name, draw(_GARBAGE)))
    if draw(st.booleans()):  # what few letters have, and is read all the same
        written.append((draw(st.sampled_from(_RARE)), draw(_GARBAGE | st.just(b"1"))))
    lying = draw(_records("orders.dlq", st.just(())))
    return replace(lying, key=dead.key, value=dead.value, headers=tuple(written))


RESOLUTIONS = st.builds(
    Resolution,
    st.sampled_from([State.REPLAYED, State.RESOLVED]),
    TEXT,
    st.integers(0, INT64_MAX),
    TEXT,
    st.none() | TEXT,
)


def our_record(
    number: int = 0,
    *,
    reason: str = "exhausted",
    error: ErrorText | None = None,
    key: bytes | None = b"ann",
    value: bytes | None = b"book",
    headers: tuple[Header, ...] = (("tenant", b"acme"),),
    origin: str = "orders",
    partition: int = 3,
) -> Record:
    """The letter of message `number` of a partition, as it lies in `orders.dlq`."""
    at_ms = 1_795_253_536_810 + number
    dead = Record(origin, partition, number, at_ms, key, value, headers)
    failure = FailureInfo(
        "billing", reason, 2, at_ms, at_ms + 1000, "short-outage@0123456789ab", error
    )
    letter = to_dead_letter(dead, failure)
    return Record("orders.dlq", 0, number, at_ms + 2000, key, value, tuple(letter.headers()))


def our_letter(number: int = 0, **more: object) -> Letter:
    """As `our_record`, read."""
    return read_letter(our_record(number, **more))  # type: ignore[arg-type]  # passed on as they are
