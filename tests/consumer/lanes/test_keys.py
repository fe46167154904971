"""Order by key: a key that fails waits by itself, and many at once are an outage."""

from collections.abc import Iterable
from typing import Any

import pytest

from linear_retry import ConfigurationError, HandlerTooSlowError, events
from linear_retry.consumer import assembly
from linear_retry.consumer.lanes.lane_read_ahead import LaneReadAhead
from linear_retry.consumer.ownership.requests import GiveUp, OperatorRequest, Retry
from linear_retry.consumer.partitions import queued_read_ahead
from linear_retry.consumer.settings.by_key import ByKey
from linear_retry.records.commit_note import CommitNote, Digests, NotedFailures, Undone, write_note
from linear_retry.scope import Scope
from linear_retry.testing.guarantees.done import done_by
from tests.consumer.group import GROUP, LETTERS, TOPIC, FakeGroup, Member

_P0 = (TOPIC, 0)


def _group(keys: Iterable[bytes | None], **options: Any) -> FakeGroup:
    """One partition, with a message for each of these keys, and a member that has it."""
    chosen: dict[str, Any] = {"scope": "key", "concurrency": 4} | options
    group = FakeGroup(partitions=1, **chosen)
    group.produce_keys(0, keys)
    group.join()
    group.share([0])
    return group


def _keys(text: str) -> list[bytes]:
    return [each.encode() for each in text]


def _wide(member: Member) -> list[events.CircuitOpened]:
    opened = [each for each in member.events if isinstance(each, events.CircuitOpened)]
    return [each for each in opened if each.scope.key is None]


def test_a_key_that_fails_waits_and_the_others_go_on() -> None:
    """Its later messages wait with it; once it succeeds, they come in their order."""
    group = _group(_keys("abcabcab"), strategy=[60.0] * 9)
    group.dependency.down_for_keys = {b"a"}
    group.turn(30)
    assert [1, 2, 4, 5, 7] == sorted({*group.attempted()} - {0})
    assert 1 == group.attempted().count(0)
    group.dependency.down_for_keys = set()
    group.finish()
    assert [0, 3, 6] == [offset for offset in group.attempted()[-4:] if offset % 3 == 0]
    assert 9 == len(group.attempted())


def test_a_clean_stop_repeats_nothing() -> None:
    """What is done above a message that is held is told to the next owner, with its failures."""
    group = _group(_keys("abcabcab"), strategy=[60.0] * 9)
    (member,) = group.members
    group.dependency.down_for_keys = {b"a"}
    group.turn(30)
    before = group.attempted()
    group.leave(member)
    group.join()
    group.share([0])
    group.turn(20)
    assert before == group.attempted()
    group.dependency.down_for_keys = set()
    group.finish()
    assert [0, 3, 6] == group.attempted()[len(before) :]


def test_one_key_after_another_is_no_outage() -> None:
    """Any number of poison keys waits for itself, while the others succeed in between."""
    group = _group(_keys("a1b2c3d4e5f6g7"), strategy=[600.0] * 9, concurrency=1)
    (member,) = group.members
    group.dependency.down_for_keys = {*_keys("abcdefg")}
    group.turn(60)
    assert [] == _wide(member)
    assert 7 == len(member.circuits.keys_of(_P0))
    group.produce_keys(0, _keys("89"))
    group.turn(20)
    assert {14, 15} <= {*group.attempted()}


def test_many_at_once_are_an_outage() -> None:
    """One wide circuit opens, and single probes wait for the dependency: not one for each key."""
    keys = [b"%d" % number for number in range(200)]
    group = _group(keys, strategy=[1.0, 1.0, 5.0], concurrency=4)
    (member,) = group.members
    group.dependency.down = True
    began_s = group.fake.clock.now_s()
    while group.fake.clock.now_s() < began_s + 60 and len(group.attempted()) < 200:
        group.turn()
    assert [Scope()] == [each.scope for each in _wide(member)]
    assert len(group.attempted()) <= 5 + 4 + 60 / 5 + 4
    group.dependency.down = False
    group.finish()
    closed = [each for each in member.events if isinstance(each, events.CircuitClosed)]
    assert [Scope()] == [each.scope for each in closed if each.scope.key is None]
    assert {*range(200)} == {*group.attempted()}


