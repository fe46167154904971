"""Every commit carries the note of its partition: one without it would clear what is there."""

import ast
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import linear_retry
from linear_retry.consumer.partitions.offsets import OffsetCommits
from linear_retry.records.commit_note import read_note
from tests.consumer.group import GROUP, TOPIC, FakeGroup, Protocol

_P0 = (TOPIC, 0)
_HOUR_S = 3600.0
_COMMITS = {"commit", "commit_now", "to_commit", "send_offsets_to_transaction"}
_PATHS = {
    "OffsetCommits.send",
    "OffsetCommits.commit_first",
    "OffsetCommits.commit_revoked",
    "Shutdown._commit",
    "ReplacedLogWatchdog._commit",
    "TransactionalDelivery._add_offset",
    "TransactionalProducer.send_offset",
    "Client.commit",
    "Client._commit_now",
    "Client._with_notes",
}


def _that_commit() -> Iterator[str]:
    """The functions of the consumer and its clients that commit an offset."""
    package = Path(linear_retry.__file__).parent
    for folder in ("consumer", "kafka/consumer", "kafka/producers"):
        for path in (package / folder).rglob("*.py"):
            for owner in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                for function in owner.body if isinstance(owner, ast.ClassDef) else ():
                    if any(map(_commits, ast.walk(function))):
                        assert isinstance(function, ast.FunctionDef)
                        assert isinstance(owner, ast.ClassDef)
                        yield f"{owner.name}.{function.name}"


def _commits(node: ast.AST) -> bool:
    """Whether it calls a method that commits, of a client."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    owner = node.func.value
    name = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "self")
    return node.func.attr in _COMMITS and name in {"_client", "_consumer", "producer", "self"}


def test_nothing_else_commits() -> None:
    """Who adds a path adds it here, and shows that it carries the note."""
    assert _PATHS == set(_that_commit())


def _by_key(protocol: Protocol, *, transactional: bool = False) -> FakeGroup:
    """Key a is held at offset 0, and what is behind it is done."""
    group = FakeGroup(
        partitions=1,
        scope="key",
        concurrency=4,
        protocol=protocol,
        transactional=transactional,
        strategy=[_HOUR_S] * 3,
    )
    group.dependency.down_for_keys = {b"a"}
    group.produce_keys(0, [b"a", b"b", b"c", b"a"])
    group.join()
    group.share([0])
    return group


def _is_noted(group: FakeGroup) -> bool:
    """Whether it is committed that key a is held, and all others are done."""
    note = read_note(group.fake.notes(GROUP).get(_P0), GROUP, _P0)
    if note is None:
        return False
    assert note.base == group.fake.group(GROUP)[_P0] == 0
    return note.frontier == 3 and [one.offset for one in note.undone] == [0]


def _revoked(group: FakeGroup) -> None:
    group.fake.revoke(group.members[0].consumer)
    group.turn(3)


ENDS: dict[str, Callable[[FakeGroup], None]] = {
    "revoked": _revoked,
    "closed": lambda group: group.leave(group.members[0]),
}


@pytest.mark.parametrize("protocol", ["eager", "cooperative", "consumer"])
@pytest.mark.parametrize("end", [*ENDS])
def test_the_last_commit_of_an_owner(
    end: str, protocol: Protocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that a partition leaves with, or the process, without any other before."""
    monkeypatch.setattr(OffsetCommits, "send", lambda _: None)
    group = _by_key(protocol)
    group.turn(20)
    assert not _is_noted(group)
    ENDS[end](group)
    assert _is_noted(group)


@pytest.mark.parametrize("protocol", ["eager", "cooperative", "consumer"])
def test_the_commit_of_each_second(protocol: Protocol) -> None:
    """While the owner consumes."""
    group = _by_key(protocol)
    for _ in range(5):
        group.fake.clock.advance(1)
        group.turn(5)
    assert _is_noted(group)


def test_a_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    """The letter of key c commits what is done above key a, and itself."""
    monkeypatch.setattr(OffsetCommits, "send", lambda _: None)
    group = _by_key("consumer", transactional=True)
    group.dependency.refuses.add((0, 2))
    group.turn(40)
    assert _is_noted(group)
