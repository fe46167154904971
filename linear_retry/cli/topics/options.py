"""The options that describe a consumer with retry topics or a scheduler."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from linear_retry.cli.options.values import length_ms, load, refused, topic_name
from linear_retry.errors import StrategyError
from linear_retry.journal.entry import DEFAULT_TOPIC as JOURNAL
from linear_retry.records.control import DEFAULT_TOPIC as CONTROL
from linear_retry.records.topics.names import CONVENTION, derived_name
from linear_retry.records.topics.setup import TopicSetup, name_problems, retry_topics
from linear_retry.strategy.delays import MAX_DELAY_S
from linear_retry.strategy.strategy import check_retry_delays


@dataclass(frozen=True, slots=True, kw_only=True)
class SetupOptions:
    """Describes the consumer that needs the topics."""

    sources: Annotated[list[str], typer.Argument(metavar="SOURCE", help="The source topics.")]
    group: Annotated[
        str, typer.Option(metavar="GROUP", help="The consumer group of the live line.")
    ]
    strategy: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The strategy of the retry topics, a file or the name of a ready one. Each "
            "distinct delay has one topic.",
        ),
    ] = None
    single: Annotated[
        str | None,
        typer.Option(
            metavar="TOPIC",
            callback=topic_name,
            help="In place of --strategy: the one topic of RetryTopics.single. Needs --every.",
        ),
    ] = None
    every: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="How long records wait in the topic of --single."),
    ] = None
    scheduler: Annotated[
        str | None,
        typer.Option(
            metavar="TOPIC",
            callback=topic_name,
            help="In place of --strategy: the topic of Scheduler and of `scheduler run`.",
        ),
    ] = None
    prefix: Annotated[
        str | None,
        typer.Option(
            metavar="PREFIX",
            callback=topic_name,
            help="The retry topics are PREFIX.5m, PREFIX.1h and so on. The default is "
            "SOURCE.GROUP.retry.",
        ),
    ] = None
    dead_letters: Annotated[
        str | None,
        typer.Option(
            metavar="TOPIC",
            callback=topic_name,
            help="The dead-letter topic. The default is SOURCE.dlq.",
        ),
    ] = None
    journal: Annotated[
        str, typer.Option(metavar="TOPIC", callback=topic_name, help="The journal's topic.")
    ] = JOURNAL
    no_journal: Annotated[
        bool, typer.Option("--no-journal", help="The consumer writes no journal.")
    ] = False
    control: Annotated[
        str,
        typer.Option(
            metavar="TOPIC", callback=topic_name, help="The topic of operators' commands."
        ),
    ] = CONTROL
    no_control: Annotated[
        bool, typer.Option("--no-control", help="The consumer follows no control topic.")
    ] = False
    replication: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, max=32767, help="Replicas of each topic. The default: as SOURCE."
        ),
    ] = None
    convention: Annotated[
        bool,
        typer.Option(
            "--convention",
            help=f"Names have the form {CONVENTION}; names that do not are refused.",
        ),
    ] = False

    def setup(self) -> TopicSetup:
        """Returns the checked set-up. Raises `StrategyError` and `typer.BadParameter`."""
        topics, prefix = self._retry_topics()
        setup = TopicSetup(
            sources=tuple(self.sources),
            group=self.group,
            retry_topics=topics,
            prefix=prefix,
            dead_letters=self.dead_letters or self._derived("--dead-letters", "dlq"),
            journal=None if self.no_journal else self.journal,
            control=None if self.no_control else self.control,
            scheduler=self.scheduler,
        )
        if problems := [*name_problems(setup, convention=self.convention)]:
            raise typer.BadParameter("\n".join(problems))
        return setup

    def _derived(self, option: str, *words: str) -> str:
        if len(self.sources) > 1:
            raise typer.BadParameter(
                f"{len(self.sources)} sources: there is no default name; give one",
                param_hint=option,
            )
        return derived_name(self.sources[0], *words, convention=self.convention)

    def _retry_topics(self) -> tuple[dict[str, int], str | None]:
        """Returns the retry topics with their delays, and their prefix."""
        match self.strategy, self.single, self.every, self.scheduler:
            case Path() as strategy, None, None, None:
                prefix = self.prefix or self._derived("--prefix", self.group, "retry")
                return retry_topics(prefix, _delays_ms(strategy)), prefix
            case None, str(single), str(every), None:
                return {single: _every_ms(every)}, None
            case None, None, None, str():
                return {}, None
        raise typer.BadParameter(
            "write either --strategy FILE, or --single TOPIC --every DURATION, or --scheduler TOPIC"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AclOptions:
    """The use of the consumer, which decides on its permissions."""

    transactional: Annotated[
        bool, typer.Option("--transactional", help="Records leave in transactions.")
    ] = False
    back_to_source: Annotated[
        bool,
        typer.Option("--back-to-source", help="The retry line puts messages back into SOURCE."),
    ] = False


def _delays_ms(file: Path) -> tuple[int, ...]:
    """Returns each distinct delay. Raises `StrategyError` and `typer.BadParameter`."""
    strategy = load(file)
    if isinstance(strategy, StrategyError):
        raise strategy
    with refused("--strategy"):
        check_retry_delays(strategy)
    return strategy.distinct_delays_ms


def _every_ms(text: str) -> int:
    every_ms = length_ms(text, "--every")
    if not 0 < every_ms <= MAX_DELAY_S * 1000:
        raise typer.BadParameter(
            f"{text}: must be above 0, and 7 days at most", param_hint="--every"
        )
    return every_ms
