"""A record counts as written only when the broker has said so."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from linear_retry.errors import BrokerError, ConfigurationError, FencedError, UnknownTopicError
from linear_retry.kafka.producers.acknowledged import (
    AcknowledgedProducer,
    Delivery,
    control_config,
    write_all,
)
from linear_retry.records.record import OutgoingRecord
from tests.fake.cluster import FakeKafka


class _Librdkafka:
    """One producer handle: keeps what it is given, and answers in `poll`."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.config = dict(config)
        self.produced: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
        self.refuses: BaseException | None = None
        self.answers: list[tuple[Any, KafkaError | None]] = []
        self.says: list[KafkaError] = []
        self.polls_s: list[float] = []
        self.raises: BaseException | None = None
        self.topics: dict[str, SimpleNamespace] = {}

    def list_topics(self, topic: str, timeout: float) -> SimpleNamespace:
        return SimpleNamespace(topics={topic: self.topics[topic]})

    def produce(self, *arguments: Any, on_delivery: Any, **named: Any) -> None:
        if self.refuses is not None:
            raise self.refuses
        self.produced.append((arguments, named))
        self.answers.append((on_delivery, None))

    def answer(self, error: KafkaError | None) -> None:
        """The next poll reports this for what was produced last."""
        self.answers[-1] = (self.answers[-1][0], error)

    def poll(self, timeout_s: float) -> int:
        self.polls_s.append(timeout_s)
        for message in self.says:
            self.config["error_cb"](message)
        self.says.clear()
        raised, self.raises = self.raises, None
        if raised is not None:
            raise raised
        answers, self.answers = self.answers, []
        for report, error in answers:
            report(error, None)
        return len(answers)

    def purge(self) -> None:
        self.answers = [(report, KafkaError(KafkaError._PURGE_QUEUE)) for report, _ in self.answers]


class _Scene:
    def __init__(self) -> None:
        self.made: list[_Librdkafka] = []
        self.producer = AcknowledgedProducer("dlq", {"acks": "all"}, self._make)

    def _make(self, config: Mapping[str, Any]) -> _Librdkafka:
        self.made.append(_Librdkafka(config))
        return self.made[-1]

    def send(self, partition: int | None = None) -> Delivery:
        return self.producer.send(OutgoingRecord("dlq", b"k", None, [("a", b"1")], partition))


def test_nothing_is_made_before_it_is_needed() -> None:
    """A consumer whose messages all succeed has no second client; the first sending makes it."""
    scene = _Scene()
    assert [] == scene.made
    scene.send()
    scene.send()
    (librdkafka,) = scene.made
    assert "all" == librdkafka.config["acks"]


def test_a_success_is_what_the_report_says() -> None:
    """Handed over is not sent: done only after a poll that brought the answer."""
    scene = _Scene()
    sending = scene.send()
    seen = [(sending.done, sending.error)]
    scene.producer.poll(0.3)
    seen.append((sending.done, sending.error))
    assert [(False, None), (True, None)] == seen
    assert [0.3] == scene.made[0].polls_s


@pytest.mark.parametrize(
    ("partition", "named"),
    [(None, {}), (0, {"partition": 0}), (7, {"partition": 7})],
)
def test_a_record_is_handed_over_as_it_is(partition: int | None, named: dict[str, int]) -> None:
    """Key, value and headers unchanged; without a partition librdkafka chooses by the key."""
    scene = _Scene()
    scene.send(partition)
    expected = (("dlq", None, b"k"), {"headers": [("a", b"1")]} | named)
    assert [expected] == scene.made[0].produced


@pytest.mark.parametrize(
    ("code", "too_large"),
    [
        (KafkaError._MSG_TIMED_OUT, False),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, False),
        (KafkaError.MSG_SIZE_TOO_LARGE, True),
        (KafkaError.INVALID_MSG_SIZE, True),
        (KafkaError.RECORD_LIST_TOO_LARGE, True),
    ],
)
def test_a_reported_error_is_not_a_success(code: int, too_large: bool) -> None:
    """It is done with its error, and says whether a smaller form may pass."""
    scene = _Scene()
    sending = scene.send()
    scene.made[0].answer(KafkaError(code))
    scene.producer.poll(0.1)
    assert sending.error is not None
    assert (True, code, too_large) == (sending.done, sending.error.code(), sending.too_large)