def test_what_waits_for_a_worker_is_not_begun_in_an_outage() -> None:
    """With quick handlers messages wait at the workers; where others have failed meanwhile, they
    come back as they are: an outage costs no more attempts than there are workers and `trip`."""
    group = _group(_keys("abcdefghijklmnop"), scope=ByKey(trip=2), strategy=[600.0] * 9)
    (member,) = group.members
    while len(member.workers.running) < 8:
        group.turn()
    handled = len(group.attempted())
    group.dependency.down = True
    group.turn(40)
    assert 1 == len(_wide(member))
    assert len(group.attempted()) - handled <= 2 + 4
    group.dependency.down = False
    group.finish(within_s=2000)
    assert [] == group.violations()


def test_what_waits_for_a_worker_makes_way_for_a_held_key() -> None:
    """The bug: with quick handlers there was always a message that waited for its turn, no worker
    was free, and a held key was not attempted again until nothing else was left."""
    keys = [b"a", *(b"%d" % number for number in range(2_000))]
    group = _group(keys, strategy=[0.1] * 9, concurrency=16)
    group.dependency.down_for_keys = {b"a"}
    while group.attempted().count(0) < 2:
        group.fake.clock.advance(0.001)
        group.turn()
    assert len(group.attempted()) < 1_000


def test_what_waits_for_a_worker_does_not_hang() -> None:
    """Only handlers do, and there are no more of them than workers."""
    group = _group(_keys("abcdefghijklmnop"))
    (member,) = group.members
    while len(member.workers.running) < 8:
        group.turn()
    member.workers.busy = {_P0}
    with pytest.raises(HandlerTooSlowError, match="4 of 4 workers hang"):
        group.turn(10_000)


def test_no_more_are_held_than_may_be() -> None:
    """The next key that fails opens the wide circuit, and is attempted again later."""
    keys = [b"%d" % number for number in range(12)]
    group = _group(keys, scope=ByKey(trip=50, most_held=4), strategy=[600.0] * 9, concurrency=2)
    (member,) = group.members
    group.dependency.down_for_keys = {*keys[:8]}
    for _ in range(100):
        group.turn()
        assert len(member.circuits.keys_of(_P0)) <= 4
    assert [] != _wide(member)
    group.dependency.down_for_keys = set()
    group.finish(within_s=2000)
    assert {*range(12)} == {*group.attempted()}


def test_a_dead_letter_frees_its_key() -> None:
    """The key goes on with its next message; what others have done meanwhile stays done."""
    group = _group(_keys("abab"), strategy=[1.0])
    group.dependency.down_for_keys = {b"a"}
    while not group.fake.topics[LETTERS].partitions[0].records:
        group.turn()
    group.dependency.down_for_keys = set()
    group.finish()
    assert [0, 0, 1, 2, 3] == sorted(group.attempted())


def test_poison_keys_do_not_keep_an_outage_open() -> None:
    """Five keys that fail for ever open the wide circuit on a quiet topic; the first message of
    another key is the next probe but one, and closes it."""
    poison = _keys("abcde")
    group = _group(poison, strategy=[1.0] * 500, concurrency=2)
    (member,) = group.members
    group.dependency.down_for_keys = {*poison}
    group.turn(40)
    assert [Scope()] == [each.scope for each in _wide(member)]
    group.produce_keys(0, [b"f"])
    group.turn(60)
    assert 1 == group.attempted().count(5)
    assert None is member.circuits.get(Scope())
    for _ in range(50):
        group.produce_keys(0, [b"f"])
        group.turn(4)
    assert 1 == len(_wide(member))


def test_keys_that_the_limit_holds_are_attempted_in_an_outage() -> None:
    """The bug: under the wide circuit they were no probes, and once it had closed they were not
    due: with no other message to come they were held for good, and nobody was told."""
    by_key = ByKey(trip=2)
    group = _group(_keys("pab"), scope=by_key, strategy=[1.0], letter_limit=1, concurrency=1)
    group.dependency.refuses.add((0, 0))
    group.dependency.down_for_keys = {b"a", b"b"}
    (member,) = group.members
    while 2 > len([each for each in member.events if isinstance(each, events.LimitReached)]):
        group.turn()
    assert None is not member.circuits.get(Scope())
    group.dependency.down_for_keys = set()
    group.finish()
    assert [] == group.violations()


