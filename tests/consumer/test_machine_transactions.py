"""Are letter and offset one, under any schedule of faults?"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import get_args

import pytest
from confluent_kafka import KafkaError
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule, run_state_machine_as_test

from tests.consumer.group import GROUP, LETTERS, Protocol
from tests.consumer.test_machine import BUDGET, MEMBERS, Schedule, members, owners

CALLS = ("init", "begin", "send_offsets", "commit", "abort")
ERRORS = {
    "timed out": KafkaError(KafkaError._TIMED_OUT, "Timed out", False, True),
    "to be aborted": KafkaError(KafkaError.INVALID_TXN_STATE, "Invalid", False, False, True),
    "fenced": KafkaError(KafkaError._FENCED, "Fenced", True),
    "fatal": KafkaError(KafkaError.UNKNOWN_PRODUCER_ID, "Unknown", True),
    "out": KafkaError(KafkaError.UNKNOWN_MEMBER_ID, "Unknown member", False, False, True),
    "outdated": KafkaError(KafkaError.ILLEGAL_GENERATION, "Generation", False, False, True),
}


class TransactionalSchedule(Schedule):
    """As ever; and every call about a transaction may fail, done or not done."""

    def __init__(self) -> None:
        super().__init__()
        self.group.dead_letters = replace(self.group.dead_letters, transactional=True)

    @rule(
        call=st.sampled_from(CALLS),
        error=st.sampled_from(sorted(ERRORS)),
        times=st.integers(1, 3),
        acts=st.booleans(),
        takes_s=st.sampled_from([0.0, 0.3, 20.0]),
    )
    def failing_transaction(
        self, call: str, error: str, times: int, acts: bool, takes_s: float
    ) -> None:
        faults = self.group.fake.faults
        faults.fail_transaction(call, ERRORS[error], times, acts=acts, takes_s=takes_s)

    @rule(number=members)
    def move_on(self, number: int) -> None:
        """Others came or went, and this member keeps what it has."""
        self.group.fake.move_on(self.member(number).consumer)

    @rule(late=st.booleans())
    def late_commits(self, late: bool) -> None:
        self.group.fake.faults.commits_land_late = late

    @precondition(lambda self: len(self.group.members) < MEMBERS)
    @rule(owned=owners)
    def join(self, owned: list[int]) -> None:
        """Whose producer cannot begin does not join at all."""
        self.group.fake.faults.brokers_down = False
        self.group.fake.faults.forget_transactions()
        self.group.join()
        self.group.share(owned)

    @rule(down=st.booleans())
    def brokers(self, down: bool) -> None:
        self.group.fake.faults.brokers_down = down

    @invariant()
    def letter_and_offset_are_one(self) -> None:
        """Each message has one letter at most, and then the group has its offset."""
        committed = self.group.fake.group(GROUP)
        ids: Counter[bytes | None] = Counter()
        for log in self.group.fake.topics[LETTERS].partitions:
            for record in log.records:
                headers = dict(record.headers or ())
                ids[headers["retry-id"]] += 1
                place = (
                    _text(headers["retry-destination"]),
                    int(_text(headers["retry-original-partition"])),
                )
                assert committed[place] > int(_text(headers["retry-original-offset"]))
        assert [] == [name for name, count in ids.items() if count > 1]


def _text(content: bytes | None) -> str:
    return (content or b"").decode()


@pytest.mark.parametrize("scope", ["consumer", "partition"])
@pytest.mark.parametrize("protocol", get_args(Protocol))
def test_any_schedule(protocol: Protocol, scope: str) -> None:
    """Every guarantee holds, and no letter is there twice, whatever fails and whoever goes."""
    chosen = {"protocol": protocol, "scope": scope}
    run_state_machine_as_test(
        type("TransactionalSchedule", (TransactionalSchedule,), chosen), settings=BUDGET
    )
