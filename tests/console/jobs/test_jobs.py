"""Jobs do what was counted, once, and say how they ended, whatever ends the server."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from linear_retry.console.jobs.job import Action, Job, JobError, Options, Stage
from linear_retry.console.jobs.jobs import Jobs
from linear_retry.console.state.audit import Audit
from linear_retry.console.state.state import State
from linear_retry.dlq import EVERYTHING, Filter
from tests import dying_with_parent
from tests.dlq.scene import NewScene, Scene
from tests.kafka_operations import wait_until
from tests.patience import PATIENCE_S

_MANY = 200
"""At one a second, so that a slow machine, too, gets to it while it runs."""

pytestmark = pytest.mark.broker


class Console:
    """The jobs of a server, and its audit."""

    def __init__(self, given: Scene, directory: Path) -> None:
        self.given = given
        self.state = State(directory)
        self.audit = Audit(self.state)
        self.jobs = Jobs(self.state, self.audit, given.config)

    def job(self, job_id: int) -> Job:
        job = self.jobs.get(job_id)
        assert job is not None
        return job

    def ended(self, job_id: int) -> Job:
        self.jobs.wait(job_id, PATIENCE_S)
        return self.job(job_id)

    def planned(
        self, action: Action, selected: Filter = EVERYTHING, options: Options | None = None
    ) -> Job:
        given = options or Options()
        job = self.ended(self.jobs.plan(self.given.letters, action, selected, given, actor="ada"))
        assert Stage.PLANNED is job.stage, job.outcome
        return job

    def run(self, job_id: int) -> Job:
        self.jobs.start(job_id, actor="ada", why="payments is back")
        return self.ended(job_id)

    def outcomes(self) -> list[tuple[str, str, str]]:
        return [(each.actor, each.action, each.outcome) for each in self.audit.read(limit=9)]


@pytest.fixture
def given(scene: NewScene) -> Scene:
    return scene(2)


@pytest.fixture
def console(given: Scene, tmp_path: Path) -> Iterator[Console]:
    opened = Console(given, tmp_path)
    yield opened
    opened.jobs.close()
    opened.state.close()


def test_a_replay_sends_what_was_counted_and_nothing_else(console: Console) -> None:
    """Someone agreed to these letters: those that come before the start stay open."""
    given = console.given
    given.add_letters([given.letter(p, n) for p in range(2) for n in (2, 1)])
    job = console.planned(Action.REPLAY, options=Options(check_newer=True))
    assert job.plan is not None
    assert (4, 4, 0) == (job.total, job.plan.letters, job.plan.newer_keys)
    assert [("1 to 2", 2), ("1 to 2", 2)] == [
        (lane.offsets, lane.letters) for lane in job.plan.lanes
    ]
    assert [] == given.kafka.read(given.source)
    given.add_letters([given.letter(p, 0) for p in range(2)])
    job = console.run(job.id)
    assert (Stage.DONE, "4 letters sent", 4) == (job.stage, job.outcome, job.done)
    assert {0: [(1, 1), (2, 1)], 1: [(1, 1), (2, 1)]} == given.arrived()
    assert [("ada", "replay", "4 letters sent")] == console.outcomes()


def test_a_cancelled_replay_is_continued(console: Console) -> None:
    """It ends between two transactions, says after how many, and the rest is sent later."""
    given = console.given
    given.add_letters([given.letter(0, n) for n in range(_MANY)])
    job = console.planned(Action.REPLAY)
    console.jobs.start(job.id, actor="ada", why="slowly", rate=1)
    wait_until(lambda: console.job(job.id).done >= 2, "two letters sent")
    console.jobs.cancel(job.id, actor="bob")
    stopped = console.ended(job.id)
    assert Stage.CANCELLED is stopped.stage
    assert stopped.done < _MANY
    assert f"cancelled by bob after {stopped.done} of {_MANY} letters" == stopped.outcome
    assert Stage.DONE is console.run(job.id).stage
    assert {0: [(n, 1) for n in range(_MANY)]} == given.arrived()
    with pytest.raises(JobError, match="is done: it cannot be started"):
        console.jobs.start(job.id, actor="ada", why="again")


def test_one_job_at_a_time_for_each_topic(console: Console) -> None:
    """Two would fence each other: the second is refused and names the first."""
    given = console.given
    given.add_letters([given.letter(0, n) for n in range(_MANY)])
    job, other = console.planned(Action.REPLAY), console.planned(Action.RESOLVE)
    console.jobs.start(job.id, actor="ada", why="slowly", rate=1)
    with pytest.raises(JobError, match=rf"job {job.id} \(replay\) is running"):
        console.jobs.start(other.id, actor="bob", why="by hand")
    with pytest.raises(JobError, match="is running: it cannot be started"):
        console.jobs.start(job.id, actor="bob", why="me too")
    console.jobs.cancel(job.id, actor="bob")
    console.ended(job.id)
    assert Stage.DONE is console.run(other.id).stage
    assert _MANY == len(given.states()) == len([s for s in given.states() if s != "open"])


def test_a_replay_on_the_shell_ends_it_and_it_says_so(console: Console) -> None:
    """The newest wins, as on the shell; no letter is sent twice."""
    given = console.given
    given.add_letters([given.letter(0, n) for n in range(_MANY)])
    job = console.planned(Action.REPLAY)
    console.jobs.start(job.id, actor="ada", why="slowly", rate=1)
    wait_until(lambda: console.job(job.id).done >= 2, "two letters sent")
    [(_, _, begun)] = console.outcomes()
    assert begun.startswith("begun; it has not ended")
    given.replay()
    fenced = console.ended(job.id)
    assert Stage.FAILED is fenced.stage
    # To a commit in the very moment of the fencing a broker (4.1) may answer "unknown" instead.
    newer = "a newer replay, resolve, reopen or purge has taken over"
    unknown = "EndTxn commit failed: Unknown broker error (UNKNOWN)"
    assert newer in fenced.outcome or unknown in fenced.outcome
    assert "nothing is half-done" in fenced.outcome
    assert {0: [(n, 1) for n in range(_MANY)]} == given.arrived()
    assert (
        f"0 letters sent, {_MANY} no longer open or no longer there" == console.run(job.id).outcome
    )


def test_resolve_and_purge_keep_to_their_plans(console: Console) -> None:
    """A purge of everything deletes what was counted; who has resolved what, and why, is there."""
    given = console.given
    given.add_letters([given.letter(0, n) for n in range(3)])
    resolve = console.planned(Action.RESOLVE, Filter(ranges=((0, 0, 1),)))
    assert "2 letters resolved" == console.run(resolve.id).outcome
    with given.topic as topic:
        found = topic.letter_at(0, 1)
        assert found is not None
        resolution = topic.resolution(found[0])
    assert resolution is not None
    assert ("ada", "payments is back") == (resolution.by, resolution.why)
    purge = console.planned(Action.PURGE, options=Options(everything=True))
    given.add_letters([given.letter(0, 9)])
    assert "3 letters deleted; 1 left, 1 of them open" == console.run(purge.id).outcome


def test_reopened_letters_are_those_that_were_counted(console: Console) -> None:
    """Of those that are replayed or resolved; what is open by then is open already."""
    given = console.given
    given.add_letters([given.letter(0, n) for n in range(5)])
    given.replay(Filter(limit=2))
    with given.topic as topic:
        topic.resolve(Filter(ranges=((0, 2, 3),)), by="bob")
    job = console.planned(Action.REOPEN)
    assert 4 == job.total
    with given.topic as topic:
        assert 1 == topic.reopen(Filter(ranges=((0, 0, 0),)))
        topic.resolve(Filter(ranges=((0, 4, 4),)), by="bob")
    ended = console.run(job.id)
    assert "3 letters reopened, 1 open already or no longer there" == ended.outcome
    assert [*["open"] * 4, "resolved"] == given.states()


def test_a_topic_that_was_made_again_is_not_touched(console: Console) -> None:
    """Forty new letters were deleted by the plan of a hundred that were gone."""
    given = console.given
    given.add_letters([given.letter(0, n) for n in range(3)])
    jobs = [
        console.planned(Action.PURGE, options=Options(everything=True)),
        *map(console.planned, (Action.RESOLVE, Action.REPLAY)),
    ]
    given.kafka.delete_topic(given.letters)
    given.kafka.create_topic(given.letters, 2)
    given.add_letters([given.letter(0, n) for n in range(2)])
    for job in jobs:
        ended = console.run(job.id)
        assert Stage.FAILED is ended.stage
        assert "deleted and made again" in ended.outcome
    assert ["open", "open"] == given.states()


def test_the_outcome_says_only_what_is_known(console: Console) -> None:
    """Letters that are gone were said to be dealt with; one written twice counts once."""
    given = console.given
    given.add_letters([given.letter(0, n) for n in (0, 1, 2, 2)])
    job = console.planned(Action.RESOLVE)
    assert 3 == job.total
    given.kafka.delete_records(given.letters, 0, 1)
    expected = "2 letters resolved, 1 no longer open or no longer there"
    assert expected == console.run(job.id).outcome


def test_a_resolve_tells_how_many_are_recorded(given: Scene) -> None:
    """A cancelled one denied what it had done."""
    given.add_letters([given.letter(0, n) for n in range(3)])
    recorded: list[int] = []
    with given.topic as topic:
        assert 3 == topic.resolve(by="me", recorded=recorded.append)
    assert [3] == recorded


def test_what_cannot_be_planned_says_why(console: Console, tmp_path: Path) -> None:
    """The job keeps every reason, and cannot be started."""
    console.given.add_letters([console.given.letter(0, 1)])
    options = Options(to="nowhere")
    job_id = console.jobs.plan(
        console.given.letters, Action.REPLAY, EVERYTHING, options, actor="ada"
    )
    job = console.ended(job_id)
    assert (Stage.FAILED, False) == (job.stage, job.may_start)
    assert "nowhere: no such topic in this cluster" in job.outcome


_SERVER = """
import sys, threading
from pathlib import Path
from linear_retry.console.state.audit import Audit
from linear_retry.console.jobs.jobs import Jobs
from linear_retry.console.state.state import State
state = State(Path(sys.argv[1]))
jobs = Jobs(state, Audit(state), {"bootstrap.servers": sys.argv[2]})
jobs.start(int(sys.argv[3]), actor="ada", why="payments is back", rate=1)
threading.Event().wait()
"""


def test_a_killed_server_leaves_a_job_to_be_continued(given: Scene, tmp_path: Path) -> None:
    """By SIGKILL in the middle: the next server says so, and each letter is sent once."""
    given.add_letters([given.letter(p, n) for p in range(2) for n in range(100)])
    console = Console(given, tmp_path)
    job = console.planned(Action.REPLAY)
    console.state.close()
    command = [sys.executable, "-c", _SERVER, str(tmp_path), given.kafka.bootstrap, str(job.id)]
    server = subprocess.Popen(dying_with_parent.guarded(*command))
    wait_until(lambda: len(given.kafka.read(given.source)) >= 5, "five sent")
    server.kill()
    server.wait(PATIENCE_S)
    console = Console(given, tmp_path)
    job = console.job(job.id)
    assert (Stage.INTERRUPTED, True) == (job.stage, job.may_start)
    assert "the console was stopped while it ran" in job.outcome
    assert job.outcome.endswith(f"after {job.done} of 200 letters or more")
    assert [("ada", "replay", job.outcome)] == console.outcomes()
    assert 200 > len(given.kafka.read(given.source))
    assert Stage.DONE is console.run(job.id).stage
    assert {p: [(n, 1) for n in range(100)] for p in range(2)} == given.arrived()
    assert ["replay", "replay"] == [action for _, action, _ in console.outcomes()]
    console.state.close()
