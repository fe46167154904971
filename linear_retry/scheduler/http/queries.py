"""Filters and pages as the queries of requests."""

from http import HTTPStatus
from typing import Annotated, Any, Self

from pydantic import AfterValidator, Field, model_validator

from linear_retry.records.json_fields import from_json
from linear_retry.records.retry_headers import INT64_MAX
from linear_retry.scheduler.http.models import Base64Digits, Ms, Strict, Text
from linear_retry.store.listing.filters import DeadLetterFilter, MessageFilter, Place
from linear_retry.store.records import Service
from linear_retry.web.security.authentication import Actor, RefusedError

MOST_IN_PAGE = 500

_PAGING = {"after", "limit"}


class _Query(Strict):
    """Left out is everything."""

    service: Service | None = None
    destination: Text | None = None
    group_id: Text | None = None
    retry_id: Text | None = None
    key: Text | None = None
    key_base64: Base64Digits | None = None
    """In place of `key`, for one that is not UTF-8."""
    error: Text | None = None
    """A part of the error's text, in upper or lower case; of a message, that of its lane."""
    since_ms: Ms | None = None
    until_ms: Ms | None = None
    """Exclusive."""

    @model_validator(mode="after")
    def _one_key(self) -> Self:
        if self.key is not None and self.key_base64 is not None:
            raise ValueError("give key or key_base64, not both")
        return self

    def check(self, by: Actor) -> None:
        """Raises `RefusedError` if the actor may not ask for it: who asks by key guesses keys."""
        if (self.key is not None or self.key_base64 is not None) and not by.sees_payloads:
            raise RefusedError(
                HTTPStatus.FORBIDDEN, f"{by.name} is a {by.role}: keys are for operators"
            )

    def _fields(self) -> dict[str, Any]:
        fields = self.model_dump(exclude={"key", "key_base64", *_PAGING})
        written = self.key if self.key_base64 is None else {"base64": self.key_base64}
        return fields | {"key": from_json(written)}


class MessageQuery(_Query):
    """Which messages; the times are those at which they are due."""

    is_held: bool | None = None
    """Whether their lane is on hold now."""

    def filter(self) -> MessageFilter:
        """Returns the store's filter."""
        return MessageFilter(**self._fields())


class DeadLetterQuery(_Query):
    """Which dead letters; the times are those at which they died."""

    reason: Text | None = None

    def filter(self) -> DeadLetterFilter:
        """Returns the store's filter."""
        return DeadLetterFilter(**self._fields())


def _within_64_bits(after: str) -> str:
    if max(map(int, after.split("."))) > INT64_MAX:
        raise ValueError("must be `next` of the page before")
    return after


_After = Annotated[
    str, Field(pattern=r"^[0-9]{1,19}\.[0-9]{1,19}$"), AfterValidator(_within_64_bits)
]


class _Page(Strict):
    after: _After | None = None
    """`next` of the page before."""
    limit: Annotated[int, Field(ge=1, le=MOST_IN_PAGE)] = 100

    def place(self) -> Place | None:
        """Returns the place behind which the page begins."""
        return None if self.after is None else Place(*map(int, self.after.split(".")))


class MessagePage(MessageQuery, _Page):
    """A page of messages, the first due first."""


class DeadLetterPage(DeadLetterQuery, _Page):
    """A page of dead letters, the latest first."""


def next_of(places: list[Place], limit: int) -> str | None:
    """Returns where the next page begins; None after the last one."""
    return f"{places[-1].time_ms}.{places[-1].id}" if len(places) == limit else None
