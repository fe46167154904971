"""Is a letter there exactly once for a `read_committed` reader, wherever its sender is struck?"""

from __future__ import annotations

import itertools
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import IsolationLevel, KafkaException

from linear_retry import DeadLetters, events
from linear_retry.consumer.assembly import Outside
from linear_retry.consumer.clock import SystemClock
from linear_retry.kafka import Message, Producer
from tests import dying_with_parent
from tests.kafka_operations import wait_until
from tests.scenarios.conftest import SceneFactory
from tests.scenarios.handlers import Dependency, Scripted
from tests.scenarios.protocols import PROTOCOLS, each_protocol
from tests.scenarios.scene import CHECKOUT, Member, Scene
from tests.scenarios.testimony import read_testimony
from tests.scenarios.transactional_child import POINTS, Role

pytestmark = pytest.mark.broker

LIVES = int(os.environ.get("LINEAR_RETRY_LIVES", "0"))
"""So many senders are killed at random points; 0: one at each point."""

SESSION_S = 6.0
"""The broker's for KIP-848 groups; the others' is shorter."""
TRANSACTION_S = 2.0
SWEEP_S = 1.0
LATER_S = 10.0
"""What a machine with two cores adds, when ten consumers begin on it at once."""

MESSAGES = 6
REFUSED = 2
AT_ONCE = 6


@dataclass(frozen=True, slots=True)
class Life:
    """A sender that is struck, and where it leaves its testimony."""

    group: Scene
    directory: Path
    point: str
    signal: int = signal.SIGKILL
    transaction_s: float = TRANSACTION_S
    into_commit_s: float = 0.0
    config: dict[str, Any] = field(default_factory=dict)

    def begin(self) -> subprocess.Popen[bytes]:
        role = Role(
            member="first",
            testimony=str(self.directory / f"{self.group.topic}.testimony"),
            struck=str(self.struck),
            config=self.group.config("first", **self.config),
            topic=self.group.topic,
            letters=self.group.letters,
            letters_config=self.letters.config,  # type: ignore[arg-type]  # a dict, to be JSON
            refused=f"0@{REFUSED}",
            point=self.point,
            signal=self.signal,
            into_commit_s=self.into_commit_s,
        )
        guard = (sys.executable, "-I", "-S", dying_with_parent.__file__, str(os.getpid()))
        module = (sys.executable, "-m", "tests.scenarios.transactional_child", role.to_json())
        with (self.directory / f"{self.group.topic}.stderr").open("wb") as errors:
            return subprocess.Popen(
                [*guard, *module], cwd=CHECKOUT, stderr=errors, stdout=errors, process_group=0
            )

    @property
    def struck(self) -> Path:
        return self.directory / f"{self.group.topic}.struck"

    @property
    def letters(self) -> DeadLetters:
        timeout = {"transaction.timeout.ms": int(self.transaction_s * 1000)}
        return DeadLetters(self.group.letters, timeout, transactional=True)

    def next_owner(self) -> Member:
        handler = Scripted({f"0@{REFUSED}": ["poison"]})
        return self.group.join("second", handler, dead_letters=self.letters, config=self.config)

    def wait_until_done(self, within_s: float = 60.0) -> None:
        last = (self.group.topic, 0, MESSAGES - 1)
        wait_until(lambda: last in self.group.handled(), "all is done", within_s, detail=self.story)

    def is_decided(self) -> bool:
        """Whether everything in the dead-letter topic is there to read, or never will be."""
        ends = self.group.kafka.end_offsets
        open_end = ends(self.group.letters, IsolationLevel.READ_UNCOMMITTED)
        return ends(self.group.letters) == open_end

    def story(self) -> str:
        errors = (self.directory / f"{self.group.topic}.stderr").read_text(errors="replace")
        return f"{self.point}\n{self.group.story()}\n{self.first_log()}\n{errors[-2000:]}"

    def first_log(self) -> str:
        path = self.directory / f"{self.group.topic}.testimony"
        return "\n".join(map(repr, read_testimony(path)))


def _killed(life: Life) -> tuple[str, float]:
    """How long after the strike the next owner had done all."""
    group, now_s = life.group, SystemClock().now_s
    group.produce(MESSAGES)
    first = life.begin()
    try:
        assert -signal.SIGKILL == first.wait(60), life.story()
    finally:
        first.kill()
    struck_s = now_s()
    assert life.struck.exists(), life.story()
    second = life.next_owner()
    life.wait_until_done()
    took_s = now_s() - struck_s
    second.stop()
    wait_until(life.is_decided, "no transaction is open", SESSION_S, detail=life.story)
    _assert_one_letter(life)
    return life.point, took_s


def _assert_one_letter(life: Life) -> None:
    group = life.group
    assert [REFUSED] == [one.original_offset for one in group.dead_letters()], life.story()
    assert {(group.topic, 0): MESSAGES} == group.committed(), life.story()
    by_second = [offset for _, _, offset in group.handled("second")]
    assert by_second == sorted(set(by_second)), life.story()
    assert REFUSED not in by_second
    # Whatever the first has not done, or not committed, the second has begun with.
    assert set(range(REFUSED + 1, MESSAGES)) <= set(by_second), life.story()


