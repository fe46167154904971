"""What an outbox says of itself: its health, and its counts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from linear_retry.store.listing.statistics import HeldLane

OutboxState: TypeAlias = Literal["direct", "storing", "failing", "dead", "closed"]


@dataclass(frozen=True, slots=True)
class OutboxHealth:
    """The health of an outbox.

    `alive`: nothing has ended it; otherwise only a restart of the process helps. `ready`: it is
    alive and not closed, and a message that Kafka does not take can be stored. `state`:

    - `direct`: messages are sent directly;
    - `storing`: messages of all lanes, or of some, are stored, and sent from there, except for
      those of lanes whose topic does not take them, which `reason` names;
    - `failing`: the store does not work, or its sender does not; both are tried again;
    - `dead`: an error has ended it, which `produce`, `add` and `flush` raise;
    - `closed`: `close` was called.

    `reason` explains the state in a sentence, with the error if there is one.
    """

    state: OutboxState
    alive: bool
    ready: bool
    reason: str


@dataclass(frozen=True, slots=True)
class OutboxCounts:
    """Counts of an outbox since it was created.

    `stored`: messages of `produce` that are, or were, in the store. `lost`: those that could be
    neither sent nor stored, of which `on_delivery` and `recover` were told. `sent` and `dead`:
    messages of the store, from whatever process, that this one has sent, or made dead letters.
    """

    stored: int
    lost: int
    sent: int
    dead: int


def health_of(
    *,
    is_closed: bool,
    ended_by: Exception | None,
    troubles: tuple[str, str],
    stored_for: str | None,
    held: Sequence[HeldLane],
) -> OutboxHealth:
    """Returns the health of an outbox.

    `troubles`: the errors of the store and of its sender, empty without one; `stored_for`: why
    messages are stored, None if they are not; `held`: the lanes that their topics do not take.
    """
    of_store, of_sender = troubles
    if is_closed:
        return OutboxHealth("closed", True, False, "it was closed")
    if ended_by is not None:
        return OutboxHealth("dead", False, False, f"ended by {ended_by}")
    if of_store:
        return OutboxHealth("failing", True, False, f"messages cannot be stored: {of_store}")
    if of_sender:
        return OutboxHealth(
            "failing", True, True, f"the store's messages are not sent: {of_sender}"
        )
    if stored_for is not None and held:
        first = f"{held[0].destination} (lane {held[0].slot}): {held[0].error}"
        more = f", and {len(held) - 1} more" if len(held) > 1 else ""
        return OutboxHealth("storing", True, True, f"held, as it is refused: {first}{more}")
    if stored_for is not None:
        return OutboxHealth("storing", True, True, f"messages are stored: {stored_for}")
    return OutboxHealth("direct", True, True, "messages are sent directly")
