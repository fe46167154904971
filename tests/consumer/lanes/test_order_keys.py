"""What gives a message the key of its order: Kafka, or a function of the user's."""

from collections.abc import Callable
from typing import Any

import pytest

from linear_retry import ConfigurationError, events
from linear_retry.consumer.settings.by_key import ByKey
from linear_retry.kafka import Message
from linear_retry.records.commit_note import read_note
from tests.consumer.group import GROUP, TOPIC, FakeGroup

_P0 = (TOPIC, 0)


def _tenant(message: Message) -> bytes | None:
    """The first letter of its key."""
    key = message.key()
    return key[:1] if isinstance(key, bytes) else None


def _group(keys: list[bytes | None], scope: ByKey, **options: Any) -> FakeGroup:
    chosen: dict[str, Any] = {"concurrency": 4, "strategy": [60.0] * 9} | options
    group = FakeGroup(partitions=1, scope=scope, **chosen)
    order = scope.key or Message.key
    for place in group.produce_keys(0, keys):
        kept = group.keys[place]
        made: Any = order(Message(key=kept)) if kept is not None else None
        group.keys[place] = made if scope.unkeyed == "in-order" or made else str(place).encode()
    group.join()
    group.share([0])
    return group


def _leave_and_join(group: FakeGroup) -> None:
    (member,) = group.members
    group.leave(member)
    group.join()
    group.share([0])


def test_a_function_gives_the_key() -> None:
    """One account of tenant a fails: everything else of that tenant waits, and b goes on. A clean
    stop repeats nothing."""
    group = _group([b"a1", b"b1", b"a2", b"b2"], ByKey(key=_tenant, key_id="tenant-1"))
    group.dependency.down_for_keys = {b"a1"}
    group.turn(20)
    assert [0, 1, 3] == sorted(group.attempted())
    _leave_and_join(group)
    group.turn(20)
    assert [0, 1, 3] == sorted(group.attempted())
    group.dependency.down_for_keys = set()
    group.finish()
    assert [0, 2] == group.attempted()[3:]
    assert [] == group.violations()


@pytest.mark.parametrize("before", ["", "tenant-1"])
def test_a_note_by_other_keys_is_refused(before: str) -> None:
    """Its digests say nothing of this function's keys: what is not done would be passed over."""
    old = ByKey(key=_tenant if before else None, key_id=before)
    group = _group([b"a1", b"b1", b"a2", b"b2"], old)
    group.dependency.down_for_keys = {b"a1"}
    group.turn(20)
    group.scope = ByKey(key=_tenant, key_id="tenant-2")
    _leave_and_join(group)
    with pytest.raises(ConfigurationError) as refused:
        group.turn(20)
    theirs = "the keys of key_id='tenant-1'" if before else "Kafka's keys"
    assert (
        f"orders[0]: the note beside the group's committed offset goes by {theirs}, and this "
        "consumer by the keys of key_id='tenant-2': up to 4 messages would be handled again; run "
        'the other until no key is held, or accept it with on_unreadable_note="handle-again"'
    ) == str(refused.value)


def test_a_note_by_other_keys_may_be_handled_again() -> None:
    """All of it: nothing is lost."""
    old = ByKey(key=_tenant, key_id="tenant-1")
    group = _group([b"a1", b"b1", b"a2", b"b2"], old, on_unreadable_note="handle-again")
    group.dependency.down_for_keys = {b"a1"}
    group.turn(20)
    before = len(group.attempted())
    group.scope = ByKey(key=_tenant, key_id="tenant-2")
    group.dependency.down_for_keys = set()
    _leave_and_join(group)
    group.finish()
    assert [0, 1, 2, 3] == sorted(group.attempted()[before:])


def test_nothing_passed_over_is_nothing_to_refuse() -> None:
    """A note without done messages above its offset is of use to every function: the failures of
    the held message are its own."""
    group = FakeGroup(partitions=1, strategy=[60.0] * 9)
    group.produce_keys(0, [b"a1"])
    group.join()
    group.share([0])
    group.dependency.down = True
    group.turn(10)
    group.scope, group.concurrency = ByKey(key=_tenant, key_id="tenant-1"), 4
    _leave_and_join(group)
    group.turn(10)
    (member,) = group.members
    opened = [each for each in member.events if isinstance(each, events.CircuitOpened)]
    assert [1] == [each.failures for each in opened]
    assert 1 == len(group.attempted())


def _fails(_: Message) -> bytes:
    raise ValueError("no JSON")


@pytest.mark.parametrize(
    ("key", "problem"),
    [
        (_fails, "ValueError('no JSON')"),
        (lambda _: 7, "TypeError('it returned a int: must be bytes, str or None')"),
        (lambda _: "\ud800", "UnicodeEncodeError"),
    ],
)
def test_a_function_that_fails(
    key: Callable[[Message], Any], problem: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Its messages are those without a key: raised, it would end the consumer at each start, at
    the same message. It is logged once."""
    group = _group([None, None], ByKey(key=key, key_id="broken-1"))
    group.produce_keys(0, [b"a", b"b"])
    group.finish()
    assert [0, 1, 2, 3] == group.attempted()
    (said,) = [each.message for each in caplog.records if "gave it no key" in each.message]
    assert said.startswith("orders[0]@0: ByKey(key=...) gave it no key (")
    assert problem in said


def test_a_text_is_a_key() -> None:
    """As its UTF-8."""
    group = _group([b"a1", b"b1"], ByKey(key=lambda _: "tenant", key_id="one-1"))
    group.dependency.down_for_keys = {b"a1"}
    group.turn(20)
    assert [0] == group.attempted()


def test_messages_without_a_key_in_any_order() -> None:
    """One that fails holds no other. A clean stop repeats nothing, and its failures survive."""
    group = _group([None, None, b"a", None], ByKey(unkeyed="any"))
    group.dependency.down_for_keys = {None}
    while len(group.attempted()) == 0:
        group.turn()
    group.dependency.down_for_keys = set()
    group.turn(20)
    (member,) = group.members
    held = {scope.key for scope, _ in member.circuits}
    before = sorted(group.attempted())
    assert {"unkeyed@0"} <= held <= {"unkeyed@0", "unkeyed@1", "unkeyed@3"}
    assert {0, 1, 2, 3} == {*before}
    _leave_and_join(group)
    note = read_note(group.fake.notes(GROUP)[_P0], GROUP, _P0)
    assert note is not None
    assert {"message"} == {one.kind for one in note.undone}
    group.turn(20)
    assert before == sorted(group.attempted())
    group.finish()
    assert [] == group.violations()


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"key": _tenant}, "key_id is missing; name the function with its version"),
        ({"key_id": "tenant-1"}, "ByKey(key_id='tenant-1'): it names a function"),
        ({"key": _tenant, "key_id": "x" * 41}, "must be at most 40 ASCII characters"),
        ({"key": _tenant, "key_id": "Kündin-1"}, "must be at most 40 ASCII characters"),
        ({"key": lambda: b"", "key_id": "none-1"}, "not a function of one message"),
        ({"unkeyed": "some"}, "ByKey(unkeyed='some'): must be one of 'in-order', 'any'"),
    ],
)
def test_what_cannot_be_meant(options: dict[str, Any], problem: str) -> None:
    """It is said before anything is read."""
    with pytest.raises(ConfigurationError) as refused:
        ByKey(**options)
    assert problem in str(refused.value)