def test_killed_anywhere(scene: SceneFactory, tmp_path: Path) -> None:
    """Wherever SIGKILL strikes, one letter is there, and the next owner goes on in bounded time."""
    lives = list(_lives(scene, tmp_path))
    with ThreadPoolExecutor(AT_ONCE if LIVES else len(lives)) as pool:
        took = list(pool.map(_killed, lives))
    for point in POINTS:
        times_s = sorted(took_s for at, took_s in took if at == point)
        if times_s:
            print(f"{point:20} {len(times_s):4} killed, all done after at most {times_s[-1]:.1f} s")
    slowest_s = max(took_s for _, took_s in took)
    assert slowest_s < SESSION_S + TRANSACTION_S + SWEEP_S + LATER_S


def _lives(scene: SceneFactory, directory: Path) -> Iterator[Life]:
    dice = random.Random(1)
    points = POINTS if LIVES == 0 else tuple(itertools.islice(itertools.cycle(POINTS), LIVES))
    configs = itertools.cycle(PROTOCOLS.values())
    for point in points:
        yield Life(
            scene(),
            directory,
            point,
            into_commit_s=dice.uniform(0.0, 0.02),
            config=dict(next(configs)),
        )


def test_zombies_wake_up(scene: SceneFactory, tmp_path: Path) -> None:
    """Stopped past the session, and the next owner sends the letter: the zombie's is refused."""
    lives = [
        # The group refuses it: its transaction would last on.
        Life(scene(), tmp_path, "after report", signal.SIGSTOP, transaction_s=30.0),
        # The broker has ended its transaction, for the next owner waited for that.
        Life(scene(), tmp_path, "after send_offsets", signal.SIGSTOP),
        Life(scene(), tmp_path, "before commit", signal.SIGSTOP),
    ]
    with ThreadPoolExecutor(len(lives)) as pool:
        list(pool.map(_woken, lives))


def _woken(life: Life) -> None:
    life.group.produce(MESSAGES)
    first = life.begin()
    try:
        wait_until(life.struck.exists, "it is struck", detail=life.story)
        second = life.next_owner()
        life.wait_until_done()
        first.send_signal(signal.SIGCONT)
        wait_until(lambda: "Lost" in life.first_log(), "it hears of its loss", detail=life.story)
        second.stop()
        first.send_signal(signal.SIGTERM)
        assert 0 == first.wait(30), life.story()
    finally:
        first.kill()
    wait_until(life.is_decided, "no transaction is open", detail=life.story)
    _assert_one_letter(life)


class Refusals:
    """Makes real producers, and keeps what was refused to them."""

    def __init__(self) -> None:
        self.codes: list[str] = []

    def __call__(self, config: dict[str, Any]) -> Any:
        noted = self.codes

        class Noting(Producer):
            def send_offsets_to_transaction(self, *arguments: Any) -> None:
                try:
                    super().send_offsets_to_transaction(*arguments)
                except KafkaException as error:
                    noted.append(error.args[0].name())
                    raise

        return Noting(config)


@each_protocol
def test_another_member_joins(protocol: dict[str, str], scene: SceneFactory) -> None:
    """While a letter's message is in the handler: letters go out once, with nothing to wait for."""
    group = scene(4, strategy=[], config=protocol)
    freed = threading.Event()
    refused = Dependency()
    refused.refuses |= {(number, offset) for number in range(4) for offset in (1, 3)}
    refusals = Refusals()

    def handle(message: Message) -> None:
        if message.offset() == 1:
            freed.wait(30)
        refused(message)

    letters = DeadLetters(group.letters, transactional=True)
    outside = Outside(producer=refusals)
    first = group.join("first", handle, dead_letters=letters, _outside=outside)
    group.wait_for(events.Assigned)
    for number in range(4):
        group.produce(6, number)
    group.wait_for_attempts(2)
    second = group.join("second", refused, dead_letters=letters)
    members = ["first", "second"]
    wait_until(lambda: members == group.kafka.group_members(group.group), "both are members")
    if protocol != PROTOCOLS["eager"]:
        _let_the_generation_change()
    freed.set()
    group.wait_until_done()
    first.stop()
    second.stop()
    found = sorted((one.original_partition, one.original_offset) for one in group.dead_letters())
    assert sorted(refused.refuses) == found
    assert [] == group.said(events.Lost)
    assert [] == [said.error for said in group.said(events.DeadLetterFailed)]
    assert [] == group.violations()
    # An eager member gives everything up before the group moves on: nothing of it is outdated.
    outdated = set() if protocol == PROTOCOLS["eager"] else {"ILLEGAL_GENERATION"}
    assert outdated == set(refusals.codes)


def _let_the_generation_change() -> None:
    """The group is rebuilt without the first one's help, within a heartbeat or two."""
    now_s = SystemClock().now_s
    until_s = now_s() + 1.5
    wait_until(lambda: now_s() > until_s, "the group is rebuilt")
