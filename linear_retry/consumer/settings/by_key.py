"""Order by key: what a key is, what opens the wide circuit, and how much may be held."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeAlias, get_args

from linear_retry.errors import ConfigurationError
from linear_retry.kafka import Message
from linear_retry.kafka.consumer.messages import KeyOf, key_of, partition_of, place_of, safe_headers
from linear_retry.log.lines import log_topic_problem
from linear_retry.records.commit_note import Digests
from linear_retry.retry.callables import why_not
from linear_retry.scope import UNKEYED, Partition, Scope, ScopeKind

Unkeyed: TypeAlias = Literal["in-order", "any"]
LaneOf: TypeAlias = Callable[[Message], Scope]
"""Gives the lane of a message: its unit of order."""
_KNOWN_LANES = 10_000
_LONGEST_ID = 40
"""Characters: it is in each note beside a committed offset."""


@dataclass(frozen=True, slots=True)
class ByKey:
    """The scope in which a failure holds the later messages of its key, and of no other.

    Many keys that fail at once are an outage: where `trip` distinct keys fail for the first time
    and no message succeeds in between, or `most_held` are held, a wide circuit opens, over what
    `opens` says: all assigned partitions, the topic, or the partition. Then one message at a time
    is attempted, after waits of at most `probe_max_s`, until one succeeds. A topic with fewer keys
    than `trip` has no wide circuit.

    Where partitions are revoked, their handlers are waited for, `revoke_wait_s` at most; None:
    until 80 % of `max.poll.interval.ms` since the last poll. What a later one does is done again.

    What waits behind held messages stays in memory as long as all that is there is at most
    `most_bytes`; the rest is read again, by a second client, once its key has recovered.

    Messages without a key are in the order of their partition (`unkeyed="in-order"`), or each by
    itself (`"any"`). `key` gives a message its key, `bytes`, `str` or None, in place of Kafka's: a
    quick and pure function, called on the consumer's own thread. A message for which it raises, or
    returns anything else, counts as one without a key, which is logged. `key_id` is the name of
    that function with its version, such as `"tenant-2"`: the notes beside committed offsets go by
    its keys, so those of another are refused.

    Raises `ConfigurationError`.
    """

    trip: int = 5
    opens: ScopeKind = "consumer"
    most_held: int = 100
    most_bytes: int = 64_000_000
    probe_max_s: float = 60.0
    revoke_wait_s: float | None = None
    unkeyed: Unkeyed = "in-order"
    key: Callable[[Message], bytes | str | None] | None = None
    key_id: str = ""

    def __post_init__(self) -> None:
        for name, least in (("trip", 2), ("most_held", 1), ("most_bytes", 1)):
            value: object = getattr(self, name)
            if type(value) is not int or value < least:
                raise ConfigurationError(
                    f"ByKey({name}={value!r}): must be a whole number from {least} on"
                )
        for name, allowed in (("opens", get_args(ScopeKind)), ("unkeyed", get_args(Unkeyed))):
            if (chosen := getattr(self, name)) not in allowed:
                raise ConfigurationError(
                    f"ByKey({name}={chosen!r}): must be one of {', '.join(map(repr, allowed))}"
                )
        self._check_key()
        for name in ("probe_max_s", "revoke_wait_s"):
            seconds: object = getattr(self, name)
            is_left_out = name == "revoke_wait_s" and seconds is None
            if not is_left_out and not _is_wait(seconds):
                raise ConfigurationError(
                    f"ByKey({name}={seconds!r}): must be a number of seconds above 0"
                )

    def _check_key(self) -> None:
        named: object = self.key_id
        if not isinstance(named, str) or not named.isascii() or len(named) > _LONGEST_ID:
            raise ConfigurationError(
                f"ByKey(key_id={named!r}): must be at most {_LONGEST_ID} ASCII characters"
            )
        if self.key is None:
            if named:
                raise ConfigurationError(
                    f"ByKey(key_id={named!r}): it names a function, and key= is not given"
                )
            return
        refusal = why_not(self.key, 1)
        if refusal is not None:
            raise ConfigurationError(
                f"ByKey(key={self.key!r}): not a function of one message ({refusal})"
            )
        if not named:
            raise ConfigurationError(
                f"ByKey(key={self.key!r}): key_id is missing; name the function with its version, "
                'such as key_id="tenant-1", and change that whenever a message would get another '
                "key"
            )


def _is_wait(seconds: object) -> bool:
    return type(seconds) in (int, float) and 0 < seconds < float("inf")  # type: ignore[operator]  # a number


def key_function(by_key: ByKey | None) -> KeyOf:
    """Returns what gives a message its key: Kafka's own, unless there is `ByKey(key=...)`."""
    return key_of if by_key is None or by_key.key is None else _OwnKey(by_key.key)


@dataclass(frozen=True, slots=True)
class Order:
    """What is done in order: the messages of a partition, or of each key in it.

    `lane_of` gives a message its unit of order. `name` tells this order from others; empty: it is
    that of partitions.
    """

    key_of: KeyOf
    lane_of: LaneOf
    name: str = ""


def order_of(by_key: ByKey | None, group_id: str) -> Order:
    """Returns the order of a group's consumer."""
    key_of = key_function(by_key)
    if by_key is None:
        return Order(key_of, lambda message: Scope(*partition_of(message)))
    digests, in_order = Digests(group_id), by_key.unkeyed == "in-order"

    @lru_cache(_KNOWN_LANES)  # one object for a key: it is looked up ten times for each message
    def lane_of_digest(partition: Partition, digest: bytes) -> Scope:
        return Scope(*partition, digest.hex())

    def lane_of(message: Message) -> Scope:
        key = key_of(message)
        if key is not None:
            return lane_of_digest(partition_of(message), digests.of_key(key))
        # All without a key are one lane, whatever a key's digest is; or each is one.
        name = UNKEYED if in_order else f"{UNKEYED}@{message.offset()}"
        return Scope(*partition_of(message), name)

    return Order(key_of, lane_of, f"key/{by_key.unkeyed}/{by_key.key_id}")


class _OwnKey:
    """The user's function, which never ends the consumer: it would do so again at each start."""

    def __init__(self, key: Callable[[Message], object]) -> None:
        self._key = key
        self._told: set[type[Exception]] = set()

    def __call__(self, message: Message) -> bytes | None:
        safe_headers(message)  # else the first call for a message might raise, and the next not
        try:
            return self._checked(self._key(message))
        except Exception as error:  # noqa: BLE001  (it may raise anything)
            self._tell(message, error)
            return None

    def _checked(self, key: object) -> bytes | None:
        if isinstance(key, str):
            return key.encode()
        if key is None or isinstance(key, bytes):
            return key
        raise TypeError(f"it returned a {type(key).__name__}: must be bytes, str or None")

    def _tell(self, message: Message, error: Exception) -> None:
        if type(error) in self._told:
            return
        self._told.add(type(error))
        place = place_of(message)
        log_topic_problem(
            place.topic,
            f"{place}: ByKey(key=...) gave it no key ({error!r}): it is handled among those "
            "without one, as all will be for which that happens; this is logged once",
        )
