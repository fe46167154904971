"""What became of the letters that a replay has sent."""

from dataclasses import replace

import pytest

from linear_retry.dlq import Mark, Outcome
from linear_retry.dlq.replay.outcome import outcome
from linear_retry.records.commit_note import CommitNote, Digests, Undone, write_note
from linear_retry.scope import Place
from tests.dlq.conftest import scene as scene
from tests.dlq.scene import NewScene, Scene

pytestmark = pytest.mark.broker


def _commit(given: Scene, *offsets: int, group: str = "billing") -> None:
    """The group, that of the letters, has read so far, by partition."""
    given.kafka.commit(group, given.source, dict(enumerate(offsets)))


def test_handled_not_read_yet_or_dead_again(scene: NewScene) -> None:
    """It was "4 letters sent" when all were dead again a second later, or nobody read them."""
    given = scene(2)
    given.kafka.produce(given.source, [(0, b"key", b"before", ())])
    given.add_letters([given.letter(p, n) for p in range(2) for n in (1, 2)])
    with given.topic as topic, topic.plan_replay() as plan:
        begun = Mark.from_json(topic.mark(plan).as_json())
        names = {entry.name for entry in plan.order}
        sent = topic.replay(plan, by="ann")

        def became() -> Outcome:
            return topic.outcome(begun, names, sent)

        assert Outcome(4, 4, 0) == became()
        _commit(given, 2)  # what was there before, and one of them
        assert (1, 3, False) == (became().handled, became().unread, became().is_settled)
        # Its letter is written before its offset is committed: it counts once.
        given.add_letters([given.letter(0, 2, 2)])
        again = (Place(given.letters, 0, 2),)
        assert Outcome(4, 2, 1, again) == became()
        assert "1 handled, 2 not read yet, 1 came back as new dead letters" == str(became())
        _commit(given, 3, 2)
        assert (3, 0, True) == (became().handled, became().unread, became().is_settled)
        # A letter of another message, and one that was written twice, change nothing.
        given.add_letters([given.letter(0, 2, 2), given.letter(1, 7, 2)])
        assert Outcome(4, 0, 1, again) == became()


def test_what_every_group_reads_is_not_known(scene: NewScene) -> None:
    """Nor can it be told from its letters: each group gives it an id of its own."""
    given = scene()
    given.add_letters([given.letter(0, 1)])
    with given.topic as topic, topic.plan_replay(for_group="") as plan:
        begun, names = topic.mark(plan), {entry.name for entry in plan.order}
        became = topic.outcome(begun, names, topic.replay(plan, by="ann"))
    assert (None, None) == (became.unread, became.handled)
    assert str(became).endswith("how many of the others were handled is unknown")


def test_the_lag_of_another_group_is_not_theirs(scene: NewScene) -> None:
    """The bug: letters of two groups in one replay, of which one has handled its own: "not read
    yet" counted these too, as long as the other group lagged."""
    given = scene()
    of_others = replace(given.letter(0, 2), group_id="shipping", retry_id="shipping/2")
    given.add_letters([given.letter(0, 1), of_others])
    with given.topic as topic, topic.plan_replay() as plan:
        begun, names = topic.mark(plan), {entry.name for entry in plan.order}
        sent = topic.replay(plan, by="ann")
        _commit(given, 2)
        _commit(given, 0, group="shipping")
        assert Outcome(2, 1, 0) == topic.outcome(begun, names, sent)


def test_what_is_done_above_the_offset_was_read(scene: NewScene) -> None:
    """The bug: where keys are in order, and one is held, the letters of all others were "not read
    yet", for as long as that lasted."""
    given = scene()
    letters = [replace(given.letter(0, n), key=key) for n, key in ((1, b"a"), (2, b"b"))]
    given.add_letters(letters)
    with given.topic as topic, topic.plan_replay() as plan:
        begun, names = topic.mark(plan), {entry.name for entry in plan.order}
        sent = topic.replay(plan, by="ann")
        of_a = Undone("key", 0, Digests("billing").of_key(b"a"))
        note = write_note(CommitNote(0, 2, (of_a,)), "billing", (given.source, 0))
        _commit(given, 0)
        assert Outcome(2, 2, 0) == topic.outcome(begun, names, sent)
        given.kafka.commit("billing", given.source, {0: 0}, {0: note})
        assert Outcome(2, 1, 0) == topic.outcome(begun, names, sent)


def test_a_question_reads_only_so_much(scene: NewScene) -> None:
    """The bug: millions of letters that were written since were read by each refresh of a page."""
    given = scene()
    given.add_letters([given.letter(0, n) for n in (1, 2)])
    with given.topic as topic, topic.plan_replay() as plan:
        begun, names = topic.mark(plan), {entry.name for entry in plan.order}
        sent = topic.replay(plan, by="ann")
    given.add_letters([given.letter(0, n, 2) for n in (1, 2)])

    def became(most_read: int) -> Outcome:
        return outcome(given.cluster, given.letters, begun, names, sent, most_read)

    assert (2, False) == (became(2).returned, became(2).is_partial)
    assert (None, 1, True) == (became(1).unread, became(1).returned, became(1).is_partial)
    assert str(became(1)).startswith("1 or more came back as new dead letters; how many")
