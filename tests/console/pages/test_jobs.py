"""The page of a job says what a person must know before they start it."""

import httpx

from linear_retry.console.frame.services import Services
from linear_retry.console.jobs.book import JobBook
from linear_retry.console.jobs.job import Action, Options, Stage, Summary
from linear_retry.dlq import Mark
from linear_retry.web import HttpServer
from tests.console.conftest import signed_in


def _page(operator: httpx.Client, job_id: int) -> str:
    text = operator.get(f"/jobs/{job_id}").text
    assert "Send 3 letters" in text
    return text


def test_an_old_plan_says_so(server: HttpServer, services: Services) -> None:
    """What it says of newer messages was so when the letters were counted, a day ago."""
    book = JobBook(services.state)
    job_id = book.add("orders.dlq", Action.REPLAY, Options(), "ann")
    book.plan(job_id, Summary(letters=3, newer_keys=0))
    with signed_in(server, "ann") as operator:
        assert "This was counted" not in _page(operator, job_id)
        services.state.change("UPDATE job SET created_ms = created_ms - 90000000")
        assert "This was counted 25h ago, and may be otherwise by now" in _page(operator, job_id)


def test_a_page_that_stays_open_does_not_ask_for_ever(
    server: HttpServer, services: Services
) -> None:
    """The bug: it read what was written since the replay every five seconds, for a day."""
    book = JobBook(services.state)
    job_id = book.add("orders.dlq", Action.REPLAY, Options(), "ann")
    mark = Mark({0: 0}, {"orders": {0: 0}}, {"orders": ["billing"]})
    book.plan(job_id, Summary(letters=1, mark=mark.as_json()))
    book.add_letters(job_id, ["billing/1#1"])
    book.end(job_id, Stage.DONE, "1 letter sent", 1, book.sent(job_id, 1))
    with signed_in(server, "vic") as viewer:

        def asked() -> tuple[int, bool]:
            answer = viewer.get(f"/jobs/{job_id}/outcome")
            assert "cannot be asked" in answer.text
            return answer.status_code, "not asked again before" in answer.text

        assert (200, False) == asked()
        services.state.change("UPDATE job SET changed_ms = changed_ms - 660000")
        assert (286, True) == asked()