@pytest.mark.parametrize(
    ("refusal", "code"),
    [
        (KafkaException(KafkaError(KafkaError._MSG_TIMED_OUT)), KafkaError._MSG_TIMED_OUT),
        (KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)), KafkaError.MSG_SIZE_TOO_LARGE),
        (BufferError("queue full"), KafkaError._QUEUE_FULL),
    ],
    ids=repr,
)
def test_what_is_refused_at_once_is_reported_alike(refusal: Exception, code: int) -> None:
    """An exception out of `produce` is an answer too: nothing was sent."""
    scene = _Scene()
    scene.producer.check()
    scene.made[0].refuses = refusal
    sending = scene.send()
    assert sending.error is not None
    assert (True, code) == (sending.done, sending.error.code())


def test_a_producer_that_cannot_be_made_any_more_is_an_answer() -> None:
    """librdkafka may be out of threads at the first dead letter: that is an answer like others."""

    def refuse(config: Mapping[str, Any]) -> None:
        raise KafkaException(KafkaError(KafkaError._CRIT_SYS_RESOURCE))

    sending = AcknowledgedProducer("dlq", {}, refuse).send(OutgoingRecord("dlq", None, None))
    assert sending.error is not None
    assert KafkaError._CRIT_SYS_RESOURCE == sending.error.code()


@pytest.mark.parametrize(
    "error",
    [
        KafkaException(KafkaError(KafkaError._INVALID_ARG, "no such key")),
        ValueError("no such key"),
        TypeError("no such key"),
    ],
    ids=repr,
)
def test_a_refused_configuration_is_known_at_the_start(error: Exception) -> None:
    """`check` says what librdkafka says, and where to correct it."""

    def refuse(config: Mapping[str, Any]) -> None:
        raise error

    with pytest.raises(ConfigurationError, match="no such key; correct") as caught:
        AcknowledgedProducer("dlq", {}, refuse).check()
    assert error is caught.value.__cause__


def test_a_fenced_producer_raises() -> None:
    """Another one has its place: sending again cannot help."""
    scene = _Scene()
    scene.send()
    scene.made[0].says = [KafkaError(KafkaError._FENCED)]
    with pytest.raises(FencedError, match="dead-letter producer was fenced"):
        scene.producer.poll(0.1)


@pytest.mark.parametrize(
    "fatal",
    [KafkaError(KafkaError._FATAL), KafkaError(KafkaError.UNKNOWN, fatal=True)],
    ids=repr,
)
def test_after_a_fatal_error_a_new_producer_sends(fatal: KafkaError) -> None:
    """The old one will never send again: the next letter has a new one, and no other is renewed."""
    scene = _Scene()
    scene.send()
    scene.made[0].says = [fatal]
    scene.producer.poll(0.1)
    sending = scene.send()
    scene.producer.poll(0.1)
    assert (2, True, None) == (len(scene.made), sending.done, sending.error)


@pytest.mark.parametrize("code", [KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN])
def test_a_broker_that_is_down_is_waited_for(code: int) -> None:
    """Such an error renews nothing: what is in flight arrives when the broker is back."""
    scene = _Scene()
    scene.producer.check()
    scene.made[0].says = [KafkaError(code)]
    scene.producer.poll(0.1)
    scene.send()
    assert 1 == len(scene.made)


def test_renewing_ends_what_was_in_flight() -> None:
    """Nothing of the old producer arrives behind the back of the new one: it is reported unsent."""
    scene = _Scene()
    sending = scene.send()
    scene.producer.renew()
    assert sending.error is not None
    assert (True, KafkaError._PURGE_QUEUE) == (sending.done, sending.error.code())
    scene.send()
    assert 2 == len(scene.made)


