"""Warns, on a retry line, of retries that are another group's."""

from linear_retry.events import Event, PassedOver
from linear_retry.log.lines import log_topic_problem


class OtherGroupsRetries:
    """A listener. Logs the first of them only: there may be thousands."""

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
