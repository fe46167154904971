"""Tracks a client's membership in its group."""

import struct
from typing import Any

_FORM = b"CGMDv2:"
_EPOCH = struct.Struct("=i")
_LEAVE_POLL_S = 0.05


class GroupMembership:
    """The membership of one client, as far as librdkafka and the callbacks reveal it."""

    def __init__(self, consumer: Any, *, is_kip_848: bool) -> None:
        self._consumer = consumer
        self.is_kip_848 = is_kip_848
        self._lost_epoch = 0
        self.metadata: object | None = None
        """The group metadata with which a transaction may commit for us."""
        self.has_joined_unheard = False
        """Joined without any callback: a KIP-848 member that gets no partition receives none."""
        self.was_member = False
        """Whether this client has ever been in its group, so that it may be again."""

    def note_idle_poll(self) -> None:
        """Checks after an empty poll whether a KIP-848 group has us as a member already."""
        epoch = self._epoch()
        self.has_joined_unheard = epoch is None or epoch > max(self._lost_epoch, 0)
        self.was_member |= (epoch or 0) > 0

    def note_lost(self) -> None:
        """Notes a loss: from then on, that librdkafka takes us for a member proves nothing.

        It does so until a broker says otherwise. Only a later epoch proves a membership.
        """
        self.has_joined_unheard = False
        if self.is_kip_848:
            self._lost_epoch = self._epoch() or 0

    def capture(self) -> None:
        """Keeps the `metadata`, which is None while we are not a member.

        The broker would accept a commit without a member from anyone.
        """
        known = self._consumer.memberid()
        metadata = self._consumer.consumer_group_metadata() if known else None
        self.metadata = metadata if self._consumer.memberid() == known else None

    def leave_without_partitions(self, join_within_s: float) -> None:
        """Leaves a cooperative group that has assigned nothing to us.

        While such a member joins, librdkafka (2.16) closes it without leaving, and its group waits
        for its session to end, with whatever is to move assigned to nobody. To unsubscribe is put
        off until it has joined, which other members' heartbeats delay.
        """
        if self._consumer.assignment() or not self._consumer.memberid():
            return
        self._consumer.unsubscribe()
        for _ in range(round(join_within_s / _LEAVE_POLL_S)):
            self._consumer.poll(_LEAVE_POLL_S)
            if not self._consumer.memberid():
                break

    def _epoch(self) -> int | None:
        return member_epoch(self._consumer.consumer_group_metadata())


def member_epoch(metadata: bytes | None) -> int | None:
    """Returns the member epoch in `consumer_group_metadata()`; below 1: not a member.

    The format is librdkafka's own: a name, then the epoch (as of 2.16). The epoch is -1 before the
    first heartbeat and after leaving, 0 after a join request without an answer or with a refusal,
    and for a member it grows with each change of the group. None if the format is different.
    """
    if metadata is None:
        return -1
    if not metadata.startswith(_FORM) or len(metadata) < len(_FORM) + _EPOCH.size:
        return None
    return int(_EPOCH.unpack_from(metadata, len(_FORM))[0])
