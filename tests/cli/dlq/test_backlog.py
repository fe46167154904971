"""Metrics of the letters that nobody has dealt with, for Prometheus."""

import pytest
from prometheus_client.parser import text_string_to_metric_families
from typer.testing import CliRunner

from linear_retry.cli import app
from linear_retry.cli.dlq.stats import exposition
from linear_retry.dlq.letters.letter import State
from linear_retry.dlq.stats import stats_of
from tests.dlq.conftest import scene  # noqa: F401  (a fixture)
from tests.dlq.sample_letters import our_letter
from tests.dlq.scene import NewScene
from tests.docs.markdown import blocks, code, page, table


def _samples(text: str) -> dict[tuple[str, ...], float]:
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_open_letters_and_the_oldest_of_them() -> None:
    """In the text format, by topic; what is dealt with has no age."""
    states = [State.REPLAYED, State.OPEN, State.OPEN, State.RESOLVED]
    letters = [(our_letter(number * 1000), state) for number, state in enumerate(states)]
    found = {"orders.dlq": stats_of(letters), "parcels.dlq": stats_of(letters[:1])}
    name, oldest = "linear_retry_dlq_letters", "linear_retry_dlq_oldest_open_timestamp_seconds"
    assert {
        (name, "orders.dlq", "open"): 2.0,
        (name, "orders.dlq", "replayed"): 1.0,
        (name, "orders.dlq", "resolved"): 1.0,
        (name, "parcels.dlq", "open"): 0.0,
        (name, "parcels.dlq", "replayed"): 1.0,
        (name, "parcels.dlq", "resolved"): 0.0,
        (oldest, "orders.dlq"): 1_795_253_539.81,
    } == _samples("\n".join(exposition(found)))


def test_the_page_names_each_metric() -> None:
    """docs/reference/metrics.md has name and labels of each, and of no other."""
    lines = "\n".join(exposition({"orders.dlq": stats_of([(our_letter(), State.OPEN)])}))
    found = {
        sample.name: set(sample.labels)
        for family in text_string_to_metric_families(lines)
        for sample in family.samples
    }
    rows = table(page("docs/reference/metrics.md"), "backlog metric")
    assert found == {code(row[0])[0]: set(code(row[1])) for row in rows}


@pytest.mark.broker
def test_the_backlog_of_several_topics(scene: NewScene) -> None:  # noqa: F811
    """By the page's command; where one of them cannot be read nothing is printed."""
    first, second = scene(), scene()
    first.add_letters([first.letter(0, n) for n in range(3)])
    with first.topic as topic:
        topic.resolve(by="test")
    second.add_letters([second.letter(0, 1)])
    lines = "".join(blocks(page("docs/reference/metrics.md"), "sh")).splitlines()
    (line,) = [line for line in lines if " dlq stats " in line]
    names = {"orders.dlq": first.letters, "payments.dlq": second.letters}
    names["HOST:9092"] = first.kafka.bootstrap
    words = [names.get(word, word) for word in line.partition(" > ")[0].split()]
    result = CliRunner().invoke(app, words[1:])
    assert (0, "") == (result.exit_code, result.stderr)
    found = _samples(result.stdout)
    assert [0.0, 3.0, 1.0] == [
        found["linear_retry_dlq_letters", topic, state]
        for topic, state in (
            *((first.letters, "open"), (first.letters, "resolved")),
            (second.letters, "open"),
        )
    ]
    assert ("linear_retry_dlq_oldest_open_timestamp_seconds", second.letters) in found
    result = CliRunner().invoke(app, [*words[1:], "no-such-topic"])
    assert (3, "") == (result.exit_code, result.stdout)


@pytest.mark.parametrize("arguments", [("a.dlq", "b.dlq"), ("a.dlq", "--prometheus", "--json")])
def test_what_does_not_go_together(arguments: tuple[str, ...]) -> None:
    """Reported before any broker is asked."""
    where = ("--bootstrap", "127.0.0.1:9")
    result = CliRunner().invoke(app, ["dlq", "stats", *arguments, *where])
    assert 2 == result.exit_code
    assert "several topics need --prometheus" in " ".join(result.stderr.split())
