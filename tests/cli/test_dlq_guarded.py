"""What does `linear-retry dlq` do where a login is wanted, and something is forbidden?"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # exported by import only
    AclOperation,
    ResourceType,
)
from typer.testing import CliRunner

from linear_retry.cli import app
from tests.dlq.guarded_kafka import GuardedKafka
from tests.dlq.letters import our_record

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
    """SASL's keys in the file of `--config` are all that is needed; no group's permission is.

    librdkafka looks for a coordinator all the same, and its refusal was taken for the topic's.
    """
    code, out, err = _list("allowed.dlq", guarded.keys("reader"), tmp_path)
    assert (0, "") == (code, err)
    assert "billing/orders/3/0/1795253536810" == json.loads(out)["id"]


@pytest.mark.parametrize("topic", ["unread.dlq", "hidden.dlq", "half.dlq"])
def test_no_permission(guarded: GuardedKafka, tmp_path: Path, topic: str) -> None:
    """Who may not read a topic, or what is recorded of it, is told so, and what to ask for."""
    code, out, err = _list(topic, guarded.keys("reader"), tmp_path)
    assert (3, "") == (code, out)
    name = f"{topic}.resolved" if topic == "half.dlq" else topic
    assert f"no permission for topic '{name}'" in err
    assert err.endswith("; ask for READ and DESCRIBE on it\n")


def test_a_wrong_password(guarded: GuardedKafka, tmp_path: Path) -> None:
    """It is said at once that the login is refused, and the password is not repeated."""
    wrong = guarded.keys("reader") | {"sasl.password": "guessed"}
    code, out, err = _list("allowed.dlq", wrong, tmp_path)
    assert (3, "") == (code, out)
    assert "the login is refused" in err
    assert "guessed" not in err
