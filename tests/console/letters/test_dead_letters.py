"""The console shows the dead-letter topics that it is given, or finds."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from linear_retry.console.letters import dead_letters
from linear_retry.console.letters.dead_letters import DeadLetters, has_letters, names_to_look_at
from linear_retry.console.letters.index import Index
from linear_retry.dlq import Filter
from linear_retry.errors import BrokerError
from linear_retry.kafka.topics.reader import TopicReader
from tests.dlq.conftest import scenes_on
from tests.dlq.scene import NewScene
from tests.kafka_operations import wait_until
from tests.real_kafka import RealKafka

pytestmark = pytest.mark.broker


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NewScene]:
    """On a broker of this module's own: the shared one has more such topics than are found."""
    with RealKafka(tmp_path_factory.mktemp("found") / "kafka") as kafka:
        yield scenes_on(kafka)


def test_topics_with_letters_are_found(scene: NewScene, tmp_path: Path) -> None:
    """By what was written to them last: not their source, which has replayed messages, and not
    their resolutions."""
    given, empty = scene(2), scene()
    given.add_letters([given.letter(0, n) for n in range(3)])
    given.replay(Filter(limit=1))
    with DeadLetters(given.config, tmp_path) as letters:
        wait_until(lambda: letters.has_looked, "it has looked")
        found = letters.get(given.letters)
        assert found is not None
        wait_until(lambda: found.indexer.progress.is_complete, "it is indexed")
        assert letters.get(empty.letters) is None
        assert letters.get(given.source) is None
        assert letters.get(f"{given.letters}.resolved") is None


def test_given_topics_are_all_it_shows(scene: NewScene, tmp_path: Path) -> None:
    """Empty ones too, and at once."""
    given = scene()
    with DeadLetters(given.config, tmp_path, [given.letters]) as letters:
        assert [given.letters] == [each.index.topic for each in letters.topics()]


def test_a_topic_that_is_gone_is_dropped(
    scene: NewScene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its file: what was deleted from Kafka does not stay on disk."""
    _look_often(monkeypatch)
    given, other = scene(), scene()
    for each in (given, other):
        each.add_letters([each.letter(0, 0)])
    with DeadLetters(given.config, tmp_path) as letters:
        wait_until(lambda: letters.get(given.letters) and letters.get(other.letters), "both")
        gone = letters.get(given.letters)
        assert gone is not None
        given.kafka.delete_topic(given.letters)
        wait_until(lambda: letters.get(given.letters) is None, "it is dropped")
        wait_until(lambda: not gone.index.path.exists(), "its file is removed")
        assert letters.get(other.letters) is not None


def test_a_topic_that_two_answers_lack_is_kept(
    scene: NewScene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that had just started did not know it, and an hour's work was read again."""
    _look_often(monkeypatch)
    given = scene()
    given.add_letters([given.letter(0, 0)])
    answers = list[bool]()

    def names(reader: TopicReader) -> list[str]:
        answers.append(len(answers) not in (2, 3))
        return [each for each in names_to_look_at(reader) if answers[-1] or each != given.letters]

    monkeypatch.setattr(dead_letters, "names_to_look_at", names)
    with DeadLetters(given.config, tmp_path) as letters:
        wait_until(lambda: len(answers) > 1, "it is found")
        found = letters.get(given.letters)
        wait_until(lambda: len(answers) > 6, "two answers lacked it, and others did not")
        assert found is not None
        assert found is letters.get(given.letters)
    assert answers.count(False) == 2


@pytest.mark.parametrize("is_given", [True, False])
def test_indexes_of_topics_that_are_not_shown_are_removed(
    is_given: bool, scene: NewScene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keys and errors of a topic that was deleted while no console ran stayed on disk for ever."""
    _look_often(monkeypatch)
    gone, given = Index(tmp_path, "gone"), scene()
    given.add_letters([given.letter(0, 0)])
    kept = Index(tmp_path, given.letters)
    with DeadLetters(given.config, tmp_path, [given.letters] if is_given else []):
        wait_until(lambda: not gone.path.exists(), "it is removed")
        assert kept.path.exists()


def test_more_topics_than_are_built_at_once_are_all_indexed(
    scene: NewScene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One after another."""
    monkeypatch.setattr(dead_letters, "_BUILT_AT_ONCE", 1)
    scenes = [scene() for _ in range(3)]
    for each in scenes:
        each.add_letters([each.letter(0, 0)])
    with DeadLetters(scenes[0].config, tmp_path, [each.letters for each in scenes]) as letters:
        wait_until(
            lambda: all(each.indexer.progress.is_complete for each in letters.topics()), "all are"
        )


def _look_often(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_FIND_EVERY_S", "_FIND_AGAIN_S"):
        monkeypatch.setattr(dead_letters, name, 0.1)


def test_a_topic_that_cannot_be_read_ends_nothing(
    scene: NewScene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those behind it are found, and it is said."""
    given, other = sorted((scene(), scene()), key=lambda each: each.letters)
    other.add_letters([other.letter(0, 0)])

    def looked_at(reader: TopicReader, topic: str) -> bool:
        if topic == given.letters:
            raise BrokerError("not authorized")
        return has_letters(reader, topic)

    monkeypatch.setattr(dead_letters, "has_letters", looked_at)
    with DeadLetters(given.config, tmp_path) as letters:
        wait_until(lambda: letters.has_looked, "it has looked")
        assert letters.get(other.letters) is not None
        assert letters.trouble is not None
        assert letters.trouble.endswith(f"such as {given.letters}: not authorized")
