"""`linear-retry circuits list` and `watch` say whether anybody reads for a group."""

from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest
from typer.testing import CliRunner

from linear_retry import events as e
from linear_retry.cli import app
from linear_retry.journal.entry import encode
from tests.cli.terminal import Piped, terminal
from tests.conftest import TopicFactory
from tests.journal.journal_story import Life, opened
from tests.kafka_operations import wait_until
from tests.real_kafka import RealKafka

pytestmark = pytest.mark.broker

_Killed = Callable[[], tuple[str, str]]


@pytest.fixture
def killed(kafka: RealKafka, topic: TopicFactory) -> _Killed:
    """Makes a group whose member has gone without a word, and a journal of it and another."""

    def make() -> tuple[str, str]:
        orders, journal, group = topic(), topic(), f"group-{uuid4().hex[:8]}"
        kafka.produce(orders, [(0, None, b"value", ()) for _ in range(4)])
        kafka.commit(group, orders, {0: 1})
        lives = [Life("p-1", group=name) for name in (group, f"{group}-2")]
        entries = [life.says(1, e.Assigned(((orders, 0),))) for life in lives]
        entries.append(lives[1].says(2, opened((orders, 0), 1, 3)))
        kafka.produce(journal, [(0, each.key, encode(each), ()) for each in entries])
        return group, journal

    return make


def test_a_list_names_groups_that_nobody_reads_for(kafka: RealKafka, killed: _Killed) -> None:
    """`kill -9` of its only member: "no circuit is open", and 3 messages waited for nobody."""
    group, journal = killed()
    arguments = ["circuits", "list", "-b", kafka.bootstrap, "--journal", journal]
    arguments += ["--since", "2000-01-01"]
    found = CliRunner().invoke(app, arguments)
    assert [
        f"{group}: no live member, 3 waiting",
        f"{group}-2: past: Kafka knows no such group any more",
    ] == found.stderr.splitlines()
    assert "past" == found.stdout.splitlines()[1].split("\t")[-1]


def test_watch_says_that_no_member_lives(kafka: RealKafka, killed: _Killed, tmp_path: Path) -> None:
    """In a pipe, as JSON and on a terminal; it showed a member that is "closed", green."""
    group, journal = killed()
    arguments = ["watch", "--group", group, "-b", kafka.bootstrap, "--journal", journal]
    arguments += ["--since", "2000-01-01"]
    with Piped(tmp_path, *arguments) as lines:
        wait_until(lambda: [f"{group}: no live member, 3 waiting"] == lines.output, "it is said")
    with Piped(tmp_path, *arguments, "--json") as objects:
        said = wait_until(
            lambda: [one for one in objects.objects if one.get("liveness") == "no-member"],
            "as JSON",
        )
        assert 3 == said[-1]["waiting"]
    with terminal(*arguments) as shown:
        shown.wait_for("no live member, 3 waiting")
