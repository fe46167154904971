"""The brokers are asked the right questions, without waiting."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import ConfigEntry, ConfigResource, ListOffsetsResultInfo  # type: ignore[attr-defined]  # exported by import only

from linear_retry.kafka.topics.admin import Admin


class _AdminClient:
    """Keeps what it is asked; a test answers."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.config = config
        self.asked: list[tuple[Any, dict[str, Any]]] = []
        self.answer: Future[Any] = Future()
        self.answers: list[Future[Any]] = []

    def list_offsets(self, offsets: dict[TopicPartition, Any], **named: Any) -> dict[Any, Any]:
        (item,) = offsets
        self.answers.append(self.answer)
        self.asked.append(((item.topic, item.partition), named))
        return {item: self.answer}

    def describe_cluster(self, **named: Any) -> Future[Any]:
        self.asked.append(("cluster", named))
        return self.answer

    def describe_configs(self, resources: list[ConfigResource], **named: Any) -> dict[Any, Any]:
        (resource,) = resources
        self.asked.append((resource.name, named))
        return {resource: self.answer}


class _Scene:
    def __init__(self, **config: Any) -> None:
        self.made: list[_AdminClient] = []
        self.admin = Admin({"bootstrap.servers": "b:1"} | config, self._make)

    def _make(self, config: dict[str, Any]) -> _AdminClient:
        self.made.append(_AdminClient(config))
        return self.made[-1]


def test_the_handle_is_made_at_the_first_question() -> None:
    """Few consumers ask one; those that do have one handle, until it is dropped."""
    scene = _Scene()
    seen = [len(scene.made)]
    scene.admin.ask_end(("orders", 0))
    scene.admin.ask_retention_ms("orders")
    seen.append(len(scene.made))
    scene.admin.close()
    scene.admin.ask_end(("orders", 0))
    seen.append(len(scene.made))
    assert [0, 1, 2] == seen


@pytest.mark.parametrize("drop", [Admin.close, Admin.ask_brokers])
def test_a_question_ends_with_its_client(drop: Callable[[Admin], object]) -> None:
    """librdkafka drops it without a word: whoever had asked waited for ever, and a member whose
    brokers were asked for stayed out of its group."""
    scene = _Scene()
    asked = scene.admin.ask_end(("orders", 0)), scene.admin.ask_retention_ms("orders")
    drop(scene.admin)
    assert {KafkaError._DESTROY} == {_code_of(answer) for answer in asked}
    scene.made[0].answer.set_result(ListOffsetsResultInfo(42, -1, -1))  # late, and of no use
    assert _code_of(asked[0]) == KafkaError._DESTROY


def test_any_error_ends_a_question() -> None:
    """Also one that is not Kafka's, as of a client that could not even send it."""
    scene = _Scene()
    asked = scene.admin.ask_end(("orders", 0))
    scene.made[0].answer.set_exception(RuntimeError("closed"))
    assert isinstance(asked.exception(0), RuntimeError)


def test_a_client_that_has_lost_its_brokers_takes_no_question_with_it() -> None:
    """The next question is asked of another: those that the first has still open end."""
    scene = _Scene()
    lost, other = scene.admin.ask_end(("orders", 0)), Future[Any]()
    scene.made[0].answer = other
    waiting = scene.admin.ask_end(("orders", 1))
    scene.made[0].answers[0].set_exception(KafkaException(KafkaError(KafkaError._TRANSPORT)))
    scene.admin.ask_end(("orders", 2))
    assert (2, True) == (len(scene.made), waiting.done())
    assert [KafkaError._TRANSPORT, KafkaError._DESTROY] == [_code_of(lost), _code_of(waiting)]


def _code_of(answer: Future[Any]) -> int:
    error = answer.exception(0)
    assert isinstance(error, KafkaException)
    code: int = error.args[0].code()
    return code


@pytest.mark.parametrize(
    ("config", "level"),
    [
        ({}, IsolationLevel.READ_COMMITTED),
        ({"isolation.level": "read_committed"}, IsolationLevel.READ_COMMITTED),
        ({"isolation.level": "read_uncommitted"}, IsolationLevel.READ_UNCOMMITTED),
    ],
)
def test_the_end_is_the_one_that_we_may_read(config: dict[str, str], level: IsolationLevel) -> None:
    """For the consumer's own isolation level, which is no key of an admin client's."""
    scene = _Scene(**config)
    answer = scene.admin.ask_end(("orders", 3))
    (client,) = scene.made
    ((place, named),) = client.asked
    assert (("orders", 3), level) == (place, named["isolation_level"])
    assert {"bootstrap.servers": "b:1", "log_level": 0} == client.config
    client.answer.set_result(ListOffsetsResultInfo(42, -1, -1))
    assert 42 == answer.result(0)


@pytest.mark.parametrize(
    ("text", "policy", "retention_ms"),
    [
        ("604800000", "delete", 604_800_000),
        ("-1", "delete", -1),
        ("604800000", "compact", -1),
        ("604800000", "compact,delete", 604_800_000),
    ],
)
def test_retention_is_read_as_a_number(text: str, policy: str, retention_ms: int) -> None:
    """-1 is for ever; a topic that is only compacted removes nothing for its age."""
    scene = _Scene()
    answer = scene.admin.ask_retention_ms("orders")
    (client,) = scene.made
    assert "orders" == client.asked[0][0]
    assert not answer.done()
    client.answer.set_result(
        {
            "retention.ms": ConfigEntry("retention.ms", text),
            "cleanup.policy": ConfigEntry("cleanup.policy", policy),
        }
    )
    assert retention_ms == answer.result(0)


@pytest.mark.parametrize("entries", [{}, {"retention.ms": ConfigEntry("retention.ms", "?")}])
def test_an_answer_that_cannot_be_read_is_an_error_of_the_answer(entries: dict[str, Any]) -> None:
    """It belongs to whoever asks for the result, not to librdkafka's thread."""
    scene = _Scene()
    answer = scene.admin.ask_retention_ms("orders")
    scene.made[0].answer.set_result(entries)
    assert isinstance(answer.exception(0), KeyError | ValueError)


def test_a_refusal_is_an_error_of_the_answer() -> None:
    """As the brokers gave it."""
    scene = _Scene()
    answer = scene.admin.ask_end(("orders", 0))
    refusal = KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))
    scene.made[0].answer.set_exception(refusal)
    assert refusal is answer.exception(0)


@pytest.mark.parametrize(
    ("code", "handles"),
    [
        (KafkaError._TIMED_OUT, 2),
        (KafkaError._TRANSPORT, 2),
        (KafkaError._NOENT, 2),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, 1),
    ],
)
def test_after_no_answer_a_new_handle_is_asked(code: int, handles: int) -> None:
    """It may have lost sight of all brokers for good (librdkafka #5301); a refusal is an answer."""
    scene = _Scene()
    scene.admin.ask_end(("orders", 0))
    scene.made[0].answer.set_exception(KafkaException(KafkaError(code)))
    scene.admin.ask_end(("orders", 0))
    scene.admin.ask_end(("orders", 0))
    assert handles == len(scene.made)
