"""A scenario's members, and the log of what they all did."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from linear_retry import LinearConsumer, Strategy, events
from linear_retry.kafka import Message
from linear_retry.kafka.consumer.messages import key_of, place_of, read
from linear_retry.records.dead_letter import DeadLetter, parse
from linear_retry.retry.clock import SystemClock
from linear_retry.testing import (
    AttemptFinished,
    AttemptStarted,
    Entry,
    EventEmitted,
    EventLog,
    Place,
)
from linear_retry.testing.guarantees.retries import Retries
from tests.kafka_operations import Headers, KafkaOperations, Record, wait_until
from tests.patience import PATIENCE_S
from tests.scenarios.child import Role
from tests.scenarios.handlers import Each, OutageError, Script
from tests.scenarios.process import Process
from tests.scenarios.protocols import soon_missed
from tests.testing.violations import done_places, violations

_ALIVE_WITHIN_S = 60.0
"""The watchdog of a dead partition is patient for 5 s, then for 10; and other work is going on."""

_E = TypeVar("_E", bound=events.Event)


class Scene:
    """A topic, its dead-letter topic, and a group whose members are threads or processes."""

    def __init__(
        self,
        kafka: KafkaOperations,
        topic: str,
        letters: str,
        directory: Path,
        *,
        strategy: Iterable[float] = (0.2, 0.3),
        config: dict[str, Any] | None = None,
        group: str = "group",
    ) -> None:
        """`config` are librdkafka keys for every member; `group` begins the group's name."""
        self.kafka, self.topic, self.letters = kafka, topic, letters
        self.group = f"{group}-of-{topic}"
        self.strategy = list(strategy)
        self._directory = directory
        self._config = config or {}
        self._witness = EventLog(SystemClock().now_s)
        self._threads: list[Member] = []
        self._processes: list[Process] = []
        self._has_batches = False
        self._keys: dict[Place, bytes | None] = {}

    def join(self, name: str, handler: Callable[[Message], Any], **options: Any) -> Member:
        """A member in a thread of this process. `options` are `LinearConsumer`'s.

        `config` among them is added to the keys; `topics` replaces the one topic; `run` is how its
        thread runs it; `batches`: by `run_batches`. A handler that is an `async def` is awaited.
        """
        is_async = inspect.iscoroutinefunction(handler)
        run = options.pop("run", _run_async if is_async else LinearConsumer.run)
        batches = options.pop("batches", False)
        watched = {"on_commit": self._witness.on_commit(name)}
        config = self.config(name, **(watched | options.pop("config", {})))
        listeners = [self._witness.listener(name), *options.pop("listeners", ())]
        consumer = LinearConsumer(
            config,
            options.pop("topics", [self.topic]),
            **{
                "strategy": Strategy(self.strategy),
                "transient": OutageError,
                "dead_letters": self.letters,
                "listeners": listeners,
                **options,
            },
        )
        watch = self._witness.async_handler if is_async else self._witness.handler
        handled = partial(run, consumer, watch(name, handler))
        if batches:
            watched_batch = self._witness.batch_handler(name, Each(handler))
            handled = partial(consumer.run_batches, watched_batch)
            self._has_batches = True
        member = Member(consumer, handled, self._dies(name))
        self._threads.append(member)
        return member

    def spawn(self, name: str, script: Script | None = None, **options: Any) -> Process:
        """A member in a process of its own."""
        role = Role(
            member=name,
            testimony=str(self._directory / f"{name}.testimony"),
            config=self.config(name, is_killed=True, **options.pop("config", {})),
            topics=options.pop("topics", [self.topic]),
            strategy=self.strategy,
            script=script or {},
            journals=options.pop("journals", []),
            health_port=options.pop("health_port", None),
            retries=options.pop("retries", {}),
            by_key=options.pop("by_key", {}),
            batches=options.pop("batches", False),
            options={"dead_letters": self.letters, **options},
        )
        self._has_batches |= role.batches
        process = Process(role, self._directory / f"{name}.stderr", self._dies(name))
        self._processes.append(process)
        return process

    def config(self, name: str, *, is_killed: bool = False, **more: Any) -> dict[str, Any]:
        """librdkafka's keys for a member, who `is_killed` perhaps."""
        keys = self._config | more
        if keys.get("group.protocol") != "consumer":
            keys = {"heartbeat.interval.ms": 300} | keys
        if is_killed:
            keys = soon_missed(keys)
        return self.kafka.client_settings(**{"group.id": self.group, "client.id": name, **keys})

    def end(self) -> None:
        """Nobody takes part any longer."""
        for process in self._processes:
            process.kill()
        for member in self._threads:
            member.consumer.stop()
        for member in self._threads:
            member.consumer.close()

    def produce(
        self, count: int, partition: int = 0, key: bytes | None = None, headers: Headers = ()
    ) -> None:
        """So many messages more in this partition."""
        values = [b"%d" % number for number in range(count)]
        self.write([(partition, key, value, headers) for value in values])

    def write(self, records: Iterable[Record], topic: str | None = None) -> None:
        """These messages more, in the scene's topic if in no other."""
        there = topic or self.topic
        for partition, offset in self.kafka.produce(there, records):
            self._witness.appended((there, partition), [offset])

    def disturbing(self, what: str) -> AbstractContextManager[None]:
        """While its body runs, nobody is to blame where something stands still."""
        return self._witness.disturbing(what)

    def appended(self, partition: int, offset: int, key: bytes | None = None) -> None:
        """For any thread: there is this message more in the scene's topic."""
        self._keys[Place(self.topic, partition, offset)] = key
        self._witness.appended((self.topic, partition), [offset])

    def visible(self) -> dict[tuple[str, int], list[int]]:
        """The offsets that a reader finds in each partition."""
        found: dict[tuple[str, int], list[int]] = {}
        for message in self.kafka.read(self.topic):
            place = (message.topic() or "", message.partition() or 0)
            found.setdefault(place, []).append(message.offset() or 0)
        return found

    def keys(self) -> dict[Place, bytes | None]:
        """The key of each message that a reader finds, or that was there."""
        found = {place_of(message): key_of(message) for message in self.kafka.read(self.topic)}
        return self._keys | found

    def committed(self) -> dict[tuple[str, int], int]:
        committed = self.kafka.committed(self.group, self.topic)
        return {(self.topic, number): offset for number, offset in committed.items()}

    def dead_letters(self) -> list[DeadLetter]:
        """What is in the dead-letter topic, by partition and offset."""
        records = [read(message) for message in self.kafka.read(self.letters)]
        return [parse(record.headers, record.key, record.value) for record in records]

    def log(self) -> list[Entry]:
        """What all of them did, in the order of time."""
        logs = [list(self._witness.entries), *(process.log() for process in self._processes)]
        return sorted((entry for log in logs for entry in log), key=lambda entry: entry.at_s)

    def attempts(self, member: str | None = None) -> list[Place]:
        """The handler's calls."""
        calls = [entry for entry in self.log() if isinstance(entry, AttemptStarted)]
        return [call.place for call in calls if member in (None, call.member)]

    def handled(self, member: str | None = None) -> list[Place]:
        """What the handler returned from."""
        ends = [
            entry
            for entry in self.log()
            if isinstance(entry, AttemptFinished) and entry.outcome == "done"
        ]
        return [end.place for end in ends if member in (None, end.member)]

    def failed(self, member: str | None = None) -> list[Place]:
        """What the handler raised an `Exception` for."""
        ends = [
            entry
            for entry in self.log()
            if isinstance(entry, AttemptFinished) and entry.outcome == "failed"
        ]
        return [end.place for end in ends if member in (None, end.member)]

    def emitted(self, kind: type[_E], member: str | None = None) -> list[_E]:
        """The events of this kind."""
        all_said = [entry for entry in self.log() if isinstance(entry, EventEmitted)]
        received = [entry.event for entry in all_said if member in (None, entry.member)]
        return [event for event in received if isinstance(event, kind)]

    def wait_for(self, kind: type[_E], times: int = 1, member: str | None = None) -> _E:
        """The event of this kind with this number, once it is there."""
        wait_until(
            lambda: len(self.emitted(kind, member)) >= times,
            f"{kind.__name__} number {times}",
            detail=self.story,
        )
        return self.emitted(kind, member)[times - 1]

    def wait_for_attempts(self, count: int, member: str | None = None) -> None:
        """Until the handler has been called so often."""
        wait_until(
            lambda: len(self.attempts(member)) >= count, f"{count} attempts", detail=self.story
        )

    def wait_until_done(self) -> None:
        """Until every message in the topic is done; they may not be committed yet."""
        visible = self.visible()
        wanted = {(*place, offset) for place, found in visible.items() for offset in found}
        wait_until(lambda: wanted <= done_places(self.log()), "all is done", detail=self.story)

    def violations(
        self,
        *,
        finished: bool = True,
        max_elapsed: bool = False,
        retries: Retries | None = None,
        retry_strategy_length: int = 0,
        skew_s: float = 0.0,
        by_key: bool = False,
    ) -> list[str]:
        """Every guarantee that does not hold; to be asked once the members have ended.

        `by_key`: the unit of order is the key.
        """
        return violations(
            self.log(),
            self.visible(),
            committed=self.committed(),
            strategy_length=len(self.strategy),
            max_elapsed=max_elapsed,
            alive_within_s=_ALIVE_WITHIN_S,
            finished=finished,
            retries=retries,
            retry_strategy_length=retry_strategy_length,
            skew_s=skew_s,
            batches=self._has_batches,
            keys=self.keys() if by_key else None,
        )

    def story(self) -> str:
        """The last things that happened, for a person who has to find out why."""
        errors = [process.stderr()[-2000:] for process in self._processes]
        group = self.kafka.group_story(self.group)
        return "\n".join([*map(repr, self.log()[-30:]), group, *errors])

    def _dies(self, name: str) -> Callable[[], None]:
        return partial(self._witness.crashed, name)


def _run_async(consumer: LinearConsumer, handler: Callable[[Message], Awaitable[object]]) -> None:
    asyncio.run(consumer.run_async(handler))


class Member:
    """A consumer in a thread of its own."""

    def __init__(
        self,
        consumer: LinearConsumer,
        run: Callable[[], object],
        died: Callable[[], None],
    ) -> None:
        """`died`: what has ended it is no `Exception`, but as sudden as SIGKILL."""
        self.consumer = consumer
        self._run = run
        self._died = died
        pool = ThreadPoolExecutor(1, "member")
        self.ended: Future[None] = pool.submit(self._live)
        pool.shutdown(wait=False)

    def stop(self) -> None:
        """Asked to end, and ended. Raises what `run` raised."""
        self.consumer.stop()
        self.result()

    def result(self) -> None:
        """Ended by itself. Raises what `run` raised."""
        self.ended.result(PATIENCE_S)

    def _live(self) -> None:
        try:
            with self.consumer:
                self._run()
        except Exception:
            raise
        except BaseException:
            self._died()
            raise