def test_immediate_retries_are_none_in_an_outage() -> None:
    """The bug: a probe that has not failed before uses up nothing, so they had no end."""
    group = _group(_keys("abcdefgh"), scope=ByKey(trip=2), strategy=[0.0, 0.0])
    group.dependency.down = True
    until_s = group.fake.clock.now_s() + 5
    while group.fake.clock.now_s() < until_s and len(group.attempted()) < 200:
        group.turn()
    assert len(group.attempted()) < 70


def test_messages_without_a_key_are_one_lane() -> None:
    """Nobody's order breaks; an empty key is a key."""
    group = _group([None, b"", None, b"", None], strategy=[60.0] * 9)
    group.dependency.down_for_keys = {None}
    group.turn(20)
    assert [0, 1, 3] == sorted(group.attempted())
    group.dependency.down_for_keys = set()
    group.finish()
    assert [] == group.violations()


@pytest.mark.parametrize("wish", [GiveUp((_P0, 0)), Retry((_P0, 0))])
def test_an_operator_decides_about_a_held_key(wish: OperatorRequest) -> None:
    """It is given up, or attempted, at once; its followers come next, and no other is concerned."""
    group = _group(_keys("aab"), strategy=[600.0] * 9)
    (member,) = group.members
    group.dependency.down_for_keys = {b"a"}
    group.turn(20)
    group.dependency.down_for_keys = set()
    decided = member.parts.requests.submit(wish)
    group.turn(20)
    assert decided.result(0)
    group.finish()
    assert ([0] if isinstance(wish, Retry) else []) == group.attempted()[2:-1]
    assert 1 == group.attempted()[-1]
    assert [] == group.violations()


def test_a_follower_of_a_held_message_is_not_held() -> None:
    """What waits behind it cannot be given up before it: it is not the one that failed."""
    group = _group(_keys("aa"), strategy=[600.0] * 9)
    (member,) = group.members
    group.dependency.down_for_keys = {b"a"}
    group.turn(20)
    decided = member.parts.requests.submit(GiveUp((_P0, 1)))
    group.turn(5)
    assert not decided.result(0)


