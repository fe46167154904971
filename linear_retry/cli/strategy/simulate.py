"""Simulates outages: `linear-retry strategy simulate`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from linear_retry.cli.options.connection import with_option_groups
from linear_retry.cli.options.values import length_ms, read_lengths, refused
from linear_retry.cli.output.exit_codes import NEGATIVE, exit_on_error
from linear_retry.cli.output.rows import write_json
from linear_retry.cli.spark.options import RecordedOutages, require_pyspark
from linear_retry.cli.strategy import journey_report, screen, simulation_report
from linear_retry.cli.strategy.commands import FILE_HELP, load, summary
from linear_retry.errors import StrategyError
from linear_retry.retry.policy import OnExhausted, Policy
from linear_retry.strategy.retry_topics import RetryTopicsSimulator
from linear_retry.strategy.simulation import Simulator
from linear_retry.strategy.strategy import Strategy


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenOutages:
    """The outages that the user names, and what happens in one."""

    outage: Annotated[
        list[str] | None,
        typer.Option(
            metavar="DURATION",
            help="How long the dependency is down: 7m, 1h30m, or 90 for seconds. May be repeated.",
        ),
    ] = None
    outages: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="A file with one such duration on each line; # begins a comment."
        ),
    ] = None
    on_exhausted: Annotated[
        OnExhausted,
        typer.Option(
            metavar="CHOICE",
            help="What to do when the delays run out: dead-letter, repeat or stop.",
        ),
    ] = "dead-letter"
    attempt: Annotated[
        str, typer.Option(metavar="DURATION", help="How long an attempt takes to fail.")
    ] = "0s"


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryTopics:
    """What happens to messages that the strategy has not saved."""

    then: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="The strategy of the retry topics that they leave the line for."
        ),
    ] = None
    limit: Annotated[
        int,
        typer.Option(
            metavar="N", min=1, max=1000, help="With --then: so many leave in a row; one is held."
        ),
    ] = 20
    hold: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="With --then: how long that one waits; the last delay, or 30s."
        ),
    ] = None


@with_option_groups
def simulate(
    file: Annotated[Path, typer.Argument(metavar="FILE", help=FILE_HELP)],
    given: GivenOutages,
    retry_topics: RetryTopics,
    recorded: RecordedOutages,
    lake: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="Use the outages in this lake's table `episodes`."),
    ] = None,
    probe_cost: Annotated[
        str,
        typer.Option(metavar="TIME", help="With --lake: what an attempt costs, as time waited."),
    ] = "0s",
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object per outage, each on a line.")
    ] = False,
) -> None:
    """Simulate an outage: each attempt, and the idle time.

    The outage begins with the first attempt. An attempt that starts before its end fails; the first
    one after it succeeds. Without jitter; if the strategy has some, the bounds with it are added.
    Several outages make a table and a summary.

    With --then: the message leaves the line for retry topics when the strategy runs out, and those
    behind it are attempted. As many leave as --limit allows, the next one is held in the line.

    With --lake: what the strategy would have cost in all outages that Spark has found, by group,
    beside the strategy that was used (docs/spark/tuning.md). --group to --master, and --probe-cost,
    need --lake; --outage to --hold exclude it.

    Example: linear-retry strategy simulate short-outage --outage 7m

    Exit codes: 0, simulated, whatever the outcome; 1, a file is invalid (its problems are on
    stderr). With --lake also 5, no outage has a known duration.
    """
    if lake is None:
        if recorded != RecordedOutages() or probe_cost != "0s":
            raise typer.BadParameter(f"{_WITH_LAKE} are for recorded outages; give --lake DIR")
        _in_given(file, given, retry_topics, as_json)
    else:
        if given != GivenOutages() or retry_topics != RetryTopics():
            raise typer.BadParameter(
                f"{_WITHOUT_LAKE} are not for recorded outages; leave them out"
            )
        _in_recorded(file, lake, length_ms(probe_cost, "--probe-cost"), recorded, as_json)


_WITH_LAKE = "--group, --current, --seed, --master and --probe-cost"
_WITHOUT_LAKE = "--outage to --attempt, --then, --limit and --hold"


@dataclass(frozen=True, slots=True)
class _Asked:
    """What is to be simulated, checked; `then` is what --then names."""

    file: Path
    strategy: Strategy
    on_exhausted: OnExhausted
    attempt_ms: int
    outages_ms: list[int]
    then: Strategy | None

    def heading(self) -> dict[str, Any]:
        asked = {"on_exhausted": self.on_exhausted, "attempt_s": self.attempt_ms / 1000}
        return summary(self.file, self.strategy) | asked


def _in_given(file: Path, given: GivenOutages, retry_topics: RetryTopics, as_json: bool) -> None:
    asked = _asked(file, given, retry_topics.then, as_json)
    if asked.then is not None:
        _with_retry_topics(asked, asked.then, retry_topics, as_json)
        return
    if retry_topics != RetryTopics():
        raise typer.BadParameter("--limit and --hold are for retry topics; give --then FILE")
    with refused("--on-exhausted"):
        simulator = Simulator(Policy(asked.strategy, asked.on_exhausted), asked.attempt_ms)
    simulations = [simulator.through(outage_ms) for outage_ms in asked.outages_ms]
    if as_json:
        head, waits_out_ms = asked.heading(), simulator.waits_out_ms
        write_json(head | simulation_report.as_json(each, waits_out_ms) for each in simulations)
    else:
        screen.show_strategy(asked.strategy, asked.attempt_ms)
        screen.show_simulations(simulations, has_jitter=asked.strategy.jitter > 0)
        typer.echo(simulation_report.limit(simulator.waits_out_ms))


def _asked(file: Path, given: GivenOutages, then: Path | None, as_json: bool) -> _Asked:
    outages_ms = [length_ms(text, "--outage") for text in given.outage or []]
    attempt_ms = length_ms(given.attempt, "--attempt")
    loaded, after = load(file), None if then is None else load(then)
    invalid = [each for each in (loaded, after) if isinstance(each, StrategyError)]
    problems = [problem for each in invalid for problem in each.problems]
    outages_ms += [] if given.outages is None else read_lengths(given.outages, problems)
    if isinstance(loaded, StrategyError) or isinstance(after, StrategyError) or problems:
        _refuse(file, problems, as_json)
    if not outages_ms:
        raise typer.BadParameter("no outage is given; write --outage 7m, or --outages FILE")
    return _Asked(file, loaded, given.on_exhausted, attempt_ms, outages_ms, after)


def _with_retry_topics(asked: _Asked, then: Strategy, given: RetryTopics, as_json: bool) -> None:
    hold_s = None if given.hold is None else length_ms(given.hold, "--hold") / 1000
    policy = Policy(asked.strategy, asked.on_exhausted, hold_s=hold_s)
    with refused("--then"):
        simulator = RetryTopicsSimulator(policy, then, asked.attempt_ms, limit=given.limit)
    journeys = [simulator.through(outage_ms) for outage_ms in asked.outages_ms]
    if as_json:
        head = asked.heading() | {"then": then.label, "limit": given.limit}
        waits_out_ms = simulator.waits_out_ms
        write_json(head | journey_report.as_json(each, waits_out_ms) for each in journeys)
    else:
        screen.show_strategy(asked.strategy, asked.attempt_ms)
        typer.echo(f"then, in retry topics: {then.label}")
        if asked.strategy.jitter:
            typer.echo("all times are without jitter")
        screen.show_journeys(journeys)
        typer.echo(journey_report.limit(simulator.waits_out_ms))


def _in_recorded(
    file: Path, lake: str, probe_cost_ms: int, recorded: RecordedOutages, as_json: bool
) -> None:
    loaded = load(file)
    if isinstance(loaded, StrategyError):
        _refuse(file, list(loaded.problems), as_json)
    with exit_on_error(), require_pyspark():
        from linear_retry.cli.spark.tune import simulate as run

        head = summary(file, loaded) if as_json else None
        run(lake, loaded, probe_cost_ms, recorded, head)


def _refuse(file: Path, problems: list[str], as_json: bool) -> NoReturn:
    if as_json:
        write_json([{**summary(file, StrategyError(problems)), "timeline": []}])
    else:
        typer.echo("\n".join(problems), err=True)
    raise typer.Exit(NEGATIVE)
