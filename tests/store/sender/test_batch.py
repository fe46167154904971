"""What becomes of a batch of which brokers refuse some messages."""

from linear_retry.kafka import KafkaError
from linear_retry.store.records import StoredMessage
from linear_retry.store.sender.batch import Dead, Held, Shortened, outcomes

_TOO_LARGE = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE, "too large")
_NO_TOPIC = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART, "no topic")


def _message(id_: int, lane_id: int) -> StoredMessage:
    return StoredMessage(
        service="scheduler",
        destination=f"topic-{lane_id}",
        slot="0",
        due_ms=id_,
        key=None,
        value=None,
        retry_id=f"{id_}",
        id=id_,
        lane_id=lane_id,
        stored_ms=0,
    )


_BATCH = [*(_message(n, 1) for n in range(3)), *(_message(n, 2) for n in range(3, 5))]


def test_what_stands_before_a_refused_one_is_sent_first() -> None:
    """Whatever the reason is."""
    assert [Shortened(1, 2), Shortened(2, 1)] == outcomes(_BATCH, {2: _NO_TOPIC, 4: _TOO_LARGE})


def test_a_first_one_that_is_refused_holds_its_lane() -> None:
    """Other lanes have no outcome: they are sent again."""
    assert [Held(_BATCH[3], "no topic (UNKNOWN_TOPIC_OR_PART)")] == outcomes(_BATCH, {3: _NO_TOPIC})


def test_one_that_is_too_large_dies_only_when_sent_by_itself() -> None:
    """Else it may be its batch that is too large."""
    refused = dict.fromkeys(range(3), _TOO_LARGE)
    assert [Shortened(1, 1)] == outcomes(_BATCH, refused)
    dead = Dead(_BATCH[0], "too-large", "too large (MSG_SIZE_TOO_LARGE)")
    assert [dead] == outcomes([_BATCH[0], *_BATCH[3:]], {0: _TOO_LARGE})


def test_a_record_that_its_topic_never_accepts_dies() -> None:
    """Such as one without a key for a compacted topic: its lane would be held for ever."""
    invalid = KafkaError(KafkaError.INVALID_RECORD, "no key")
    assert [Dead(_BATCH[0], "refused", "no key (INVALID_RECORD)")] == outcomes(
        [_BATCH[0]], {0: invalid}
    )
