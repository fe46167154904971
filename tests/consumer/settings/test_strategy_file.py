"""A strategy's file is read again when a message fails and it has changed."""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from linear_retry import ConfigurationError, Strategy, StrategyError, StrategyFile, events
from linear_retry.consumer.settings.checks import chosen_strategy
from linear_retry.consumer.settings.strategy_file import FileRules
from linear_retry.events import Event
from linear_retry.files import write_atomically
from linear_retry.kafka import Message
from tests.consumer.group import LETTERS, OutageError, consumer_on
from tests.consumer.settings.failing import delays, run_failing
from tests.fake.cluster import FakeKafka

_Step = Callable[[], object]
_FAILS: _Step = lambda: None  # noqa: E731  (an attempt before which nothing happens to the file)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "pay.json"
    found.write_text("[60, 600, 3600]")
    return found


def _run(fake: FakeKafka, path: Path, steps: Sequence[_Step], **options: Any) -> list[Event]:
    """What happens where each step precedes a failure, until a message is handled."""

    def errors() -> Iterator[Exception]:
        for step in steps:
            step()
            yield OutageError()

    return run_failing(fake, errors(), strategy=StrategyFile(path), **options)


def _of(happened: Sequence[Event], kind: type[Any]) -> list[Any]:
    return [event for event in happened if isinstance(event, kind)]


def _writes(path: Path, content: object) -> _Step:
    return lambda: write_atomically(path, json.dumps(content).encode())


def _labels(*delays: Sequence[float]) -> list[str]:
    return [Strategy(each, name="pay").label for each in delays]


def test_a_changed_file_is_in_force_from_the_next_failure_on(fake: FakeKafka, path: Path) -> None:
    """A wait that has begun ends as planned; the count of failures is the message's. Both
    fingerprints are on record."""
    happened = _run(fake, path, [_FAILS, _writes(path, [1, 5, 10]), _FAILS])
    assert [60.0, 5.0, 10.0] == delays(happened)
    before, after = _labels([60, 600, 3600], [1, 5, 10])
    assert [events.StrategyReloaded(str(path), before, after)] == _of(
        happened, events.StrategyReloaded
    )


def test_a_shorter_array_exhausts_only_after_a_failure_of_its_own(
    fake: FakeKafka, path: Path
) -> None:
    """A message that has failed more often than it has delays waits for the last one once."""
    happened = _run(fake, path, [_FAILS, _FAILS, _writes(path, [1]), _FAILS])
    assert [60.0, 600.0, 1.0] == delays(happened)
    (letter,) = _of(happened, events.DeadLettered)
    assert ("exhausted", 4) == (letter.reason, letter.failures)
    log = fake.log_of((LETTERS, 0))
    assert log is not None
    assert _labels([1])[0].encode() == dict(log.records[0].headers or [])["retry-strategy"]


def test_a_broken_file_changes_nothing_and_is_reported_once(fake: FakeKafka, path: Path) -> None:
    """With all that is wrong with it; the one before remains in force until it is mended."""
    broken = _writes(path, {"delays": ["soon"], "jitter": 7})
    happened = _run(fake, path, [broken, _FAILS, _writes(path, [2, 2, 2])])
    assert [60.0, 600.0, 2.0] == delays(happened)
    (refused,) = _of(happened, events.StrategyRefused)
    assert (str(path), _labels([60, 600, 3600])[0]) == (refused.path, refused.strategy)
    assert "delays[0]" in refused.error
    assert "jitter" in refused.error
    (reloaded,) = _of(happened, events.StrategyReloaded)
    assert _labels([60, 600, 3600], [2, 2, 2]) == [reloaded.before, reloaded.strategy]


def test_a_file_that_is_away_changes_nothing(fake: FakeKafka, path: Path) -> None:
    """It is reported once; when it is there again, as it was, that is reported too."""
    restored = _writes(path, [60, 600, 3600])
    happened = _run(fake, path, [path.unlink, _FAILS, restored])
    assert [60.0, 600.0, 3600.0] == delays(happened)
    (refused,) = _of(happened, events.StrategyRefused)
    assert "cannot be read (No such file or directory)" in refused.error
    (reloaded,) = _of(happened, events.StrategyReloaded)
    assert reloaded.before == reloaded.strategy


