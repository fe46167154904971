"""What a replay hands to the transactions, letter by letter."""

from collections.abc import Sequence

from linear_retry.dlq.letters.letter import State, read_letter
from linear_retry.dlq.reading.reading import Cluster
from linear_retry.dlq.reading.resolutions import Resolution, Resolutions
from linear_retry.dlq.replay.plan import Plan, Planner
from linear_retry.dlq.replay.recording import Recorder
from linear_retry.dlq.replay.replaying import OpenLetters, RateLimit, send
from linear_retry.records.record import OutgoingRecord, Record
from tests.dlq.sample_letters import our_letter


class _Recorder(Recorder):
    """Keeps what is committed."""

    def __init__(self) -> None:
        cluster = Cluster({"bootstrap.servers": "127.0.0.1:9"})
        super().__init__("orders.dlq", cluster, {"orders.dlq": None})
        self.committed: list[OutgoingRecord] = []

    def commit(self, records: Sequence[OutgoingRecord]) -> None:
        self.committed += records


def test_a_message_without_a_time_has_none_to_keep() -> None:
    """`keep_timestamp`: a message of Kafka Connect would be stamped with -1, the end of all days.

    Its letter says no time; that of sending is the best there is.
    """
    names = ("topic", "partition", "offset")
    headers = [
        (f"__connect.errors.{name}", text)
        for name, text in zip(names, (b"orders", b"3", b"9"), strict=True)
    ]
    connect = read_letter(Record("orders.dlq", 0, 0, 5, b"k", b"v", tuple(headers)))
    recorder = _Recorder()
    with Plan("orders.dlq", keep_timestamp=True) as plan, Resolutions() as resolutions:
        Planner(plan, lambda *_: None).take([our_letter(7), connect])
        sent = send(
            *(plan, recorder, OpenLetters({}, resolutions)),
            Resolution(State.REPLAYED, "test"),
            RateLimit(None),
            None,
        )
    assert 2 == sent
    times = {each.value: each.timestamp_ms for each in recorder.committed if each.partition == 3}
    assert {b"book": 1_795_253_536_817, b"v": None} == times
