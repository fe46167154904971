"""Reads from librdkafka's metadata whether a client is in a KIP-848 group."""

from __future__ import annotations

import struct

_FORM = b"CGMDv2:"
_EPOCH = struct.Struct("=i")


def member_epoch(metadata: bytes | None) -> int | None:
    """Below 1: no member. `metadata` is what `consumer_group_metadata()` gives.

    Its form is librdkafka's own: a name, then the member's epoch (seen in 2.16). That is -1 before
    the first heartbeat and for who has left, 0 for who has asked to join and has no answer or was
    refused, and with each change of the group more for a member. None where the form is another.
    """
    if metadata is None:
        return -1
    if not metadata.startswith(_FORM) or len(metadata) < len(_FORM) + _EPOCH.size:
        return None
    return int(_EPOCH.unpack_from(metadata, len(_FORM))[0])
