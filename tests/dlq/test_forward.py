"""An edited copy of a letter's message is a message of its own, and names the letter."""

from dataclasses import replace

import pytest
from confluent_kafka import KafkaError, KafkaException

from linear_retry.dlq import Filter, Letter, Message, RefusedError, State
from linear_retry.dlq.forward import forward
from linear_retry.errors import BrokerError
from linear_retry.kafka.consumer.messages import read
from linear_retry.records.lineage import Line, foreign_group, lineage_of
from linear_retry.records.record import Record
from tests.dlq.scene import NewScene, Scene
from tests.torture.replays.points import reporting

pytestmark = pytest.mark.broker

_WHY = "the amount was in cents"


def _letter(given: Scene) -> Letter:
    with given.topic as topic:
        found = topic.letter_at(2, 0)
    assert found is not None
    return found[0]


def _sent(given: Scene) -> list[Record]:
    return [read(each) for each in given.kafka.read(given.source)]


def test_it_is_sent_for_the_group_under_an_identity_of_its_own(scene: NewScene) -> None:
    """Where the original was, in its place, but never taken for it; the letter is resolved."""
    given = scene(3)
    own = (("tenant", b"acme"), ("retry-message-id", b"shop-1/7"))
    given.add_letters([given.letter(2, 7, headers=own)])
    letter = _letter(given)
    with given.topic as topic:
        assert Message(b"key", b"value", own) == topic.original(letter)
        edited = Message(b"key", b"better", (("tenant", b"acme"), ("retry-id", b"forged")))
        retry_id = topic.forward(letter, edited, by="ada", why=_WHY)
        resolution = topic.resolution(letter)
    assert resolution is not None
    assert (State.RESOLVED, "ada") == (resolution.state, resolution.by)
    assert _WHY in resolution.why
    [record] = _sent(given)
    headers = dict(record.headers)
    assert (2, b"key", b"better") == (record.partition, record.key, record.value)
    assert (b"acme", letter.id.encode()) == (headers["tenant"], headers["retry-edited-from"])
    assert retry_id.encode() == headers["retry-message-id"]
    line = Line("billing")
    lineage = lineage_of(record, line)
    assert retry_id == lineage.retry_id != letter.id
    assert (1, 7, given.source) == (
        lineage.generation,
        lineage.original_offset,
        lineage.destination,
    )
    assert foreign_group(record, line) is None
    assert "billing" == foreign_group(record, Line("audit"))


def test_the_letter_stays_open_if_asked_and_is_sent_once_otherwise(scene: NewScene) -> None:
    """A letter that is already dealt with is refused, so that a second click sends nothing."""
    given = scene(3)
    given.add_letters([given.letter(2, 7)])
    letter = _letter(given)
    with given.topic as topic:
        topic.forward(letter, Message(b"key", b"1"), by="ada", why=_WHY, resolve=False)
        assert (letter, State.OPEN) == topic.letter_at(2, 0)
        topic.forward(letter, Message(b"key", b"2"), by="ada", why=_WHY)
        with pytest.raises(RefusedError, match="replayed or resolved already"):
            topic.forward(letter, Message(b"key", b"3"), by="ada", why=_WHY)
    assert [b"1", b"2"] == [record.value for record in _sent(given)]


def test_with_another_key_the_key_decides_the_partition(scene: NewScene) -> None:
    """An edited key belongs behind the other messages of that key."""
    given = scene(3)
    given.add_letters([given.letter(2, 7)])
    keys = [b"%d" % number for number in range(8)]
    letter = _letter(given)
    with given.topic as topic:
        for key in keys:
            topic.forward(letter, Message(key, b"v"), by="ada", why=_WHY, resolve=False)
    assert {0, 1, 2} == {record.partition for record in _sent(given)}


def test_what_cannot_be_sent_is_refused_before_anything_changes(scene: NewScene) -> None:
    """An unknown topic, the letters' own topic, a record without an origin: one sentence each."""
    given = scene(3)
    given.add_letters([given.letter(2, 7)])
    given.write(("other", b"1"))
    with given.topic as topic:
        letter, foreign = _letter(given), topic.letter_at(0, 0)
        assert foreign is not None
        message = Message(b"key", b"v")
        for to, rule in (("nowhere", "no such topic"), (given.letters, "own topics")):
            with pytest.raises(RefusedError, match=rule):
                topic.forward(letter, message, by="ada", why=_WHY, to=to)
        with pytest.raises(RefusedError, match="its topic is unknown"):
            topic.forward(foreign[0], message, by="ada", why=_WHY)
        topic.forward(foreign[0], message, by="ada", why=_WHY, to=given.source)
        assert topic.letter_at(0, 99) is None
        assert 1 == topic.stats(Filter(states=(State.OPEN,))).letters
    assert [b"v"] == [record.value for record in _sent(given)]


def test_a_commit_without_an_answer_names_what_may_have_been_sent(scene: NewScene) -> None:
    """ "Nothing was done" would have it sent twice, where the letter is to stay open."""
    given = scene(3)
    given.add_letters([given.letter(2, 7)])
    letter = _letter(given)

    def unanswered(point: str) -> None:
        if point == "after commit_transaction 1":
            raise KafkaException(KafkaError(KafkaError._FATAL, "no answer", fatal=True))

    cluster = replace(given.cluster, producer=reporting(unanswered))
    with pytest.raises(BrokerError, match=r"no answer.*may have been sent as ") as raised:
        forward(cluster, letter, Message(b"key", b"1"), to=None, resolution=None)
    [record] = _sent(given)
    assert f"sent as {lineage_of(record, Line('billing')).retry_id}: look" in str(raised.value)


def test_a_message_that_is_refused_was_not_sent(scene: NewScene) -> None:
    """The brokers have said so, and the answer does too."""
    given = scene(1)
    given.kafka.set_topic(given.source, {"max.message.bytes": "1000"})
    given.add_letters([given.letter(0, 7)])
    with given.topic as topic:
        found = topic.letter_at(0, 0)
        assert found is not None
        with pytest.raises(BrokerError, match="nothing was sent"):
            topic.forward(found[0], Message(b"key", bytes(5_000)), by="ada", why=_WHY)
    assert [] == _sent(given)
