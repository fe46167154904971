"""What is sent off to be committed, and when?"""

from __future__ import annotations

from linear_retry.consumer.state import Parts

COMMIT_EVERY_S = 1.0
UNANSWERED_FOR_S = 60.0
"""librdkafka answers earlier than that, as a rule: an answer is taken for lost then."""


class Committing:
    """Sends off what is done, one commit at a time for each partition.

    librdkafka retries a commit that met a coordinator in trouble, and a later one may overtake it:
    the broker then ends with the older offset (of six errors, five did that each time, with
    librdkafka 2.16 on its mock cluster). So what is not answered is not followed by another.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._send_at_s = 0.0
        self._patient_until_s = 0.0

    @property
    def due(self) -> bool:
        """Once a second: a crash then repeats at most two seconds' work."""
        return self._parts.clock.now_s() >= self._send_at_s

    def send(self) -> None:
        """Send off what is done, but for partitions of which a commit is under way."""
        parts, now_s = self._parts, self._parts.clock.now_s()
        self._send_at_s = now_s + COMMIT_EVERY_S
        uncommitted = parts.offsets.uncommitted()
        awaits = parts.client.awaits_commit
        ready = {key: offset for key, offset in uncommitted.items() if not awaits(key)}
        if len(ready) == len(uncommitted):
            self._patient_until_s = now_s + UNANSWERED_FOR_S
        elif now_s >= self._patient_until_s:
            # To commit nothing of it any more, for want of an answer, would be worse.
            ready, self._patient_until_s = uncommitted, now_s + UNANSWERED_FOR_S
        if ready:
            parts.client.commit(ready)
