"""An index says what the topic says, whatever happens to either."""

import random
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from linear_retry.console.letters import queries
from linear_retry.console.letters.conditions import LetterFilter
from linear_retry.console.letters.index import Index
from linear_retry.console.letters.indexer import Indexer
from linear_retry.console.letters.writer import Writer
from linear_retry.console.state.state import StateError
from linear_retry.dlq import Filter, Resolution, State
from linear_retry.dlq.reading.resolutions import encoded
from linear_retry.records.dead_letter import resolutions_topic
from tests.console.letters.conftest import Follow
from tests.dlq.scene import NewScene, Scene
from tests.kafka_operations import wait_until

pytestmark = pytest.mark.broker

_ALL = LetterFilter(states=())
_Listed = dict[tuple[int, int], tuple[str, int, str]]


def _listed(given: Scene) -> _Listed:
    """Id, generation and state of each letter, as the shell lists it."""
    with given.topic as topic:
        return {
            (letter.partition, letter.offset): (letter.id, letter.generation, state.value)
            for letter, state in topic.letters()
        }


def _indexed(index: Index) -> _Listed:
    return {
        (each.partition, each.offset): (each.name, each.generation, each.state.value)
        for each in queries.page(index, queries.search(index, _ALL), limit=10_000)
    }


def _wait_until_same(index: Index, given: Scene) -> None:
    wanted = _listed(given)
    assert wanted
    wait_until(lambda: _indexed(index) == wanted, "the index is as the topic")
    states = sorted(state for _, _, state in wanted.values())
    counted = queries.summary(index).states
    assert states == sorted(str(state) for state, number in counted.items() for _ in range(number))


def _write(given: Scene, partitions: int, each: int) -> None:
    letters = [given.letter(p, n) for p in range(partitions) for n in range(each)]
    random.Random(each).shuffle(letters)
    given.add_letters(letters)


def test_it_has_the_letters_and_states_that_the_shell_lists(
    scene: NewScene, follow: Follow
) -> None:
    """Replayed, resolved, reopened, written twice, of another system, or no letter at all: the
    same before the index is built, and while it follows."""
    given = scene(3)
    _write(given, 3, 20)
    given.add_letters([given.letter(0, 1)], 2)
    given.write(("a", b"1"))
    given.write(("kafka_dlt-original-topic", b"orders"), partition=1)
    given.replay(Filter(limit=7))
    index = follow(given)
    assert _listed(given) == _indexed(index)
    with given.topic as topic:
        topic.resolve(Filter(origins=((given.source, 1),)), by="me", why="known")
        _wait_until_same(index, given)
        topic.reopen(Filter(limit=9))
    _write(given, 3, 30)
    _wait_until_same(index, given)


def test_what_was_recorded_by_a_place_alone(scene: NewScene, follow: Follow) -> None:
    """The bug: letters of other systems that a development version had resolved were open on the
    console, and resolved for the shell; of a letter that came after the record it says nothing."""
    given = scene(2)
    names = [f"foreign/{given.letters}/{p}/{n}#1".encode() for p in range(2) for n in range(3)]

    def record(*keys: bytes, is_done: bool = True) -> None:
        value = encoded(Resolution(State.RESOLVED, "ann", why="known")) if is_done else None
        records = [(0, each, value, ()) for each in keys]
        given.kafka.produce(resolutions_topic(given.letters), records)

    given.kafka.create_topic(resolutions_topic(given.letters), 1, {"cleanup.policy": "compact"})
    for partition in range(2):
        given.write(("kafka_dlt-original-topic", b"orders"), partition=partition)
    record(names[0], names[1])
    given.write(("kafka_dlt-original-topic", b"orders"))
    given.add_letters([given.letter(0, 1)])
    index = follow(given)
    assert _listed(given) == _indexed(index)
    assert ["open", "open", "open", "resolved"] == sorted(given.states())
    with given.topic as topic:
        at = topic.letter_at(0, 0)
    assert at is not None
    found = queries.resolution(index, at[0])
    assert found is not None
    assert "known" == found.why
    record(*names[1:])
    _wait_until_same(index, given)
    assert ["open", "resolved", "resolved", "resolved"] == sorted(given.states())
    with given.topic as topic:
        topic.reopen(Filter(ranges=((0, 0, 0),)))
    _wait_until_same(index, given)
    record(names[3], is_done=False)
    _wait_until_same(index, given)
    assert ["open", "open", "open", "resolved"] == sorted(given.states())


def test_a_topic_whose_name_is_too_long_for_one_of_resolutions(
    scene: NewScene, follow: Follow
) -> None:
    """Its letters are all open: none can be resolved."""
    given = replace(made := scene(), letters=f"{made.source}.DLT-".ljust(241, "x"))
    given.kafka.create_topic(given.letters)
    given.write(("kafka_dlt-original-topic", b"orders"))
    assert _listed(given) == _indexed(follow(given))


def test_letters_that_retention_or_a_purge_removes_leave_it(
    scene: NewScene, follow: Follow
) -> None:
    """And the figures with them."""
    given = scene(2)
    _write(given, 2, 30)
    index = follow(given)
    given.kafka.delete_records(given.letters, 0, 11)
    _wait_until_same(index, given)
    given.replay(Filter(origins=((given.source, 1),)))
    with given.topic as topic:
        topic.purge()
    _wait_until_same(index, given)
    assert 19 == queries.count(index, queries.search(index, _ALL))


