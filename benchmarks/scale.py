"""How much each benchmark measures."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Scale:
    """The amounts of one run. What is `..._each` is for each round."""

    rounds: int
    messages: int
    lone_messages_each: int
    retried_messages_each: int
    closings_each: int
    letters_each: int
    open_s: float
    openings: int
    listed_letters: int
    page_loads: int
    replayed_letters: int
    ingested_letters: int
    episode_events: int
    returning_s: float
    due_at_once: int
    waiting_messages: int
    waiting_beside_live: int
    live_s: float
    sent_messages: int
    stored_messages: int
    lateness_s: float
    snapshot_s: float


FULL = Scale(
    rounds=5,
    messages=1_000_000,
    lone_messages_each=400,
    retried_messages_each=40,
    closings_each=100,
    letters_each=500,
    open_s=20.0,
    openings=10_000,
    listed_letters=1_000_000,
    page_loads=20,
    replayed_letters=100_000,
    ingested_letters=1_000_000,
    episode_events=1_000_000,
    returning_s=10.0,
    due_at_once=20_000,
    waiting_messages=100_000,
    waiting_beside_live=10_000,
    live_s=5.0,
    sent_messages=50_000,
    stored_messages=1_000_000,
    lateness_s=20.0,
    snapshot_s=60.0,
)
QUICK = Scale(
    rounds=2,
    messages=100_000,
    lone_messages_each=100,
    retried_messages_each=10,
    closings_each=30,
    letters_each=100,
    open_s=5.0,
    openings=500,
    listed_letters=100_000,
    page_loads=20,
    replayed_letters=10_000,
    ingested_letters=100_000,
    episode_events=100_000,
    returning_s=3.0,
    due_at_once=4000,
    waiting_messages=10_000,
    waiting_beside_live=4000,
    live_s=2.0,
    sent_messages=10_000,
    stored_messages=100_000,
    lateness_s=5.0,
    snapshot_s=10.0,
)
