"""`run_async` beside other code: before, within and after it."""

import asyncio
import threading

import pytest

from linear_retry import BrokerError, UsageError, events
from linear_retry.kafka import Message
from tests.consumer.group import TOPIC, OutageError
from tests.consumer.runners.async_life import Act, Life, awaiting, in_loop, succeed
from tests.fake.cluster import FakeKafka
from tests.patience import PATIENCE_S


def test_two_at_once(fake: FakeKafka) -> None:
    """One consumer, one `run_async` at a time: the second is refused, the first goes on."""
    life, refused = Life(fake), list[str]()

    async def handle(_: Message) -> None:
        for way in (life.consumer.run_async(succeed), asyncio.create_task(life.run(succeed))):
            try:
                await way
            except UsageError as error:
                refused.append(str(error))

    awaiting(life.run(life.stopping_after(2, handle)))
    assert [True] * 4 == ["already running" in text for text in refused]
    assert (2, 2) == (len(life.begun), life.committed)
    assert [] == life.violations()


def test_run_within_it(fake: FakeKafka) -> None:
    """`run`, and a loop of one's own, are refused from within its handler."""
    life, refused = Life(fake), list[UsageError]()

    async def handle(_: Message) -> None:
        for use in (lambda: life.consumer.run(print), lambda: next(life.consumer)):
            try:
                use()
            except UsageError as error:
                refused.append(error)

    awaiting(life.run(life.stopping_after(1, handle)))
    assert (2, 1) == (len(refused), life.committed)


def test_it_within_run(fake: FakeKafka) -> None:
    """It is refused from within the handler of `run`, which goes on."""
    life, refused = Life(fake), list[UsageError]()

    def handle(_: Message) -> None:
        with pytest.raises(UsageError) as caught:
            asyncio.run(life.consumer.run_async(succeed))
        refused.append(caught.value)
        if len(refused) == 6:
            life.consumer.stop()

    with life.consumer as consumer:
        consumer.run(handle)
    assert (6, 6) == (len(refused), life.committed)


def test_it_while_another_thread_owns(fake: FakeKafka) -> None:
    """Refused, and the owner, between two attempts of a loop of its own, did not notice: it was
    stopped, and the refusal took ten seconds."""
    life, seen = Life(fake), list[bytes | None]()
    offered, refused = threading.Event(), threading.Event()

    def own() -> None:
        for attempt in life.consumer:
            with attempt as message:
                offered.set()
                assert refused.wait(PATIENCE_S)
                seen.append(message.value())
                if len(seen) == 6:
                    break
        life.consumer.close()

    async def intrude() -> None:
        with pytest.raises(UsageError, match="belongs to the thread"):
            await life.consumer.run_async(succeed)

    thread = threading.Thread(target=own)
    thread.start()
    assert offered.wait(PATIENCE_S)
    awaiting(intrude())
    refused.set()
    thread.join(PATIENCE_S)
    assert (6, 6) == (len(seen), life.committed)


def test_after_a_loop_of_ones_own(fake: FakeKafka) -> None:
    """A loop that was left with a break, in the same thread, is gone on with: it was refused."""
    life, seen = Life(fake), list[bytes | None]()
    for attempt in life.consumer:
        with attempt as message:
            seen.append(message.value())
            if len(seen) == 2:
                break
    awaiting(life.consumer.run_async(life.watched(life.stopping_after(4))))
    assert (2, 4, 6) == (len(seen), len(life.begun), life.committed)


def test_a_loop_of_ones_own_within_it_that_was_begun_before(fake: FakeKafka) -> None:
    """What the loop had read ahead is not handed out behind the back of the thread."""
    life = Life(fake)
    for attempt in life.consumer:
        with attempt:
            break
    refused: list[UsageError] = []

    async def handle(_: Message) -> None:
        with pytest.raises(UsageError) as caught:
            next(life.consumer)
        refused.append(caught.value)

    awaiting(life.run(life.stopping_after(5, handle)))
    assert (5, 6) == (len(refused), life.committed)


def test_after_a_failure_in_a_loop_of_ones_own(fake: FakeKafka) -> None:
    """What the last attempt came to is applied first: its message is the first to come again."""
    life, places = Life(fake), list[tuple[int, int]]()
    for attempt in life.consumer:
        with attempt as message:
            places.append((message.partition() or 0, message.offset() or 0))
            raise OutageError
        break
    awaiting(life.run(life.stopping_after(6)))
    assert places == life.begun[:1]
    assert (1, 6) == (len(life.emitted(events.CircuitOpened)), life.committed)


def test_within_an_attempt(fake: FakeKafka) -> None:
    """Refused while an attempt is out; the loop goes on, nothing is closed."""
    life = Life(fake)
    for number, attempt in enumerate(life.consumer, 1):
        with attempt, pytest.raises(UsageError, match="was not left"):
            awaiting(life.consumer.run_async(succeed))
        if number == 6:
            break
    life.consumer.close()
    assert 6 == life.committed


def _interrupt(_: Message) -> None:
    raise KeyboardInterrupt


def test_after_run(fake: FakeKafka) -> None:
    """A `run` that raised can be gone on with: it was refused, the main thread owned it."""
    life = Life(fake)

    with pytest.raises(KeyboardInterrupt):
        life.consumer.run(_interrupt)
    awaiting(life.run(life.stopping_after(6)))
    assert (6, 6) == (len(life.begun), life.committed)
    assert [] == life.violations(finished=True)


def test_after_it(fake: FakeKafka) -> None:
    """It closes the consumer: nothing can follow."""
    life = Life(fake)
    awaiting(life.run(life.stopping_after(1)))
    with pytest.raises(UsageError, match="closed"):
        awaiting(life.run(succeed))
    with pytest.raises(UsageError, match="closed"):
        life.consumer.run(print)


@pytest.mark.parametrize("follower", ["run", "run_async"])
def test_after_a_start_that_failed(fake: FakeKafka, follower: str) -> None:
    """Not closed then: another use, at once, makes it good. The thread must have ended before."""
    for _ in range(20):
        life = Life(fake, start_timeout_s=1)
        fake.faults.brokers_down = True
        with pytest.raises(BrokerError):
            awaiting(life.run(succeed))
        fake.faults.brokers_down = False
        if follower == "run":
            with pytest.raises(KeyboardInterrupt):
                life.consumer.run(_interrupt)
        else:
            awaiting(life.run(life.stopping_after(1)))
        life.consumer.close()
        fake.append(TOPIC, 0)


def test_closed_while_it_starts(fake: FakeKafka) -> None:
    """`close` from another task, and then the start fails: it is closed nevertheless."""
    life = Life(fake, start_timeout_s=3)
    fake.faults.brokers_down = True

    async def main() -> None:
        fake.clock.at(2, in_loop(life.consumer.close))
        await life.run(succeed)

    awaiting(main())
    assert life.closed


def test_two_consumers_on_one_loop() -> None:
    """Each has its own thread and its own topic; neither waits for the other's handler."""
    lives = []
    for _ in range(2):
        kafka = FakeKafka(balanced=True)
        kafka.create_topic(TOPIC, 1)
        kafka.create_topic("orders.dlq", 1)
        kafka.append(TOPIC, 0)
        lives.append(Life(kafka))
    met = asyncio.Barrier(2)

    def meeting(life: Life) -> Act:
        async def handle(_: Message) -> None:
            await met.wait()
            life.consumer.stop()

        return handle

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            for life in lives:
                group.create_task(life.run(meeting(life)))

    awaiting(main())
    assert [1, 1] == [life.committed for life in lives]
