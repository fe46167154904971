"""Asks a cluster which consumer groups are active, without joining one."""

from collections.abc import Callable, Collection, Container, Iterable, Mapping
from typing import Any

from confluent_kafka import Consumer, ConsumerGroupState, ConsumerGroupType, KafkaException
from confluent_kafka.admin import AdminClient

from linear_retry.kafka.consumer.committed import Committed
from linear_retry.kafka.consumer.settings import connection
from linear_retry.kafka.quiet import QUIET
from linear_retry.kafka.topics.standalone_consumer import ANSWER_TIMEOUT_S
from linear_retry.scope import Partition

_OFFSETS_S = 3.0  # the full wait is spent if we may not query the group
_WITHOUT_MEMBERS = (ConsumerGroupState.EMPTY, ConsumerGroupState.DEAD)


class Groups:
    """The consumer groups of one cluster. Never raises: what cannot be queried is unknown."""

    def __init__(
        self,
        config: Mapping[str, Any],
        timeout_s: float = ANSWER_TIMEOUT_S,
        admin: Callable[..., Any] = AdminClient,
        consumer: Callable[..., Any] = Consumer,
    ) -> None:
        """`config` are librdkafka's keys."""
        self._config = QUIET | connection(config)
        self._timeout_s = timeout_s
        self._admin = admin
        self._consumer = consumer
        self._handle: Any = None

    def active(self) -> frozenset[str]:
        """Returns the groups that have members, without those that we may not describe."""
        return frozenset(name for name, has_members in self._named() if has_members)

    def reading(
        self, partitions: Collection[Partition], but: Container[str], now_s: Callable[[], float]
    ) -> list[str]:
        """Returns the groups, except `but`, that have committed offsets of these partitions.

        As many as answer in time; those that have members first.
        """
        give_up_at_s = now_s() + self._timeout_s
        asked = sorted(self._named(), key=lambda each: (not each[1], each[0]))
        return [
            name
            for name, _ in asked
            if name not in but and now_s() < give_up_at_s and self.has_committed(name, partitions)
        ]

    def listed(self) -> dict[str, bool | None]:
        """Returns of each group that we may describe whether it has members; None: unknown.

        Without an answer, it is empty: a group that is missing is not known to be gone.
        """
        # Not describe_consumer_groups: a coordinator that does not answer in time crashes the
        # process (librdkafka #4605).
        if self._handle is None:
            self._handle = self._admin(self._config)
        try:
            listed = self._handle.list_consumer_groups(request_timeout=self._timeout_s)
            found = listed.result(self._timeout_s + 1)
        except (KafkaException, TimeoutError):
            self._handle = None  # it may have lost all brokers for good
            return {}
        return {each.group_id: _has_members(each) for each in found.valid}

    def _named(self) -> list[tuple[str, bool]]:
        """The name of each group, and whether it has members, or may have."""
        return [(name, has_members is not False) for name, has_members in self.listed().items()]

    def has_committed(self, group_id: str, partitions: Iterable[Partition]) -> bool | None:
        """Whether it has committed an offset for one of them; None: no answer."""
        offsets = self.committed(group_id, partitions)
        return None if offsets is None else bool(offsets)

    def committed(
        self, group_id: str, partitions: Iterable[Partition]
    ) -> dict[Partition, int] | None:
        """The offset that it has committed for each, where it has; None: no answer."""
        found = self.committed_with_notes(group_id, partitions)
        return None if found is None else {key: offset for key, (offset, _) in found.items()}

    def committed_with_notes(
        self, group_id: str, partitions: Iterable[Partition]
    ) -> dict[Partition, tuple[int, str]] | None:
        """As `committed`, each with the text beside it, empty for none."""
        committed = Committed(self._config, group_id, self._consumer)
        try:
            return committed.ask_with_notes(partitions, min(_OFFSETS_S, self._timeout_s))
        finally:
            committed.close()


def _has_members(listed: Any) -> bool | None:
    if listed.state is not ConsumerGroupState.UNKNOWN:
        return listed.state not in _WITHOUT_MEMBERS
    # Of the new protocol (KIP-848) the client does not know the states between members' coming and
    # their first assignment; brokers before Kafka 2.6 say no state at all.
    return True if listed.type is ConsumerGroupType.CONSUMER else None
