"""Warns of what is another group's: retries on a retry line, retry topics on a live one."""

from collections.abc import Collection, Iterable

from linear_retry.events import Event, PassedOver
from linear_retry.log.lines import log_topic_problem
from linear_retry.records.topics.names import is_retry_topic


class OtherGroupsRetries:
    """Listens on a retry line. Logs the first of them only: there may be thousands."""

    def __init__(self, group_id: str) -> None:
        """`group_id` is that of the live line."""
        self._group_id = group_id
        self._has_warned = False

    def __call__(self, event: Event) -> None:
        if self._has_warned or not isinstance(event, PassedOver):
            return
        self._has_warned = True
        log_topic_problem(
            event.topic,
            f"the retry line of group {self._group_id} passes over what other groups have sent "
            f"here, first {event.place} of group {event.retry_group_id}: if that is its live "
            "line's group.id, give it the same; else give each group retry topics of its own",
        )


class NewRetryTopics:
    """Warns, on a live line, of what was created since its start and matches a pattern.

    At its start it is refused. Later it is not, or another group's new topic would end this one.
    """

    def __init__(self, sources: Collection[str]) -> None:
        """`sources` are names and patterns; what is named is meant."""
        self._known = {*sources}

    def note(self, topics: Iterable[str]) -> None:
        """Notes topics that were assigned; logs each retry topic among them once."""
        for topic in sorted({*topics} - self._known):
            self._known.add(topic)
            if is_retry_topic(topic):
                log_topic_problem(
                    topic,
                    f"{topic} has the name of a retry topic, and matches a pattern of this "
                    "consumer: what waits there is handled at once, as new messages; exclude it "
                    "by topic.blacklist, without which the next start is refused",
                )
