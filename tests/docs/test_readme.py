"""The README is true."""

import ast
import inspect
import json
import re
from typing import Any

import pytest
from confluent_kafka import Message
from typer.testing import CliRunner

from linear_retry import (
    ConfigurationError,
    Event,
    LinearConsumer,
    RetryAfter,
    Strategy,
    errors,
    events,
)
from linear_retry.cli import app
from linear_retry.kafka.consumer.settings import consumer_settings
from tests.charges import broker_with_orders, reasons, run_example
from tests.docs.markdown import ROOT, blocks, code, page, table

_README = page("README.md")
_PROGRAM, *_FRAGMENTS = blocks(_README, "python")
_LOOPS = [fragment for fragment in _FRAGMENTS if "for attempt in" in fragment]
_CONFIG = {"bootstrap.servers": "localhost:9092", "group.id": "billing"}


def test_the_example_runs() -> None:
    """The example does what it says, and logs what the README shows."""
    _says_what_the_readme_says(run_example(_PROGRAM))


def _says_what_the_readme_says(output: str) -> None:
    """The README's log is one of the example; times, ids and durations differ from run to run."""
    (log,) = blocks(_README, "text")
    run = [_without_numbers(line) for line in output.splitlines() if ":linear_retry:" in line]
    shown = [_without_numbers(line) for line in log.splitlines()]
    assert [] == [line for line in shown if line not in run]


def _without_numbers(line: str) -> str:
    line = re.sub(r"member \S+ of group (\S+) on [^,]+,", r"member NAME of group \1 on HOST,", line)
    return re.sub(r"\d+", "0", line)


