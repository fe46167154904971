"""What the console sends goes to topics of messages alone."""

from pathlib import Path

import pytest

from linear_retry.console.frame.services import Services, TargetError, Targets
from linear_retry.console.jobs.job import Action, Options, Stage
from linear_retry.console.jobs.jobs import Jobs
from linear_retry.console.state.audit import Audit
from linear_retry.console.state.settings import Settings
from linear_retry.console.state.state import State
from linear_retry.dlq import EVERYTHING
from linear_retry.web import HttpServer
from tests.console.conftest import signed_in
from tests.dlq.conftest import scene
from tests.dlq.scene import NewScene

__all__ = ["scene"]

_REFUSED = {
    "__consumer_offsets": "an internal topic of Kafka",
    "linear-retry.control": "the topic of operators' commands",
    "commands": "the topic of operators' commands",
    "events": "the journal",
    "orders.dlq": "a topic of dead letters",
    "payments-dlq.resolved": "a topic of dead letters",
    "graveyard": "a topic of dead letters",
    "graveyard.resolved": "a topic of dead letters",
}


@pytest.mark.parametrize(("topic", "reason"), _REFUSED.items())
def test_topics_that_others_take_for_commands_or_states(topic: str, reason: str) -> None:
    """Nothing is sent to the topics of Kafka, of commands, of events and of dead letters."""
    settings = Settings(kafka={}, state=Path(), journal="events", control="commands")
    targets = Targets(settings, {"graveyard"}.__contains__)
    targets.check(["orders", "orders.retry.5m", "resolved"])
    with pytest.raises(TargetError, match=f"^{topic}: nothing is sent there, since it is {reason}"):
        targets.check(["orders", topic])


def test_a_form_that_names_such_a_topic(server: HttpServer, services: Services) -> None:
    """Is refused with one sentence, before anything is read."""
    for name in ("to", "to_retry"):
        form = {"topic": "orders.dlq", "action": "replay", name: "linear-retry.control"}
        with signed_in(server, "ann") as operator:
            answer = operator.post("/jobs", data=form)
        assert (409, True) == (answer.status_code, "the topic of operators&#39; com" in answer.text)
    assert [] == services.jobs.recent()


@pytest.mark.broker
def test_a_letter_that_names_such_a_topic(scene: NewScene, tmp_path: Path) -> None:
    """Is not sent: whoever may write letters would else give orders through an operator."""
    given = scene(1)
    given.add_letters([given.letter(0, 1)])
    settings = Settings(kafka={}, state=tmp_path, journal=given.source)
    targets = Targets(settings, lambda _: False)
    with State(tmp_path) as state:
        jobs = Jobs(state, Audit(state), given.config, targets.check)
        number = jobs.plan(given.letters, Action.REPLAY, EVERYTHING, Options(), actor="ann")
        jobs.wait(number, 60)
        job = jobs.get(number)
        jobs.close()
    assert job is not None
    assert (Stage.FAILED, False) == (job.stage, job.may_start)
    assert f"{given.source}: nothing is sent there, since it is the journal" == job.outcome
