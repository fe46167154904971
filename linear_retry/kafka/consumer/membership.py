"""What librdkafka knows of a client's place in its group."""

import struct
from typing import Any

_FORM = b"CGMDv2:"
_EPOCH = struct.Struct("=i")


class GroupMembership:
    """The membership of one handle, as far as librdkafka and the group's callbacks tell."""

    def __init__(self, consumer: Any, *, is_kip_848: bool) -> None:
        self._consumer = consumer
        self.is_kip_848 = is_kip_848
        self._lost_epoch = 0
        self.metadata: object | None = None
        """As which member, of which generation, a transaction may commit for us."""
        self.has_joined_unheard = False
        """In, though no callback says so: a KIP-848 member that gets no partition has none."""
        self.was_member = False
        """Whether this handle has ever been in its group, so that it may be again."""

    def note_idle_poll(self) -> None:
        """A poll of a KIP-848 group has brought nothing: look whether we are in all the same."""
        epoch = self._epoch()
        self.has_joined_unheard = epoch is None or epoch > max(self._lost_epoch, 0)
        self.was_member |= (epoch or 0) > 0

    def note_lost(self) -> None:
        """Something of ours counts as lost: that librdkafka takes us for a member proves nothing.

        It does so for as long as no broker says otherwise. Only a later epoch is a membership.
        """
        self.has_joined_unheard = False
        if self.is_kip_848:
            self._lost_epoch = self._epoch() or 0

    def capture(self) -> None:
        """Keep the `metadata`, which is None while we are no member.

        The broker takes a commit that names no member from anyone.
        """
        known = self._consumer.memberid()
        metadata = self._consumer.consumer_group_metadata() if known else None
        self.metadata = metadata if self._consumer.memberid() == known else None

    def _epoch(self) -> int | None:
        return member_epoch(self._consumer.consumer_group_metadata())


def member_epoch(metadata: bytes | None) -> int | None:
    """The member's epoch in what `consumer_group_metadata()` gives; below 1: no member.

    Its form is librdkafka's own: a name, then the epoch (seen in 2.16). That is -1 before the first
    heartbeat and for who has left, 0 for who has asked to join and has no answer or was refused,
    and with each change of the group more for a member. None where the form is another.
    """
    if metadata is None:
        return -1
    if not metadata.startswith(_FORM) or len(metadata) < len(_FORM) + _EPOCH.size:
        return None
    return int(_EPOCH.unpack_from(metadata, len(_FORM))[0])