def test_the_fragments_fit_together(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All other code runs, in one namespace: what is defined goes into one consumer."""
    monkeypatch.chdir(ROOT)
    looking = [fragment for fragment in _FRAGMENTS if "consumer.circuits" in fragment]
    defining = [fragment for fragment in _FRAGMENTS if fragment not in (*looking, *_LOOPS)]
    assert (5, 1, 1) == (len(defining), len(looking), len(_LOOPS))
    names: dict[str, Any] = {}
    for fragment in defining:
        exec(fragment, names)

    def handle(message: Message) -> None:
        raise ValueError("no order") if message.offset() == 0 else OSError("deadlock detected")

    def look(event: Event) -> None:
        if isinstance(event, events.CircuitOpened):
            try:
                exec(looking[0], names)
            finally:
                names["consumer"].stop()

    with (
        broker_with_orders(b"1", b"2") as broker,
        LinearConsumer(
            _CONFIG | {"bootstrap.servers": broker.bootstrap},
            ["orders"],
            strategy=names["strategy"],
            transient=names["transient"],
            dead_letters=names["dead_letters"],
            listeners=[names["page"], look],
        ) as consumer,
    ):
        names["consumer"] = consumer
        names["live"](consumer, handle, port=0)
        assert [(b"1", "permanent")] == reasons(broker)
    page_line, state_line, time_line = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"dead letter billing/orders/0/0/\d+: ValueError\('no order'\)", page_line)
    assert "open: orders[0]@1, failures: 1" == state_line
    assert re.fullmatch(
        r"next attempt at [\d:]{8} UTC, because of OSError\('deadlock detected'\)", time_line
    )


def test_the_loop_runs() -> None:
    """One's own loop gets each message, the failed one again, and ends on `stop`."""
    received = []

    def charge(message: Message) -> None:
        received.append(message.value())
        if received == [b"1", b"2"]:
            raise OSError("down")
        if len(received) == 4:
            consumer.stop()

    with broker_with_orders(b"1", b"2", b"3") as broker:
        consumer = LinearConsumer(
            _CONFIG | {"bootstrap.servers": broker.bootstrap},
            ["orders"],
            strategy=Strategy([0.1]),
            transient=OSError,
            dead_letters="orders.dlq",
        )
        exec(_LOOPS[0], {"consumer": consumer, "charge": charge})
    assert [b"1", b"2", b"2", b"3"] == received


@pytest.mark.parametrize("row", table(_README, "element"), ids=lambda row: row[0])
def test_elements_wait_as_shown(row: list[str]) -> None:
    """Each element of a strategy comes to the waits beside it."""
    (element,) = code(row[0])
    assert [float(wait) for wait in row[1].split(",")] == list(Strategy([json.loads(element)]))


@pytest.mark.parametrize("form", blocks(_README, "json"))
def test_long_forms_are_strategies(form: str) -> None:
    """Each JSON of the README is a strategy."""
    settings = json.loads(form)
    strategy = Strategy(settings.pop("delays"), **settings)
    assert (3, 0.1) == (len(strategy), strategy.jitter)


def test_the_settings_are_all_there() -> None:
    """The table has every parameter of LinearConsumer, in order, with its default."""
    signature = inspect.signature(LinearConsumer)
    expected = {
        name: parameter.default
        for name, parameter in signature.parameters.items()
        if not name.startswith("_")
    }
    reported = {
        code(name)[0]: inspect.Parameter.empty
        if default == "required"
        else ast.literal_eval(code(default)[0])
        for name, default, _ in table(_README, "parameter")
    }
    assert list(expected.items()) == list(reported.items())


@pytest.mark.parametrize("row", table(_README, "key"), ids=lambda row: row[0])
def test_our_keys_are_set(row: list[str]) -> None:
    """librdkafka gets the keys of the table."""
    reported = code(row[1])[0]
    assert reported == str(consumer_settings(_CONFIG).config[code(row[0])[0]]).lower()


def _with(setting: str) -> dict[str, Any]:
    key, _, value = setting.partition("=")
    return _CONFIG | {key: {"true": True, "false": False}.get(value, value)}


@pytest.mark.parametrize("row", table(_README, "refused"), ids=lambda row: row[0])
def test_refused_keys_are_refused(row: list[str]) -> None:
    """What the README calls refused is, and the error names the key."""
    (setting,) = code(row[0])
    with pytest.raises(ConfigurationError, match=re.escape(setting.partition("=")[0])):
        _consumer(_with(setting))


@pytest.mark.parametrize("row", table(_README, "warned about"), ids=lambda row: row[0])
def test_dubious_keys_are_warned_about(row: list[str]) -> None:
    """What the README calls warned about is, and the warning names the setting."""
    (setting,) = code(row[0])
    with pytest.warns(UserWarning, match=re.escape(setting)):
        _consumer(_with(setting))


def _consumer(config: dict[str, Any]) -> LinearConsumer:
    return LinearConsumer(
        config,
        ["orders"],
        strategy=Strategy([1]),
        transient=OSError,
        dead_letters="orders.dlq",
    )


def test_the_errors_are_all_there() -> None:
    """The table has every error of the tree, and no other; `RetryAfter` is none of them."""
    tree = [
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, Exception) and not name.startswith("_")
    ]
    assert issubclass(RetryAfter, Exception)
    reported = [code(row[0])[0] for row in table(_README, "error")]
    assert {*tree} - {"RetryAfter"} == {*reported}
    assert len(reported) == len({*reported})


def _commands(name: str) -> list[str]:
    """What the README calls by this name, without comments."""
    lines = [*"".join(blocks(_README, "sh")).splitlines(), *code(_README)]
    return [line.partition("#")[0].strip() for line in lines if line.startswith(f"{name} ")]


@pytest.mark.parametrize("command", _commands("linear-retry"))
def test_commands_exist(command: str) -> None:
    """Each command that is shown exists, with the options that are shown."""
    words = command.split()[1:]
    names = [word for word in words if re.fullmatch("[a-z]+", word)]
    options = [word for word in words if word.startswith("--")]
    result = CliRunner().invoke(app, [*names, "--help"], prog_name="linear-retry")
    assert 0 == result.exit_code, result.output
    assert f"linear-retry {' '.join(names)} [OPTIONS]" in result.output
    assert [] == [option for option in [*options, "--json"] if option not in result.output]


@pytest.mark.parametrize("command", _commands("make"))
def test_make_has_the_targets(command: str) -> None:
    """Each `make` that is shown has its target."""
    target = command.split()[1]
    assert re.search(rf"^{target}:", page("Makefile"), re.MULTILINE)
