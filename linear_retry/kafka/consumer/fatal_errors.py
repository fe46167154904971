"""Distinguishes Kafka's temporary errors from those that end a consumer."""

from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import KafkaError, KafkaException

from linear_retry.errors import BrokerError, FencedError

_FENCED = frozenset({KafkaError.FENCED_INSTANCE_ID, KafkaError._FENCED})
# Reported as _FATAL, with the reason only in the text: the older of two members in classic groups,
# the newer one in KIP-848 groups, where a name stays taken until the session has ended.
_STILL_USED = "instance id is still used"
_TAKEN = ("fenced", _STILL_USED)
_REFUSED_HEARTBEAT = "ConsumerGroupHeartbeat fatal error: Broker: "
_CURED_BY_ANOTHER = ("Invalid request", "The group id does not exist")
_RETRIABLE_COMMITS = frozenset(
    {
        KafkaError._TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._WAIT_COORD,
        KafkaError._IN_PROGRESS,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.NOT_ENOUGH_REPLICAS,
        KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        # Deleted, or not yet known to a broker that has just started: the other topics continue.
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.UNSTABLE_OFFSET_COMMIT,
        # The group is rebalancing: the callbacks will report what is still ours.
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.STALE_MEMBER_EPOCH,
        KafkaError._ASSIGNMENT_LOST,
        KafkaError._STATE,
        KafkaError._DESTROY,
    }
)
_REFUSALS = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError._UNSUPPORTED_FEATURE,
        KafkaError.UNSUPPORTED_ASSIGNOR,
        KafkaError.INCONSISTENT_GROUP_PROTOCOL,
    }
)


def needs_new_client(error: KafkaError) -> bool:
    """Whether only this client cannot continue, but a new one with the same configuration could.

    A KIP-848 member that exceeds the poll interval without a coordinator forgets that it must join,
    and later sends a heartbeat with epoch 0. The refusal is fatal (librdkafka 2.16, every time on
    its mock cluster; #5541 was the same with the coordinator there). Nor does a broker that was
    killed and has just started always know the group yet (Kafka 4.1): the next to join creates it.
    """
    is_fatal = error.fatal() or error.code() == KafkaError._FATAL
    return is_fatal and any(
        f"{_REFUSED_HEARTBEAT}{reason}" in error.str() for reason in _CURED_BY_ANOTHER
    )


def is_name_taken(error: KafkaError) -> bool:
    """Whether another KIP-848 member, live or killed, holds our `group.instance.id`.

    The broker cannot distinguish the two until the session ends.
    """
    return error.code() == KafkaError._FATAL and _STILL_USED in error.str().lower()


@contextmanager
def as_library_errors() -> Iterator[None]:
    """Turns an unexpected exception of librdkafka into one of ours."""
    try:
        yield
    except KafkaException as raised:
        error: KafkaError = raised.args[0]
        raise_if_fatal(error)
        raise BrokerError(
            f"{error.name()}: {error.str()}; nothing unhandled is committed; restart the consumer"
        ) from raised


def raise_if_fatal(error: KafkaError, *, group: str = "", topic: str | None = None) -> None:
    """Raises what retrying cannot fix: a fenced member, a fatal client, a missing permission.

    `group` and `topic` are what the error concerns, if the caller knows.
    """
    code = error.code()
    if code in _FENCED or (code == KafkaError._FATAL and _is_taken(error)):
        raise FencedError(
            f"{error.str()}: another member has this group.instance.id; give each running "
            "member its own, and after a crash wait until its session has ended"
        )
    if error.fatal() or code == KafkaError._FATAL:
        raise BrokerError(
            f"{error.name()}: {error.str()}; the client cannot continue: restart the consumer"
        )
    if code in _REFUSALS:
        remedy = _remedy(code, group, topic)
        raise BrokerError(f"{error.name()}: {error.str()}; {remedy}")


def _remedy(code: int, group: str, topic: str | None) -> str:
    if code == KafkaError.GROUP_AUTHORIZATION_FAILED:
        return f"give this user READ on {f'group {group}' if group else 'the group'}"
    if code == KafkaError.TOPIC_AUTHORIZATION_FAILED:
        where = f"topic {topic}" if topic else "the topics that it consumes"
        return f"give this user READ and DESCRIBE on {where}"
    return "give this user the permission, or correct the request"


def is_unexplained(error: KafkaError) -> bool:
    """Whether it reports a fatal error without its cause, which librdkafka reports separately."""
    return error.code() == KafkaError._FATAL and not _is_taken(error)


def is_retriable_commit(error: KafkaError) -> bool:
    """Whether the next commit may include the same offsets again."""
    return error.retriable() or error.code() in _RETRIABLE_COMMITS


def _is_taken(error: KafkaError) -> bool:
    text = error.str().lower()
    return any(reason in text for reason in _TAKEN)