def test_the_same_content_is_no_change(fake: FakeKafka, path: Path) -> None:
    """A deployment writes all its files, and most of them are what they were."""
    happened = _run(fake, path, [_FAILS, _writes(path, [60, 600, 3600]), lambda: os.utime(path)])
    assert [60.0, 600.0, 3600.0] == delays(happened)
    assert [] == _of(happened, events.StrategyReloaded)


def test_a_file_that_is_replaced_in_the_same_instant_is_seen(path: Path) -> None:
    """Its time may be the one before, where a ConfigMap is mounted or a clock set back."""
    at = path.stat()
    rules = _rules(path)
    _writes(path, [9, 999, 9999])()
    os.utime(path, ns=(at.st_atime_ns, at.st_mtime_ns))
    assert isinstance(rules.look(), events.StrategyReloaded)
    assert rules.look() is None


def test_rules_may_take_the_place_of_a_strategy(fake: FakeKafka, path: Path) -> None:
    """And an error that none of them takes is permanent from then on."""
    named = f"{OutageError.__module__}.OutageError"
    rules = {
        "rules": [{"errors": [named], "delays": [3, 4]}, {"errors": ["KeyError"], "delays": []}]
    }
    happened = _run(fake, path, [_FAILS, _writes(path, rules)])
    assert [60.0, 4.0] == delays(happened)
    (reloaded,) = _of(happened, events.StrategyReloaded)
    assert ["pay.1", "pay.2"] == [
        label.partition("@")[0] for label in reloaded.strategy.split(", ")
    ]
    happened = _run(fake, path, [_writes(path, {"rules": rules["rules"][1:]})])
    assert ["permanent"] == [each.reason for each in _of(happened, events.DeadLettered)]


@pytest.mark.parametrize(
    ("content", "options", "reason"),
    [
        ([], {"on_exhausted": "repeat"}, "it is empty, and on_exhausted='repeat'"),
        (
            {"delays": [1], "max_elapsed": 9},
            {"on_exhausted": "repeat"},
            "on_exhausted='repeat' never ends",
        ),
    ],
)
def test_what_the_consumer_cannot_have_is_refused(
    fake: FakeKafka, path: Path, content: object, options: dict[str, Any], reason: str
) -> None:
    """As it would be at the start."""
    happened = _run(fake, path, [_writes(path, content)], **options)
    assert [60.0] == delays(happened)
    (refused,) = _of(happened, events.StrategyRefused)
    assert reason in refused.error
    with pytest.raises(ConfigurationError, match=reason):
        consumer_on(fake, strategy=StrategyFile(path), **options)


def _rules(path: Path, *, has_transient: bool = True) -> FileRules:
    found = chosen_strategy(StrategyFile(path), has_transient=has_transient, repeats=False)
    assert isinstance(found, FileRules)
    return found


def test_rules_that_need_transient_are_refused_without_it(path: Path) -> None:
    """Every bug would be retried like an outage from then on."""
    _writes(path, {"rules": [{"errors": ["OSError"], "delays": [1]}]})()
    rules = _rules(path, has_transient=False)
    _writes(path, [1, 5])()
    refused = rules.look()
    assert isinstance(refused, events.StrategyRefused)
    assert "there is no transient=" in refused.error
    assert refused.error == rules.problem


def test_a_restart_does_not_begin_the_strategy_again(fake: FakeKafka, path: Path) -> None:
    """The count survives, and a single strategy is exhausted as if nothing had happened."""

    def stop(event: Event) -> None:
        if isinstance(event, events.ProbeFailed):
            consumer.stop()

    def fail(_: Message) -> None:
        raise OutageError

    path.write_text("[60, 600]")
    with consumer_on(fake, strategy=StrategyFile(path), listeners=[stop]) as consumer:
        consumer.run(fail)
    happened = _run(fake, path, [_FAILS])
    assert [] == _of(happened, events.ProbeFailed)
    (letter,) = _of(happened, events.DeadLettered)
    assert ("exhausted", 3) == (letter.reason, letter.failures)


def test_what_is_in_the_file_now(path: Path) -> None:
    """It can be asked for, as a frozen strategy; what is wrong at the start is refused there."""
    file = StrategyFile(path)
    assert Strategy([60, 600, 3600], name="pay") == file.current()
    path.write_text("[5]")
    assert Strategy([5], name="pay") == file.current()
    path.write_text("nonsense")
    with pytest.raises(StrategyError, match="this is not JSON"):
        file.current()
    with pytest.raises(StrategyError, match="this is not JSON"):
        consumer_on(FakeKafka(), strategy=file)
