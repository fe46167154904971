"""How does a consumer end in bounded time, whatever the brokers do?"""

from __future__ import annotations

import threading
from collections.abc import Sequence

from linear_retry.consumer.state import Parts
from linear_retry.events import ClientError, Revoked, Stopped
from linear_retry.kafka import KafkaException
from linear_retry.scope import Partition

_SEND_AGAIN_S = 0.5
_LEFT_BEHIND: list[object] = []
"""Handles whose close did not return: freed, librdkafka would wait for them again, for ever."""


def close(parts: Parts, *, commit: bool, timeout_s: float) -> None:
    """Commit what is done, say goodbye, leave the group. Returns after `timeout_s` at the latest.

    librdkafka's own `close` takes no timeout: it waits 45 s for a pending commit with the brokers
    down, and for minutes where the member was fenced. So the commit is sent off and awaited here,
    and the bare close has a thread of its own.
    """
    give_up_at_s = parts.clock.now_s() + timeout_s
    try:
        if commit:
            _commit(parts, give_up_at_s - timeout_s / 2)
        _say_goodbye(parts)
    finally:
        # Also where a Ctrl-C came, or a listener leaves with SystemExit: a member that stays behind
        # keeps its partitions standing still for max.poll.interval.ms.
        parts.client.disarm()
        _leave(parts, give_up_at_s, timeout_s)


def _say_goodbye(parts: Parts) -> None:
    partitions = parts.assignment.partitions
    if partitions:
        parts.emit(Revoked(partitions))
    parts.emit(Stopped(left_group=parts.settings.static_member is None))


def _leave(parts: Parts, give_up_at_s: float, timeout_s: float) -> None:
    refusals: list[KafkaException] = []

    def leave() -> None:
        try:
            parts.client.close()
        except KafkaException as error:
            refusals.append(error)

    ender = threading.Thread(target=leave, name="linear_retry close", daemon=True)
    ender.start()
    ender.join(max(give_up_at_s - parts.clock.now_s(), 0.1))
    if ender.is_alive():
        _LEFT_BEHIND.append(parts.client)
        text = f"the client had not closed after {timeout_s:.3g} s and is left behind"
        parts.emit(ClientError("_TIMED_OUT", text, 1))
    for error in refusals:
        _tell(parts, error)


def _commit(parts: Parts, give_up_at_s: float) -> None:
    """Everything stands still meanwhile: what arrives now is for the next owner.

    Sent again while it is not acknowledged: where other members end at the same time, the group
    refuses it until it has found its peace. And until nothing is under way: what librdkafka sends
    once more of its own accord may undo what was sent later (`Committing`).
    """
    if not parts.offsets.uncommitted() and not _under_way(parts, parts.assignment.partitions):
        return
    send_at_s = parts.clock.now_s()
    try:
        ours = _paused(parts)
        while parts.clock.now_s() < give_up_at_s:
            left = parts.offsets.uncommitted(ours)
            if not left and not _under_way(parts, ours):
                return
            if left and parts.clock.now_s() >= send_at_s:
                parts.client.commit(left)
                send_at_s = parts.clock.now_s() + _SEND_AGAIN_S
            parts.client.drain(0.1)
    except KafkaException as error:
        _tell(parts, error)


def _under_way(parts: Parts, partitions: Sequence[Partition]) -> bool:
    return any(map(parts.client.awaits_commit, partitions))


def _paused(parts: Parts) -> Sequence[Partition]:
    """Stop everything; what is ours to commit.

    One that is not assigned any more makes librdkafka refuse the call for all of them: it may be
    another's, whose commits ours would undo. What the others bring goes nowhere all the same.
    """
    owned = parts.assignment.partitions
    try:
        parts.client.pause(owned)
    except KafkaException as error:
        _tell(parts, error)
        assigned = parts.client.assignment()
        return [partition for partition in owned if partition in assigned]
    return owned


def _tell(parts: Parts, error: KafkaException) -> None:
    parts.emit(ClientError(error.args[0].name(), f"at close: {error.args[0].str()}", 1))