@pytest.fixture
def small_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each partition at most 20 messages are in memory."""
    monkeypatch.setattr(assembly, "_MOST_OF_KEYS", 0)
    monkeypatch.setattr(queued_read_ahead, "MOST_MESSAGES", 20)


@pytest.mark.usefixtures("small_memory")
def test_however_many_wait_behind_a_held_key_the_others_go_on() -> None:
    """They are not kept, and are read again once it has recovered, in their order."""
    group = _group(_keys("a" * 10), strategy=[60.0] * 9)
    (member,) = group.members
    group.dependency.down_for_keys = {b"a"}
    for _ in range(60):
        group.turn()
        group.produce_keys(0, _keys("aab"))
    group.turn(20)
    assert [12 + 3 * n for n in range(60)] == sorted({*group.attempted()} - {0})
    assert isinstance(member.parts.read_ahead, LaneReadAhead)
    assert not member.parts.read_ahead.is_crowded(_P0)
    group.dependency.down_for_keys = set()
    group.finish(within_s=200)
    assert [] == group.violations()


@pytest.mark.usefixtures("small_memory")
def test_however_many_keys_are_held_the_others_go_on() -> None:
    """One message of each is in memory, and one that waits, which is more than there should be."""
    poison = [b"%d" % number for number in range(15)]
    group = _group([*poison, *poison], scope=ByKey(trip=50), strategy=[600.0] * 9)
    (member,) = group.members
    group.dependency.down_for_keys = {*poison}
    for _ in range(60):
        group.turn()
        group.produce_keys(0, [b"0", b"x"])
    group.turn(20)
    assert [31 + 2 * n for n in range(60)] == sorted(set(group.attempted()) - {*range(15)})
    assert isinstance(member.parts.read_ahead, LaneReadAhead)
    assert member.parts.read_ahead.is_crowded(_P0)


@pytest.mark.usefixtures("small_memory")
def test_a_partition_that_is_not_read_on_is_not_stalled() -> None:
    """The bug: as it delivers nothing, and has messages, it was assigned again every few seconds
    for as long as what waits in memory was enough."""
    group = _group([b"%d" % number for number in range(40)], strategy=[600.0] * 9)
    (member,) = group.members
    group.dependency.down = True
    group.turn(10)
    group.produce_keys(0, _keys("a" * 40))
    assert _P0 in member.parts.housekeeping._poller._flow_control.held_back
    member.parts.read_ahead.invalidate()  # as after an error: all are sought to where they were
    until_s = group.fake.clock.now_s() + 300
    while group.fake.clock.now_s() < until_s:
        group.turn()
    assert [] == [each for each in member.events if isinstance(each, events.PartitionRevived)]
    group.dependency.down = False
    group.finish(within_s=2000)
    assert [] == group.violations()


@pytest.mark.parametrize("concurrency", [1, 4])
def test_an_owner_between_that_takes_partitions_in_order(concurrency: int) -> None:
    """The bug: with workers it wrote of all that is not done only the first message, beside what
    others had done above it; the next owner by key passed over the rest, and it was lost."""
    group = _group(_keys("abc"), strategy=[600.0] * 9)
    (member,) = group.members
    group.dependency.down_for_keys = {b"a", b"b"}
    while 2 not in group.attempted():
        group.turn()
    group.turn(5)
    group.scope, group.concurrency = "partition", concurrency
    for scope in ("partition", "key"):
        group.leave(member)
        group.scope = scope
        member = group.join()
        group.share([0])
        group.turn(10)
    group.dependency.down_for_keys = set()
    group.finish(within_s=2000)
    assert [2] == [offset for offset in group.attempted() if offset == 2]
    assert [] == group.violations()


def test_a_revoke_waits_for_each_key() -> None:
    """The bug: once one key of a partition had come back, its others were not waited for, and what
    their handlers did was repeated by the next owner."""
    group = _group(_keys("abcdabcd"))
    (member,) = group.members
    member.workers.late = {_P0}
    while len(member.workers.running) < 4:
        group.turn()
    group.join()
    group.share([1])
    group.turn(20)
    assert [*range(8)] == sorted(group.attempted())
    assert [] == group.violations()


def test_a_key_that_recovers_during_a_revoke_says_nothing_of_the_others() -> None:
    """The bug: the failures of all held keys of its partition were forgotten with its own, and the
    next owner attempted them at once."""
    group = _group(_keys("ab"), strategy=[600.0] * 9)
    (member,) = group.members
    group.dependency.down_for_keys = {b"a", b"b"}
    group.turn(20)
    group.dependency.down_for_keys = {b"b"}
    member.workers.late = {_P0}
    member.parts.requests.submit(Retry((_P0, 0)))
    while not member.workers.running:
        group.turn()
    group.join()
    group.share([1])
    group.turn(20)
    assert [0, 1, 0] == group.attempted()
    group.dependency.down_for_keys = set()
    group.finish(within_s=2000)
    assert [] == group.violations()


def test_a_note_about_another_log_while_a_handler_runs() -> None:
    """All is read again from where it begins, and what that handler did counts for nothing: what
    had been passed over before it would be lost."""
    digests = Digests(GROUP)
    places = tuple(Undone("key", at, digests.of_key(key)) for at, key in ((2, b"a"), (4, b"x")))
    group = FakeGroup(partitions=1, scope="key", concurrency=4)
    group.produce_keys(0, _keys("bba"))
    group.fake.group(GROUP)[_P0] = 0
    group.fake.notes(GROUP)[_P0] = write_note(CommitNote(0, 6, places), GROUP, _P0)
    member = group.join()
    member.workers.late = {_P0}
    group.share([0])
    while not member.workers.running:
        group.turn()
    group.produce_keys(0, _keys("bbb"))
    member.workers.late = set()
    group.finish()
    assert {*range(6)} == {*group.attempted()}


@pytest.mark.parametrize("frontier", [2, 6])
def test_what_an_owner_before_has_left_is_said_until_it_is_done(frontier: int) -> None:
    """The bug: where it had passed over what was done, an owner left out of its note what was not
    done behind that, and was in memory or in a handler; after a kill it was lost."""
    digests = Digests(GROUP)
    places = [Undone("key", at, digests.of_key(key)) for at, key in ((0, b"a"), (2, b"c"))]
    failed = Undone("key", 4, digests.of_key(b"d"), NotedFailures(1, 0, 0, 0))
    undone = (*(one for one in places if one.offset < frontier), failed)
    note = CommitNote(0, frontier, undone)
    group = FakeGroup(partitions=1, scope="key", concurrency=2)
    group.produce_keys(0, _keys("abc"))  # the next ones have not been fetched yet
    group.fake.group(GROUP)[_P0] = 0
    group.fake.notes(GROUP)[_P0] = write_note(note, GROUP, _P0)
    member = group.join()
    member.workers.busy = {_P0}
    group.share([0])
    group.turn(20)
    group.crash(member)
    group.produce_keys(0, _keys("bdb"))
    group.join()
    group.share([0])
    group.finish()
    done = {place.offset for entry in group.witness.entries for place in done_by(entry)}
    assert {0, 2, 4} <= done
    assert (3 in done) == (frontier == 2)


def test_a_log_that_was_cut_does_not_wait_for_a_held_key() -> None:
    """What is in memory of it is handled first elsewhere; here that could take hours."""
    group = _group(_keys("abab"), strategy=[3600.0] * 9, concurrency=2)
    group.dependency.down_for_keys = {b"a"}
    group.turn(20)
    group.fake.truncate(*_P0, 3)
    del group.visible[_P0][3:]
    group.produce_keys(0, _keys("bb"))
    began_s = group.fake.clock.now_s()
    while {3, 4} - {*group.attempted()} and group.fake.clock.now_s() < began_s + 600:
        group.turn()
    assert {3, 4} <= {*group.attempted()}
    group.dependency.down_for_keys = set()
    group.finish(within_s=4000)
    assert {*range(5)} == {*group.attempted()}


@pytest.mark.filterwarnings("ignore:auto.offset.reset=latest")
def test_retention_loses_held_messages_only() -> None:
    """With `auto.offset.reset=latest`, too: others behind the one that is gone are not done."""
    group = _group([], strategy=[3600.0] * 9, config={"auto.offset.reset": "latest"})
    (member,) = group.members
    group.turn(10)
    group.produce_keys(0, _keys("abcabc"))
    group.dependency.down_for_keys = {b"a"}
    group.turn(30)
    assert [0, 1, 2, 4, 5] == sorted(group.attempted())
    group.leave(member)
    group.produce_keys(0, _keys("bcbc"))
    group.fake.delete_records(*_P0, 4)
    group.join()
    group.share([0])
    group.dependency.down_for_keys = set()
    group.turn(60)
    assert [6, 7, 8, 9] == sorted(group.attempted()[5:])


def test_what_retention_removes_is_handled_where_it_is_in_memory() -> None:
    """The bug: reading began behind it, and the next commit ended the consumer."""
    group = _group(_keys("abcabc"), concurrency=2)
    (member,) = group.members
    while not group.attempted():
        group.turn()
    member.workers.busy = {_P0}
    group.turn(20)
    group.fake.delete_records(*_P0, 6)
    member.parts.housekeeping._poller._flow_control.revive(_P0, "it was stalled")
    group.fake.clock.advance(2.0)
    group.turn(50)
    member.workers.busy.clear()
    group.produce_keys(0, _keys("ab"))
    group.finish()
    assert [*range(8)] == sorted(group.attempted())
    assert [] == group.violations()


@pytest.mark.parametrize(("revoke_wait_s", "waited_s"), [(5.0, 5.0), (None, 240.0)])
def test_a_revoke_waits_so_long_for_a_handler(revoke_wait_s: float | None, waited_s: float) -> None:
    """Then the partition is given up, and the next owner attempts its message."""
    group = _group(_keys("a"), scope=ByKey(revoke_wait_s=revoke_wait_s))
    (member,) = group.members
    member.workers.busy = {_P0}
    while not member.workers.running:
        group.turn()
    group.join()
    before_s = group.fake.clock.now_s()
    group.share([1])
    member.turn()
    assert waited_s - 1 <= group.fake.clock.now_s() - before_s <= waited_s + 1
    member.workers.busy.clear()
    group.finish()
    assert [] == group.violations()


@pytest.mark.parametrize("setting", ["probe_max_s", "revoke_wait_s"])
@pytest.mark.parametrize("seconds", [0, -1.0, float("inf"), "5s", True])
def test_no_number_of_seconds(setting: str, seconds: Any) -> None:
    """The sentence names the setting, the value and the rule."""
    with pytest.raises(ConfigurationError, match=rf"ByKey\({setting}=.*seconds above 0"):
        ByKey(**{setting: seconds})
