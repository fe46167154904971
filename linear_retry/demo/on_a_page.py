"""The demo with a journal, for a console beside it, and with outages long enough to look at."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from linear_retry import Journal
from linear_retry.demo import run as line
from linear_retry.demo.display.watching import MakeDisplay
from linear_retry.demo.evidence import Verdict
from linear_retry.demo.run import DemoTopics, Extra, cluster_topics
from linear_retry.demo.service import Outage

OUTAGES = (Outage(110, "refused", 12.0), Outage(260, "unavailable", 12.0))
_JOURNAL = "linear-retry-demo.journal"


def journal_of(topics: DemoTopics) -> str:
    """Returns the name of the journal's topic."""
    return f"{topics.group_id}.journal"


@contextmanager
def topics_on(bootstrap: str | None, complain: Callable[[str], object]) -> Iterator[DemoTopics]:
    """The topics, on an embedded broker or a cluster."""
    with (
        line.embedded_topics([_JOURNAL])
        if bootstrap is None
        else cluster_topics(bootstrap, complain, lambda topics: Extra([journal_of(topics)]))
    ) as topics:
        yield topics


def run(topics: DemoTopics, make_display: MakeDisplay) -> tuple[Verdict, ...]:
    """Runs the demo of one line; its consumer writes what happens to the journal."""
    return line.run(topics, make_display, OUTAGES, [Journal(journal_of(topics))])
