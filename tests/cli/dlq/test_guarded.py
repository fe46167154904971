"""`linear-retry dlq` logs in where that is wanted, and names what is forbidden."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AclOperation, ResourceType  # type: ignore[attr-defined]  # exported by import only
from typer.testing import CliRunner

from linear_retry.cli import app
from linear_retry.errors import BrokerError
from linear_retry.kafka.topics.reader import TopicReader
from tests.dlq.guarded_kafka import GuardedKafka
from tests.dlq.sample_letters import our_record

pytestmark = pytest.mark.broker

_TOPICS = ("allowed.dlq", "unread.dlq", "hidden.dlq", "half.dlq", "half.dlq.resolved")


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedKafka]:
    kafka = GuardedKafka(tmp_path_factory.mktemp("guarded") / "kafka")
    with kafka:
        letter = our_record()
        for name in _TOPICS:
            kafka.create_topic(name)
            kafka.produce(name, [(0, letter.key, letter.value, letter.headers)])
        kafka.deny(ResourceType.TOPIC, "unread.dlq", AclOperation.READ)
        kafka.deny(ResourceType.TOPIC, "hidden.dlq", AclOperation.DESCRIBE)
        kafka.deny(ResourceType.TOPIC, "half.dlq.resolved", AclOperation.READ)
        kafka.deny(ResourceType.GROUP, "*", AclOperation.ALL)
        yield kafka


def _list(topic: str, keys: dict[str, str], directory: Path) -> tuple[int, str, str]:
    file = directory / "client.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in keys.items()))
    result = CliRunner().invoke(app, ["dlq", "list", topic, "--config", str(file), "--json"])
    return result.exit_code, result.stdout, result.stderr


def test_a_login_from_a_file(guarded: GuardedKafka, tmp_path: Path) -> None:
    """SASL's and TLS' keys in the file of `--config` are all it takes; no group's permission is.

    librdkafka looks for a coordinator all the same, and its refusal was taken for the topic's.
    """
    code, out, err = _list("allowed.dlq", guarded.keys("reader"), tmp_path)
    assert (0, "") == (code, err)
    assert "billing/orders/3/0/498921439726" == json.loads(out)["id"]


@pytest.mark.parametrize("topic", ["unread.dlq", "hidden.dlq", "half.dlq"])
def test_no_permission(guarded: GuardedKafka, tmp_path: Path, topic: str) -> None:
    """Who may not read a topic, or what is recorded of it, is told so, and what to ask for."""
    code, out, err = _list(topic, guarded.keys("reader"), tmp_path)
    assert (3, "") == (code, out)
    name = f"{topic}.resolved" if topic == "half.dlq" else topic
    assert f"no permission for topic '{name}'" in err
    assert err.endswith("; ask for READ and DESCRIBE on it\n")


def test_a_wrong_password(guarded: GuardedKafka, tmp_path: Path) -> None:
    """It is reported at once that the login is refused, and the password is not repeated."""
    wrong = guarded.keys("reader") | {"sasl.password": "guessed"}
    code, out, err = _list("allowed.dlq", wrong, tmp_path)
    assert (3, "") == (code, out)
    assert "the login is refused" in err
    assert "guessed" not in err


def test_an_unknown_certificate(guarded: GuardedKafka) -> None:
    """A broker that cannot prove who it is gets no login, and the key to correct is named."""
    keys = guarded.keys("reader")
    del keys["ssl.ca.location"]
    with pytest.raises(BrokerError, match=r"certificate verify failed.*ssl\.ca\.location"):
        list(TopicReader(keys, timeout_s=1.0).read("allowed.dlq"))


def _deal(command: str, topic: str, guarded: GuardedKafka, directory: Path) -> tuple[int, str, str]:
    file = directory / "client.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in guarded.keys("reader").items()))
    result = CliRunner().invoke(app, ["dlq", command, topic, "--config", str(file), "--yes"])
    return result.exit_code, result.stdout, result.stderr


def _buried(guarded: GuardedKafka, source: str) -> str:
    """A dead-letter topic with a letter that came from `source`."""
    letter = our_record(partition=0, origin=source)
    for name in (source, f"{source}.dlq"):
        guarded.create_topic(name)
    guarded.produce(f"{source}.dlq", [(0, letter.key, letter.value, letter.headers)])
    return f"{source}.dlq"


def test_no_permission_to_write(guarded: GuardedKafka, tmp_path: Path) -> None:
    """Neither to the origin nor to the resolutions: said before anything is sent."""
    topic = _buried(guarded, "unwritten")
    guarded.create_topic(f"{topic}.resolved", config={"cleanup.policy": "compact"})
    guarded.allow(ResourceType.TOPIC, "unwritten", AclOperation.READ)
    guarded.allow(ResourceType.TOPIC, f"{topic}.resolved", AclOperation.READ)
    code, _, err = _deal("replay", topic, guarded, tmp_path)
    expected = [
        f"{name}: no permission to write; ask for WRITE and DESCRIBE on it"
        for name in (f"{topic}.resolved", "unwritten")
    ]
    assert (3, expected) == (code, err.splitlines())
    code, _, err = _deal("resolve", topic, guarded, tmp_path)
    assert (3, expected[:1]) == (code, err.splitlines())


def test_no_permission_for_the_transactional_id(guarded: GuardedKafka, tmp_path: Path) -> None:
    """Which one it is stands in the sentence."""
    topic = _buried(guarded, "untaken")
    name = f"linear-retry.dlq.{topic}"
    guarded.allow(ResourceType.TRANSACTIONAL_ID, name, AclOperation.DESCRIBE)
    code, _, err = _deal("replay", topic, guarded, tmp_path)
    assert 3 == code
    assert f"transactional.id {name!r}" in err
    assert [] == guarded.read("untaken")


def test_no_permission_to_create_or_delete(guarded: GuardedKafka, tmp_path: Path) -> None:
    """The topic for resolutions can be made by somebody else; deleting cannot."""
    topic = _buried(guarded, "uncreated")
    for operation in (AclOperation.READ, AclOperation.WRITE):
        guarded.allow(ResourceType.TOPIC, f"{topic}.resolved", operation)
    guarded.allow(ResourceType.TOPIC, topic, AclOperation.READ)
    guarded.allow(ResourceType.BROKER, "kafka-cluster", AclOperation.DESCRIBE)
    code, _, err = _deal("replay", topic, guarded, tmp_path)
    assert (3, True) == (code, f"creating topic '{topic}.resolved'" in err)
    guarded.create_topic(f"{topic}.resolved", config={"cleanup.policy": "compact"})
    code, _, err = _deal("resolve", topic, guarded, tmp_path)
    assert code == 0, err
    code, _, err = _deal("purge", topic, guarded, tmp_path)
    assert (3, True) == (code, f"deleting {topic}[0] before 1" in err)
    assert 1 == len(guarded.read(topic))
