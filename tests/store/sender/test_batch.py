"""What becomes of a batch of which brokers refuse some messages."""

from linear_retry.kafka import KafkaError
from linear_retry.store.records import StoredMessage
from linear_retry.store.sender.batch import Dead, Held, Narrowed, outcomes

_TOO_LARGE = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE, "too large")
_INVALID = KafkaError(KafkaError.INVALID_RECORD, "no key")
_NO_TOPIC = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART, "no topic")


def _message(
    id_: int, lane_id: int, value: bytes | None = None, destination: str = ""
) -> StoredMessage:
    return StoredMessage(
        service="scheduler",
        destination=destination or f"topic-{lane_id}",
        slot="0",
        due_ms=id_,
        key=None,
        value=value,
        retry_id=f"{id_}",
        id=id_,
        lane_id=lane_id,
        stored_ms=0,
    )


_BATCH = [*(_message(n, 1) for n in range(3)), *(_message(n, 2) for n in range(3, 5))]


def _narrowed(*messages: StoredMessage) -> Narrowed:
    return Narrowed(messages[0].destination, frozenset(each.id for each in messages))


def test_what_stands_before_a_refused_one_is_sent_first() -> None:
    """Whatever the reason is."""
    assert [_narrowed(*_BATCH[:2]), _narrowed(_BATCH[3])] == outcomes(
        _BATCH, {2: _NO_TOPIC, 4: _TOO_LARGE}
    )


def test_a_first_one_that_is_refused_holds_its_lane() -> None:
    """Other destinations have no outcome: they are sent again."""
    assert [Held(_BATCH[3], "no topic (UNKNOWN_TOPIC_OR_PART)")] == outcomes(_BATCH, {3: _NO_TOPIC})


def test_one_that_is_too_large_dies_only_when_sent_by_itself() -> None:
    """Else it may be its batch that is too large."""
    refused = dict.fromkeys(range(3), _TOO_LARGE)
    assert [_narrowed(_BATCH[0])] == outcomes(_BATCH, refused)
    dead = Dead(_BATCH[0], "too-large", "too large (MSG_SIZE_TOO_LARGE)")
    assert [dead] == outcomes([_BATCH[0], *_BATCH[3:]], {0: _TOO_LARGE})


def test_one_dies_only_without_other_lanes_of_its_destination() -> None:
    """These may be in the same batch as the record that is to blame."""
    first, second = (_message(n, n, destination="orders") for n in (1, 2))
    assert [_narrowed(first)] == outcomes([first, second], {0: _INVALID, 1: _INVALID})
    assert [_narrowed(second)] == outcomes([first, second], {0: _INVALID})
    assert [Dead(first, "refused", "no key (INVALID_RECORD)")] == outcomes([first], {0: _INVALID})


def test_the_largest_of_a_refused_batch_is_suspected() -> None:
    """What stands before it is sent first, and then it by itself: not each by itself."""
    sizes = (1, 9, 100, 9, 1)
    lane = [_message(n, 1, b"x" * size) for n, size in enumerate(sizes)]
    assert [_narrowed(*lane[:2])] == outcomes(lane, dict.fromkeys(range(5), _TOO_LARGE))
    assert [_narrowed(lane[2])] == outcomes(lane[2:], dict.fromkeys(range(3), _TOO_LARGE))


def test_half_of_what_may_be_to_blame_is_sent_first() -> None:
    """Where nothing shows which of them it is; the order of a lane is kept."""
    lane = [_message(n, 1, b"1") for n in range(9)]
    for error in (_INVALID, _TOO_LARGE):
        assert [_narrowed(*lane[:3])] == outcomes(lane, dict.fromkeys(range(6), error))
        assert [_narrowed(lane[0])] == outcomes(lane[:2], dict.fromkeys(range(2), error))
    assert [_narrowed(lane[0])] == outcomes(lane, dict.fromkeys((0, 2, 3), _INVALID))


def test_a_record_that_its_topic_never_accepts_dies() -> None:
    """Such as one without a key for a compacted topic: its lane would be held for ever."""
    assert [Dead(_BATCH[0], "refused", "no key (INVALID_RECORD)")] == outcomes(
        [_BATCH[0]], {0: _INVALID}
    )
