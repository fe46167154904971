"""What was replayed is handled by its own group where several read the topic."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import Consumer

from linear_retry import LinearConsumer, Strategy, events
from linear_retry.dlq import Filter
from linear_retry.kafka import Message
from tests.conftest import TopicFactory
from tests.dlq.scene import NewScene, Scene
from tests.kafka_operations import wait_until

pytestmark = pytest.mark.broker

_LIMIT_S = 30.0


class _Group:
    """One member of a group, whose handler rejects what it is told to, and which ends by itself."""

    def __init__(self, given: Scene, name: str, topic: str, expected: int) -> None:
        self.handled: list[bytes] = []
        self.passed_over: list[int] = []
        self._rejects: Callable[[bytes], bool] = lambda _: False
        self._expected = expected
        self._consumer = LinearConsumer(
            given.kafka.client_settings(**{"group.id": f"{name}-of-{topic}"}),
            [topic],
            strategy=Strategy([]),
            transient=TimeoutError,
            dead_letters=given.letters,
            listeners=[self._receive],
        )

    def run(self, rejects: Callable[[bytes], bool] = lambda _: False) -> _Group:
        """Until so many are handled, given up or passed over as are expected."""
        self._rejects = rejects
        with self._consumer as consumer:
            consumer.run(self._handle)
        return self

    def _handle(self, message: Message) -> None:
        value = message.value() or b""
        self.handled.append(value)
        self._done()
        if self._rejects(value):
            raise ValueError(value)

    def _receive(self, event: events.Event) -> None:
        if isinstance(event, events.PassedOver):
            self.passed_over.append(event.offset)
            self._done()

    def _done(self) -> None:
        if len(self.handled) + len(self.passed_over) >= self._expected:
            self._consumer.stop()


def _produce(given: Scene, values: list[bytes]) -> None:
    given.kafka.produce(given.source, [(0, b"key", value, ()) for value in values])


def test_another_group_passes_over_what_was_replayed_for_this_one(scene: NewScene) -> None:
    """Both read the topic, one rejects two messages: once replayed, it alone gets them again."""
    given = scene()
    _produce(given, [b"0", b"bad 1", b"2", b"bad 3"])
    _Group(given, "billing", given.source, 4).run(lambda value: value.startswith(b"bad"))
    audit = _Group(given, "audit", given.source, 4).run()
    assert [b"0", b"bad 1", b"2", b"bad 3"] == audit.handled
    assert 2 == given.replay()
    _produce(given, [b"4"])
    audit = _Group(given, "audit", given.source, 3).run()
    assert ([b"4"], 2) == (audit.handled, len(audit.passed_over))
    billing = _Group(given, "billing", given.source, 3).run()
    assert ([b"bad 1", b"bad 3", b"4"], []) == (billing.handled, billing.passed_over)


def test_in_a_topic_of_its_own_no_group_passes_it_over(
    scene: NewScene, topic: TopicFactory
) -> None:
    """`--to`: whoever reads that topic gets them; the others see nothing of it in the source."""
    given, retry = scene(), topic()
    _produce(given, [b"bad 0", b"1"])
    _Group(given, "billing", given.source, 2).run(lambda value: value.startswith(b"bad"))
    assert 1 == given.replay(to=retry)
    assert [b"bad 0", b"1"] == _Group(given, "audit", given.source, 2).run().handled
    assert [b"bad 0"] == _Group(given, "billing", retry, 1).run().handled


def test_for_another_group(scene: NewScene) -> None:
    """The group has another name since: what was sent for the old one was passed over by all."""
    given = scene()
    _produce(given, [b"bad 0", b"1"])
    _Group(given, "billing", given.source, 2).run(lambda value: value.startswith(b"bad"))
    _Group(given, "audit", given.source, 2).run()
    assert 1 == given.replay(for_group=f"invoices-of-{given.source}")
    invoices = _Group(given, "invoices", given.source, 3).run()
    assert ([b"bad 0", b"1", b"bad 0"], []) == (invoices.handled, invoices.passed_over)
    audit = _Group(given, "audit", given.source, 1).run()
    assert ([], 1) == (audit.handled, len(audit.passed_over))


def test_for_every_group_and_each_may_reject_it(scene: NewScene) -> None:
    """Under one id the letters of two groups would be one letter, and one message be lost."""
    given = scene()
    _produce(given, [b"bad"])
    _Group(given, "billing", given.source, 1).run(lambda _: True)
    _Group(given, "audit", given.source, 1).run()
    assert 1 == given.replay(for_group="")
    for name, expected in (("billing", [b"bad"]), ("audit", [b"bad"])):
        again = _Group(given, name, given.source, 1).run(lambda _: True)
        assert (expected, []) == (again.handled, again.passed_over)
    with given.topic as dlq:
        found = {letter.id: (letter.generation, state.value) for letter, state in dlq.letters()}
    assert {"billing", "audit"} == {name.partition("-of-")[0] for name in found}
    assert [(2, "open")] * 2 == list(found.values())
    with given.topic as dlq, dlq.plan_replay() as plan:
        assert 2 == plan.letters


def test_a_group_is_absent_without_members_and_offsets(scene: NewScene) -> None:
    """Members that have committed nothing yet are enough, and so are offsets without members."""
    given = scene()
    given.add_letters([given.letter(0, 1)])

    def absent(group: str) -> tuple[str, ...]:
        with given.topic as dlq, dlq.plan_replay(for_group=group) as plan:
            return dlq.absent_groups(plan)

    name = f"late-of-{given.source}"
    assert (name,) == absent(name)
    member = Consumer(given.kafka.client_settings(**{"group.id": name}))
    member.subscribe([given.source])
    wait_until(lambda: member.poll(0.1) or member.assignment(), "the member is in its group")
    assert () == absent(name)
    member.close()
    assert (name,) == absent(name)
    given.commits(name)
    assert () == absent(name) == absent("")


def test_what_dies_again_is_open_again_and_still_knows_its_origin(
    scene: NewScene, topic: TopicFactory
) -> None:
    """From the retry topic too: generation 2, of the first place; replayed there it is in order."""
    given, retry = scene(), topic()
    _produce(given, [b"bad 0", b"bad 1"])
    _Group(given, "billing", given.source, 2).run(lambda _: True)
    given.replay(to=retry)
    _Group(given, "billing", retry, 2).run(lambda _: True)
    with given.topic as dlq:
        found = [
            (letter.generation, letter.origin.offset, letter.origin.topic, state.value)
            for letter, state in dlq.letters(Filter())
            if letter.origin is not None
        ]
    expected = [
        *((1, offset, given.source, "replayed") for offset in (0, 1)),
        *((2, offset, given.source, "open") for offset in (0, 1)),
    ]
    assert expected == found
    assert 2 == given.replay()
    assert [b"bad 0", b"bad 1"] * 2 == [each.value() for each in given.kafka.read(given.source)]
