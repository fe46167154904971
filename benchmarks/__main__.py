"""Runs the benchmarks: `python -m benchmarks`."""

import argparse
import shlex
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from benchmarks import (
    closing,
    console_letters,
    dead_letter,
    dlq_list,
    dlq_replay,
    group_breaker,
    held_keys,
    inbox,
    lone_message,
    memory,
    outbox_produce,
    retry,
    side_by_side,
    spark_days,
    spark_episodes,
    spark_ingest,
    spark_optimize,
    spark_scheduler,
    store_intake,
    store_sending,
    store_storing,
    store_waiting,
    throughput,
    tuning_optimum,
    tuning_regret,
    while_open,
)
from benchmarks.figures import Result
from benchmarks.machine import machine
from benchmarks.neighbours import key_race, race
from benchmarks.report import as_json, table
from benchmarks.retry_topics import coming_back, leaving, live_rate, spring, success_cost, waiting
from benchmarks.scale import FULL, QUICK, Scale
from tests.kafka_jars import NoBrokerError
from tests.real_kafka import RealKafka

Benchmark: TypeAlias = Callable[[RealKafka, Scale], Result]

BENCHMARKS: dict[str, Benchmark] = {
    "throughput": throughput.run,
    "side-by-side": side_by_side.run,
    "held-keys": held_keys.run,
    "lone-message": lone_message.run,
    "retry": retry.run,
    "group-breaker": group_breaker.run,
    "closing": closing.run,
    "dead-letter": dead_letter.run,
    "while-open": while_open.run,
    "memory": memory.run,
    "dlq-list": dlq_list.run,
    "dlq-replay": dlq_replay.run,
    "console-letters": console_letters.run,
    "leaving-the-line": leaving.run,
    "coming-back": coming_back.run,
    "waiting": waiting.run,
    "live-rate": live_rate.run,
    "success-cost": success_cost.run,
    "store-intake": store_intake.run,
    "store-sending": store_sending.run,
    "store-storing": store_storing.run,
    "store-waiting": store_waiting.run,
    "outbox-produce": outbox_produce.run,
    "inbox": inbox.run,
    "tuning-optimum": tuning_optimum.run,
    "tuning-regret": tuning_regret.run,
}
ON_SPARK: dict[str, Benchmark] = {
    "spark-ingest": spark_ingest.run,
    "spark-episodes": spark_episodes.run,
    "spark-days": spark_days.run,
    "spark-optimize": spark_optimize.run,
    "spark-scheduler": spark_scheduler.run,
}
OTHERS: dict[str, Benchmark] = {
    "neighbours": race.run,
    "key-neighbours": key_race.run,
    "spring-retry": spring.run,
    "store-at-size": store_waiting.run_at_size,
}
ALL: dict[str, Benchmark] = BENCHMARKS | ON_SPARK | OTHERS


def main(arguments: list[str]) -> None:
    """Run them and print their figures. A missed target is no failure: a person judges it."""
    chosen = _chosen(arguments)
    scale, results = QUICK if chosen.quick else FULL, {}
    with tempfile.TemporaryDirectory() as directory, RealKafka(Path(directory)) as kafka:
        for name in chosen.names:
            results[name] = ALL[name](kafka, scale)
            if not chosen.json:
                print(table(name, results[name]), flush=True)
    about = {"command": shlex.join(["python", "-m", "benchmarks", *arguments])} | machine()
    lines = "\n".join(f"{key}: {value}" for key, value in about.items())
    print(as_json(about, results) if chosen.json else f"\n{lines}")


def _chosen(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(ALL)}")
    parser.add_argument("--quick", action="store_true", help="few rounds: for a first impression")
    parser.add_argument("--neighbours", action="store_true", help="other libraries too (installs)")
    parser.add_argument("--json", action="store_true", help="every round's value, for machines")
    chosen = parser.parse_args(arguments)
    unknown = [name for name in chosen.names if name not in ALL]
    if unknown:
        parser.error(f"no such benchmark: {', '.join(unknown)}; there are {', '.join(ALL)}")
    names = chosen.names or [*BENCHMARKS, *ON_SPARK]
    chosen.names = names + ["neighbours"] * (chosen.neighbours and "neighbours" not in names)
    return chosen


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except NoBrokerError as error:
        sys.exit(f"error: {error}")
