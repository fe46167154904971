"""A loop says what the handler has, from when it is handed out until it is back."""

import pytest

from linear_retry.kafka import Message
from tests.consumer.group import FakeGroup


@pytest.mark.parametrize("concurrency", [1, 2])
def test_what_is_with_the_handler_is_known(concurrency: int) -> None:
    """By one thread, and by workers: with the time, and each batch is counted once."""
    group = FakeGroup(partitions=1, scope="partition", concurrency=concurrency)
    group.produce(0)
    member = group.join()
    group.share([0])
    seen: list[tuple[float, Message] | None] = [member.monitor.handed_out]
    inner = member.handler

    def watched(message: Message) -> object:
        seen.append(member.monitor.handed_out)
        return inner(message)

    member.handler = watched
    group.finish()
    before, during = seen
    assert None is before
    assert during is not None
    assert (0, 0) == (during[1].partition(), during[1].offset())
    assert during[0] <= group.fake.clock.now_s()
    assert None is member.monitor.handed_out
    assert 1 == sum(member.monitor.counts().handled_within)