def test_an_error_of_the_old_producer_does_not_end_the_new_one() -> None:
    """What it says while it is purged is about itself.

    The next poll took it for the new producer's, and threw away the letter in flight.
    """
    scene = _Scene()
    scene.send()
    scene.made[0].says = [KafkaError(KafkaError._FATAL)]
    scene.producer.renew()
    scene.send()
    scene.producer.poll(0.1)
    scene.send()
    assert 2 == len(scene.made)


def test_what_confluent_kafka_raises_in_a_poll_is_an_answer() -> None:
    """Without the right to write anywhere the idempotent producer's start is refused, which came
    raw out of `poll`, and ended `run`: the letter in flight gets it, and no report after."""
    scene = _Scene()
    sending = scene.send()
    refused = KafkaError(KafkaError.CLUSTER_AUTHORIZATION_FAILED, "refused", True)
    scene.made[0].raises = KafkaException(refused)
    scene.producer.poll(0.1)
    assert sending.error is not None
    assert (True, refused.code()) == (sending.done, sending.error.code())
    scene.send()
    assert 2 == len(scene.made)


@pytest.mark.parametrize(
    ("error", "seen"),
    [
        (None, 3),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, None),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, None),
    ],
)
def test_the_topic_is_asked_of_who_sends(error: int | None, seen: int | None) -> None:
    """Its brokers and its rights count, not the consumer's; without DESCRIBE it is not seen."""
    scene = _Scene()
    scene.producer.check()
    refusal = None if error is None else KafkaError(error)
    found = SimpleNamespace(partitions=[0, 1, 2], error=refusal)
    scene.made[0].topics = {"dlq": found}
    assert seen == scene.producer.partitions("dlq", 1.0)


def test_brokers_that_do_not_answer_are_no_missing_topic() -> None:
    """Whoever asks decides whether to ask again."""
    scene = _Scene()
    scene.producer.check()
    scene.made[0].topics = {
        "dlq": SimpleNamespace(partitions=[], error=KafkaError(KafkaError.LEADER_NOT_AVAILABLE))
    }
    with pytest.raises(KafkaException):
        scene.producer.partitions("dlq", 1.0)


_TOPIC = "linear-retry.control"
_CONFIG = {"bootstrap.servers": "fake:9092", "group.id": "not a producer's"}
_RECORD = OutgoingRecord(_TOPIC, b"id", b"{}", timestamp_ms=1_767_225_600_000)


@pytest.fixture
def fake() -> FakeKafka:
    kafka = FakeKafka()
    kafka.create_topic(_TOPIC)
    return kafka


def test_it_is_there(fake: FakeKafka) -> None:
    """With its key, and the time that it was sent at."""
    write_all(control_config(_CONFIG, 10.0), [_RECORD], 11.0, fake.producer)
    (record,) = fake.topics[_TOPIC].partitions[0].records
    assert record is not None
    assert (b"id", b"{}", _RECORD.timestamp_ms) == (record.key, record.value, record.timestamp_ms)
    assert "group.id" not in fake.producers[0].config


def test_a_missing_topic_is_named_and_not_made(fake: FakeKafka) -> None:
    """A topic with a retention that nobody chose would be no help."""
    other = _RECORD._replace(topic="other")
    with pytest.raises(UnknownTopicError, match="topic 'other' does not exist; check its name"):
        write_all(control_config(_CONFIG, 60.0), [other], 61.0, fake.producer)
    assert "other" not in fake.topics


@pytest.mark.parametrize("brokers_down", [False, True])
def test_what_is_not_acknowledged_is_reported(fake: FakeKafka, brokers_down: bool) -> None:
    """It may be there all the same: whoever sends it again is told to look first."""
    fake.faults.brokers_down = brokers_down
    fake.faults.fail_delivery(KafkaError._MSG_TIMED_OUT, lands=True)
    with pytest.raises(BrokerError, match=r"has not acknowledged it: .* before you send it again"):
        write_all(control_config(_CONFIG, 5.0), [_RECORD], 6.0, fake.producer)
