"""The world of a schedule."""

from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import ExitStack

from linear_retry import BrokerError, FencedError
from linear_retry.errors import LinearRetryError
from linear_retry.scope import Partition
from tests.torture.schedules.any_time import AnyTime
from tests.torture.schedules.blind import let_the_blind_see
from tests.torture.schedules.ends import Ends, Raised, hold
from tests.torture.schedules.group import PlayedGroup
from tests.torture.schedules.happened import happened
from tests.torture.schedules.kafka import PlayedKafka
from tests.torture.schedules.kinds import Kinds
from tests.torture.schedules.last_chance import give_a_last_chance
from tests.torture.schedules.mishaps import MISHAPS
from tests.torture.schedules.moves import MOVES
from tests.torture.schedules.operators import Operators
from tests.torture.schedules.players import Player
from tests.torture.schedules.schedule import Schedule, Setting, State, Step
from tests.torture.schedules.strikes import Strikes

_END_WITHIN_S = 200.0
_START_S = 1.0


class _KilledError(BaseException):
    """The process is not there any more: nothing of it runs, and nobody catches this."""


class World:
    """Members, their dependency, and what befalls them."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.counts: Counter[str] = Counter()
        self.fake = PlayedKafka(self._strike, self._share_anew, self._waited)
        self.group = PlayedGroup(setting, self.fake)
        self.faults = self.fake.faults
        self.operators = Operators()
        self.strikes = Strikes(self.group, self.counts, self._act)
        self._ends = Ends(setting, self.fake)
        self._raised = Raised()
        self._any_time = AnyTime(self.group, transactional=setting.transactional)
        self._acting = self.group.acting
        self._starting = 0
        # Until all is calm it is nobody's fault where something stands still.
        self._mishaps: list[ExitStack] = []
        self._ended: list[Player] = []
        self.group.dependency.advance = self._in_handler

    def play(self, schedule: Schedule) -> None:
        """Raises `BrokenError`, or what a program or the fake raised that it must not."""
        try:
            with self._raised.reporting():
                self._play(schedule)
        finally:
            self._all_is_calm()
            self.group.end()

    def _play(self, schedule: Schedule) -> None:
        self._begin()
        for step in schedule.steps:
            self._apply(step)
            self._any_time.look()
            hold(self._any_time.violations())
        if self.setting.last_chance:
            give_a_last_chance(self)
        self._end()
        self._any_time.look()
        self._judge()

    def _begin(self) -> None:
        for _ in range(self.setting.members):
            self.join()
        for partition in self.group.partitions:
            self.group.produce(partition, self.setting.messages)
        self.group.deal((0, 1, 2))

    def _apply(self, step: Step) -> None:
        self.fake.catch_up()
        self.have_someone()
        self.strikes.take(step)

    def _act(self, step: Step) -> None:
        kinds: Kinds = MOVES if step.name in MOVES.acts else MISHAPS
        if kinds is MISHAPS and not self._mishaps:
            self._mishaps.append(ExitStack())
            self._mishaps[0].enter_context(self.group.witness.disturbing("mishaps"))
        with self._raised.noting():
            kinds.act(self, step.name, dict(step.arguments))

    def _end(self) -> None:
        """The last fault is past: everything is done and committed in bounded time."""
        self.strikes.forget()
        self.fake.catch_up()
        self._calm(set())
        self.group.dependency.refuses.clear()  # or a limit would hold some for ever
        self.have_someone()
        self.group.deal((0, 1, 2))
        give_up_at_s = self.fake.clock.now_s() + _END_WITHIN_S
        while not self.group.all_done() and self.fake.clock.now_s() < give_up_at_s:
            self.operators.retry_blocked(self.group.players)
            self.turn_all()
        self.turn_all()

    def _judge(self) -> None:
        hold(self._any_time.violations())
        hold(self.group.violations())
        self.counts.update(happened(self.group.witness.entries))
        hold(self.operators.violations([*self.group.players, *self._ended]))

    def partition(self, number: int) -> Partition:
        there = self.group.partitions
        return there[number % len(there)]

    def partitions(self, numbers: Iterable[int]) -> set[Partition]:
        return {self.partition(number) for number in numbers}

    def member(self, number: int) -> Player:
        """0 is the one that acts, where something strikes inside one."""
        first = self._acting[-1:]
        there = [*first, *(each for each in self.group.players if each not in first)]
        return there[number % len(there)]

    def idle(self) -> list[Player]:
        """Those that may have a turn now. A task of an event loop cannot run another."""
        if self._acting and self.setting.loop == "async":
            return []
        return [player for player in self.group.players if player not in self._acting]

    def turn_all(self) -> None:
        self.have_someone()
        for player in list(self.group.players):
            if player in self.group.players:
                self.turn(player)

    def turn(self, player: Player) -> None:
        """One turn of its program, which ends as a program would."""
        try:
            player.sends = False
            self._acts(player, player.turn)
        except _KilledError:
            return
        except KeyboardInterrupt:
            # Of a failure that has come to nothing nobody knows any more: to go on would be to
            # attempt its message again, as if it had not failed. Or why its client is done for.
            forgets = self.group.has_forgotten_a_failure(player) or player.consumer.refused
            player.ends |= player.interrupted or forgets
        except LinearRetryError as error:
            self._ends.require(player, error, self.group.witness.entries)
            player.ends = True
            player.commits &= not isinstance(error, FencedError)
        except RuntimeError:
            if not player.killed:
                raise
        if player.ends and player in self.group.players:
            self._close(player)
        self.group.carry(player)

    def join(self) -> None:
        """One more, where it can start."""
        self._starting += 1
        try:
            with self._ends.starting():
                self.group.join()
        except (BrokerError, KeyboardInterrupt):
            self.counts["starts that failed"] += 1
        finally:
            self._starting -= 1

    def stop(self, player: Player) -> None:
        """Its program ends; at the end of its turn, if it has one."""
        player.ends = True
        player.stop.ask()
        if player not in self._acting:
            self._close(player)

    def kill(self, player: Player, owners: tuple[int, ...]) -> None:
        """It is gone; where it acts, nothing of it goes on, after another's turn inside at most."""
        self.group.crash(player)
        self.group.players.remove(player)
        player.killed = True
        self.group.unreported.report()
        self.group.deal(owners)
        if player in self._acting[-1:]:
            raise _KilledError

    def interrupt(self) -> None:
        """Where something strikes inside: there. A second one ends the program at the latest."""
        if self._acting:
            self._acting[-1].interrupted = True
            raise KeyboardInterrupt
        self.group.dependency.raises_once.append(KeyboardInterrupt())

    def be_quiet(self, owners: tuple[int, ...], failing: set[Partition], for_s: float) -> None:
        """Raises `BrokenError` where something stands still that nothing stops."""
        self.strikes.forget()
        self._calm(failing)
        choices = self.setting.on_permanent, self.setting.on_exhausted
        if "block" in choices or "stop" in choices:
            # Or keys would be blocked, or the program would end, again and again.
            self.group.dependency.refuses.clear()
        if "stop" in choices:
            self.group.dependency.down_for = failing = set()
        self.have_someone()
        self.group.deal(owners)
        self._turn_for(for_s)
        found = self.group.standing_still(failing)
        if found:  # what has just been let go needs some turns
            self._turn_for(for_s / 2)
            found = sorted({*found} & {*self.group.standing_still(failing)})
        hold(f"StandsStill: {each}" for each in found)

    def _turn_for(self, seconds: float) -> None:
        ask_at_s = self.fake.clock.now_s()
        until_s = ask_at_s + seconds
        while (now_s := self.fake.clock.now_s()) < until_s:
            if now_s >= ask_at_s:  # at each turn, something would always go on: time stood still
                self.operators.retry_blocked(self.group.players)
                ask_at_s = now_s + 1.0
            self.turn_all()

    def have_someone(self) -> None:
        """A supervisor starts a program again, as soon as it can start."""
        if not self.group.players and not self._acting:
            self.faults.brokers_down = False
            self.faults.forget_transactions()
            self.fake.clock.advance(_START_S)
            self.join()
            self.group.deal((0,))

    def _acts(self, player: Player, act: Callable[[], None]) -> None:
        self._acting.append(player)
        try:
            self.fake.elsewhere(act)
        finally:
            self._acting.pop()

    def _close(self, player: Player) -> None:
        def leave() -> None:
            with self.fake.inside("closing"):
                player.leave()

        try:
            self._acts(player, leave)
        except _KilledError:
            return
        except KeyboardInterrupt:
            pass  # closed it is all the same
        except LinearRetryError as error:  # likewise
            self._ends.require(player, error, self.group.witness.entries)
        except RuntimeError:
            if not player.killed:
                raise
        if player.killed:
            return
        self._ended.append(player)
        self.group.remove(player)
        self.group.deal((0, 1, 2))

    def _all_is_calm(self) -> None:
        while self._mishaps:
            self._mishaps.pop().close()

    def _calm(self, failing: set[Partition]) -> None:
        self.group.dependency.down = False
        self.group.dependency.down_for = failing
        self.group.dependency.down_for_keys = set()
        self.group.dependency.raises_once.clear()
        self.group.dependency.takes_s = 0.0
        self.group.is_control_down = False
        self.faults.clear()
        for player in self.group.players:
            player.leaves_after = 100
        let_the_blind_see(self)
        self._all_is_calm()

    def _share_anew(self) -> None:
        """With a client in the place of a blind one; whoever starts is given its share then."""
        if not self._starting:
            self.group.deal((0, 1, 2))

    def _waited(self, since_s: float) -> None:
        """The one that acts has asked, and no broker has answered: for a second at most.

        Or for 45, where what it asked was a commit: of the first offset ever, or at a revoke.
        """
        if self._acting and not self._starting:  # who starts is none of these yet
            self.group.witness.idle(self._acting[-1].name, since_s)

    def _in_handler(self, takes_s: float) -> None:
        if self._acting:
            self._acting[-1].sends = False
        self.fake.clock.advance(takes_s)
        if self.strikes:
            with self.fake.inside("in the handler"):
                self._strike("in the handler", midway=True)

    def _strike(self, state: State | None, *, midway: bool) -> None:
        """A moment inside the one that acts: what waits for such a one is done."""
        if not self._acting or self._starting:
            return
        player = self._acting[-1]
        if not player.killed:
            self.strikes.moment(player, state, midway=midway)
        if player.killed:
            raise _KilledError
