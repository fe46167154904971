"""The errors that a broker may answer with."""

from confluent_kafka import KafkaError

from linear_retry.kafka.embedded.mock_cluster import RequestKind

_COORDINATOR = (KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_LOAD_IN_PROGRESS)
_OUT = (KafkaError.UNKNOWN_MEMBER_ID,)
_CUT = (KafkaError._TRANSPORT,)
MEMBERS_ERRORS: dict[str, dict[RequestKind, tuple[int, ...]]] = {
    "classic": {
        "Heartbeat": (
            *(*_COORDINATOR, *_OUT, *_CUT),
            KafkaError.REBALANCE_IN_PROGRESS,
            KafkaError.ILLEGAL_GENERATION,
        ),
        "JoinGroup": (*_COORDINATOR, *_OUT),
        "SyncGroup": (*_COORDINATOR, KafkaError.REBALANCE_IN_PROGRESS),
        "OffsetCommit": (
            *(*_COORDINATOR, *_OUT, *_CUT),
            KafkaError.REBALANCE_IN_PROGRESS,
            KafkaError.ILLEGAL_GENERATION,
        ),
    },
    "consumer": {
        "ConsumerGroupHeartbeat": (
            *(*_COORDINATOR, *_OUT, *_CUT),
            KafkaError.FENCED_MEMBER_EPOCH,
        ),
        "OffsetCommit": (*_COORDINATOR, *_OUT, *_CUT, KafkaError.STALE_MEMBER_EPOCH),
    },
}
"""What a broker may answer those who ask as members."""
EVERYONES_ERRORS: dict[RequestKind, tuple[int, ...]] = {
    "Fetch": (
        *_CUT,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.KAFKA_STORAGE_ERROR,
    ),
    "OffsetFetch": _COORDINATOR,
    "FindCoordinator": (KafkaError.COORDINATOR_NOT_AVAILABLE,),
    "ListOffsets": (KafkaError.NOT_LEADER_FOR_PARTITION, *_CUT),
    "Metadata": _CUT,
    "Produce": (*_CUT, KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.NOT_ENOUGH_REPLICAS),
}
"""What it may answer anyone.

Not OFFSET_OUT_OF_RANGE to a fetch of what is there: a broker that says so has lost it, and the
consumer reports a loss, as it must, that never was. `delete_records` takes what is really gone.
"""