def test_a_topic_that_was_made_again_is_indexed_from_its_beginning(
    scene: NewScene, follow: Follow
) -> None:
    """Nothing of the old one is left, while it is followed."""
    given = scene()
    _write(given, 1, 20)
    index = follow(given)
    selection = queries.selected(index, LetterFilter())
    given.kafka.delete_topic(given.letters)
    given.kafka.create_topic(given.letters)
    _write(given, 1, 25)
    _wait_until_same(index, given)
    with pytest.raises(queries.StaleSelectionError, match="select them once more"):
        next(queries.keys(index, selection))


def test_it_leaves_its_place_to_another_index_once_it_has_caught_up(
    scene: NewScene, tmp_path: Path
) -> None:
    """It takes one before it reads anything, and follows without it."""
    given = scene()
    _write(given, 1, 20)
    index, places = Index(tmp_path, given.letters), list[tuple[str, int]]()

    @contextmanager
    def place() -> Iterator[None]:
        places.append(("taken", len(_indexed(index))))
        yield
        places.append(("left", len(_indexed(index))))

    with closing(Indexer(index, given.config, place())) as indexer:
        indexer.start()
        _wait_until_same(index, given)
        wait_until(lambda: len(places) == 2, "it has left its place")
        _write(given, 1, 5)
        _wait_until_same(index, given)
    assert [("taken", 0), ("left", 20)] == places


class _KilledError(BaseException):
    """Nothing runs after it."""


def test_killed_in_the_middle_it_goes_on_from_there(
    scene: NewScene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each letter once, whether it is killed before or after the letters of a batch."""
    given = scene(3)
    _write(given, 3, 1_000)
    given.replay(Filter(limit=100))
    index, real = Index(tmp_path, given.letters), Writer.save_positions
    saved: list[int] = []

    def killed(self: Writer, *arguments: object) -> None:
        saved.append(1)
        if len(saved) == 5:
            raise _KilledError
        real(self, *arguments)  # type: ignore[arg-type]  # passed on as they are

    with monkeypatch.context() as patch:
        patch.setattr(Writer, "save_positions", killed)
        patch.setattr(threading, "excepthook", lambda _: None)
        first = Indexer(index, given.config)
        first.start()
        wait_until(lambda: len(saved) == 5, "it is killed")
        first.close()
    before = len(_indexed(index))
    assert before < 3_000
    second = Indexer(Index(tmp_path, given.letters), given.config)
    second.start()
    _wait_until_same(index, given)
    second.close()


def test_after_a_long_absence_resolutions_are_read_again(scene: NewScene, follow: Follow) -> None:
    """A letter may have been reopened meanwhile, and compaction has removed what said so."""
    given = scene()
    _write(given, 1, 5)
    given.replay()
    index = follow(given)
    with given.topic as topic:
        topic.reopen(Filter(limit=2))
    _wait_until_same(index, given)
    with index.writing() as database:
        database.execute("UPDATE letter SET state = 'replayed'")
        database.execute("UPDATE topic SET read_ms = read_ms - 100 * 60 * 1000")
    _wait_until_same(index, given)


def test_a_damaged_index_is_made_again(scene: NewScene, tmp_path: Path) -> None:
    """Its first page is whole, so that only the reading of its tables shows it."""
    given = scene()
    _write(given, 1, 5)
    index = Index(tmp_path, given.letters)
    with index.path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * 4096 * 30)
    for suffix in ("-wal", "-shm"):
        index.path.with_name(index.path.name + suffix).unlink(missing_ok=True)
    indexer = Indexer(Index(tmp_path, given.letters), given.config)
    indexer.start()
    wait_until(lambda: indexer.progress.is_complete, "it is indexed")
    indexer.close()
    assert _listed(given) == _indexed(index)


def test_an_index_that_a_page_finds_damaged_is_made_again(scene: NewScene, follow: Follow) -> None:
    """Its writer need not come across the damage."""
    given = scene()
    _write(given, 1, 20)
    index = follow(given)
    with index.writing() as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with index.path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * 4096 * 20)

    def is_whole() -> bool:
        try:
            return _listed(given) == _indexed(index)
        except StateError:
            return False

    wait_until(is_whole, "it is made again")


def test_a_bug_is_said_and_the_index_goes_on(
    scene: NewScene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its page would else look complete for ever."""
    given = scene()
    _write(given, 1, 5)
    indexer = Indexer(Index(tmp_path, given.letters), given.config)

    def fails(*_: object) -> None:
        raise OverflowError("too large")

    with monkeypatch.context() as patch:
        patch.setattr(Writer, "add_letters", fails)
        indexer.start()
        wait_until(lambda: "too large" in (indexer.progress.trouble or ""), "it says so")
    wait_until(lambda: indexer.progress.is_complete, "it is indexed")
    indexer.close()
    assert indexer.progress.trouble is None


def test_it_says_what_keeps_it_from_going_on(tmp_path: Path) -> None:
    """Brokers that cannot be reached, and since when; the pages say it."""
    config = {"bootstrap.servers": "127.0.0.1:1"}
    indexer = Indexer(Index(tmp_path, "orders.dlq"), config)
    indexer.start()
    wait_until(lambda: indexer.progress.trouble, "it has noticed")
    indexer.close()
    assert "127.0.0.1:1" in (indexer.progress.trouble or "")
    assert indexer.progress.trouble_since_ms
    assert not indexer.progress.is_complete
