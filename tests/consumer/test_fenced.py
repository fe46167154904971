"""Does a member whose place was taken say so, whatever else happens at that moment?"""

from __future__ import annotations

from typing import get_args

import pytest

from linear_retry import FencedError
from tests.consumer.group import FakeGroup, Protocol


@pytest.mark.parametrize("protocol", get_args(Protocol))
def test_fenced_in_the_poll_that_is_interrupted(protocol: Protocol) -> None:
    """A Ctrl-C drops what the poll had taken, and the next turn begins every partition anew, of
    which librdkafka has none any more: it said "can't subtract from empty assignment" to a program
    that should have heard that it was fenced."""
    group = FakeGroup(protocol=protocol, partitions=2)
    group.produce(0)
    group.produce(1)
    member = group.join()
    group.share([0, 0])
    member.turn()
    group.fake.fence(member.consumer)
    group.fake.faults.raise_in_poll(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        member.turn()
    with pytest.raises(FencedError):
        member.turn()
    assert [] == group.violations(finished=False)
