"""The groups that a replay may not reach are found without asking for each in vain."""

from collections.abc import Iterable, Mapping

import pytest

from linear_retry.dlq.reading.reading import Cluster
from linear_retry.dlq.replay.checks import absent_groups
from linear_retry.dlq.replay.plan import PartitionPlan, Plan, Source
from linear_retry.kafka.topics.groups import Groups
from linear_retry.scope import Partition


class _Groups(Groups):
    """One with members, `reading`, and what is said of the offsets of others."""

    def __init__(self, committed: Mapping[str, bool | None]) -> None:
        super().__init__({})
        self._committed = committed
        self.asked: list[str] = []

    def active(self) -> frozenset[str]:
        return frozenset({"reading"})

    def has_committed(self, group_id: str, partitions: Iterable[Partition]) -> bool | None:
        assert {("orders", 0), ("orders", 1)} == set(partitions)
        self.asked.append(group_id)
        return self._committed[group_id]


@pytest.mark.parametrize(
    ("committed", "asked", "absent"),
    [
        ({"audit": True, "billing": False}, ["audit", "billing"], ("billing",)),
        ({"audit": None, "billing": False}, ["audit"], ()),
    ],
)
def test_the_groups_without_members_are_asked_until_one_may_not_be(
    monkeypatch: pytest.MonkeyPatch,
    committed: dict[str, bool | None],
    asked: list[str],
    absent: tuple[str, ...],
) -> None:
    """librdkafka tries for as long as it may where that is refused: once, and not for each."""
    groups = _Groups(committed)
    monkeypatch.setattr(Cluster, "groups", property(lambda _: groups))
    with Plan("orders.dlq") as plan:
        plan.partitions += [
            PartitionPlan(
                Source("orders", number), "orders", number, groups={"", "reading", *committed}
            )
            for number in range(2)
        ]
        assert absent == absent_groups(Cluster({}), plan)
    assert asked == groups.asked
