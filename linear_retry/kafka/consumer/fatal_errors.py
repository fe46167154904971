"""Distinguishes Kafka's temporary errors from those that end a consumer."""

from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import KafkaError, KafkaException

from linear_retry.errors import BrokerError, FencedError

_FENCED = frozenset({KafkaError.FENCED_INSTANCE_ID, KafkaError._FENCED})
# Told as _FATAL, with the reason in the text only: the older of two in classic groups, the newer
# one in KIP-848 groups, where a name is its member's until the session has ended.
_STILL_USED = "instance id is still used"
_TAKEN = ("fenced", _STILL_USED)
_REFUSED_HEARTBEAT = "ConsumerGroupHeartbeat fatal error: Broker: Invalid request"
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
        # Deleted, or not known yet to a broker that has just started: the other topics go on.
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.UNSTABLE_OFFSET_COMMIT,
        # The group is being rebuilt: the callbacks will say what is still ours.
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
    """Whether only this client cannot go on, and another of the same configuration could.

    One of KIP-848 that is too late for a poll while it sees no coordinator forgets that it has to
    join, and asks as a member of epoch 0 when it sees one: refused, which is fatal (librdkafka 2.16
    each time on its mock cluster; #5541 was the same with the coordinator there).
    """
    is_fatal = error.fatal() or error.code() == KafkaError._FATAL
    return is_fatal and _REFUSED_HEARTBEAT in error.str()


def is_name_taken(error: KafkaError) -> bool:
    """Whether another member of a KIP-848 group has our `group.instance.id`, or had when it died.

    Until its session is over the broker does not tell the one from the other.
    """
    return error.code() == KafkaError._FATAL and _STILL_USED in error.str().lower()


@contextmanager
def as_library_errors() -> Iterator[None]:
    """What librdkafka raises, and nothing else was arranged for, ends it as an error of ours."""
    try:
        yield
    except KafkaException as raised:
        error: KafkaError = raised.args[0]
        raise_if_fatal(error)
        raise BrokerError(
            f"{error.name()}: {error.str()}; nothing unhandled is committed; restart the consumer"
        ) from raised


def raise_if_fatal(error: KafkaError, *, group: str = "", topic: str | None = None) -> None:
    """Raise what waiting cannot fix: a fenced member, a fatal client, a refused right.

    `group` and `topic` are what the error is about, as far as the caller knows.
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
    """Whether it only says that something was fatal; librdkafka tells what in another error."""
    return error.code() == KafkaError._FATAL and not _is_taken(error)


def is_retriable_commit(error: KafkaError) -> bool:
    """Whether the same offsets may be committed with the next commit."""
    return error.retriable() or error.code() in _RETRIABLE_COMMITS


def _is_taken(error: KafkaError) -> bool:
    text = error.str().lower()
    return any(reason in text for reason in _TAKEN)
