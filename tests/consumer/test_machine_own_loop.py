"""Does a loop of one's own keep the guarantees under any schedule, wherever it is left?"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import suppress
from typing import Any, get_args

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import rule, run_state_machine_as_test

from linear_retry.consumer.attempts import Attempts
from linear_retry.consumer.work import Work
from linear_retry.scope import Partition, ScopeKind
from tests.consumer.group import FakeGroup, Member, Protocol
from tests.consumer.test_machine import BUDGET, TOPICS, Schedule, members


class OwnLoopMember(Member):
    """Attempts what comes in a loop of its own, and leaves that after `patience` attempts.

    What it left is applied when it goes on: whatever the schedule does, it may do in the midst of
    a batch.
    """

    def __init__(self, group: FakeGroup, name: str, protocol: Protocol) -> None:
        super().__init__(group, name, protocol)
        self.attempts = Attempts(self._one_turn, self.stop, group.fake.clock.now_s)
        self.patience = 100

    def turn(self) -> None:
        """One turn of the loop, or what is left of it, or less."""
        now_s = self.assembly.parts.clock.now_s
        self._witness.away(self.name, self._rests_since_s)
        self.stop.asked = False
        try:
            with suppress(KeyboardInterrupt):
                self._attempt_some()
        finally:
            self._rests_since_s = now_s()

    def leave(self) -> None:
        """A clean end, as `LinearConsumer.close` makes it."""
        self.stop.ask()
        self.attempts.settle()
        self.assembly.close(commit=True, timeout_s=10)

    def _one_turn(self) -> Generator[Work]:
        """A stop is asked for after each, so that other members have theirs."""
        yield from self.assembly.loop.turn()
        self.stop.ask()

    def _attempt_some(self) -> None:
        for _ in range(self.patience):
            attempt = next(self.attempts.ready, None) or self.attempts.next()
            if attempt is None:
                return
            with attempt as message:
                self.handler(message)


class OwnLoopGroup(FakeGroup):
    """Its members have loops of their own."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.own: dict[str, OwnLoopMember] = {}

    def join(self) -> Member:
        self._born += 1
        member = OwnLoopMember(self, f"member-{self._born}", self.protocol)
        self.own[member.name] = member  # one that crashed stays here: its turn never ends
        self.members.append(member)
        return member

    def leave(self, member: Member) -> None:
        self.members.remove(member)
        self.own[member.name].leave()


class OwnLoopSchedule(Schedule):
    """As ever; and loops are left in the midst of a batch, or interrupted in that of a body."""

    def __init__(self) -> None:
        super().__init__()
        self.group: OwnLoopGroup = OwnLoopGroup(
            protocol=self.protocol,
            scope=self.scope,
            topics=TOPICS,
            partitions=2,
            strategy=[1, 0, 2, 5],
        )

    @rule(number=members, patience=st.integers(1, 4) | st.just(100))
    def patience(self, number: int, patience: int) -> None:
        self.group.own[self.member(number).name].patience = patience

    @rule()
    def interrupt(self) -> None:
        """Ctrl-C in the next body."""
        self.group.dependency.raises_once.append(KeyboardInterrupt())

    def _calm(self, failing: set[Partition]) -> None:
        """One message a turn would be too slow to do all in a quiet stretch."""
        super()._calm(failing)
        for member in self.group.own.values():
            member.patience = 100


@pytest.mark.parametrize("scope", get_args(ScopeKind))
@pytest.mark.parametrize("protocol", get_args(Protocol))
def test_any_schedule_of_own_loops(protocol: Protocol, scope: ScopeKind) -> None:
    """Every guarantee holds wherever a loop is left, and whatever happens until it goes on."""
    chosen = {"protocol": protocol, "scope": scope}
    machine = type("OwnLoopSchedule", (OwnLoopSchedule,), chosen)
    run_state_machine_as_test(machine, settings=settings(BUDGET, max_examples=15))
