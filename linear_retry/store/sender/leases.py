"""Leases: which instance sends the messages of which lanes, by the database's clock."""

import os
import platform
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, delete, func, select, tuple_, update

from linear_retry.errors import StoreError
from linear_retry.log.repeating import Repeating
from linear_retry.store.database import Database
from linear_retry.store.lanes import LEASES
from linear_retry.store.records import Service
from linear_retry.store.schema import instance, lease

if sys.platform != "win32":
    import fcntl

_FORGOTTEN_AFTER = 100
"""An instance without a sign of life for this many lengths of a lease is no longer listed."""
_STUCK_S = 300.0
"""Longer than the statements of one step may take together."""
_NAME = "linear-retry-{}.alive"
_LONG_DEAD_S = 3600.0
"""The leases of one without a sign of life for so long have run out."""


class Leases:
    """The leases that one instance holds, each with the epoch at which it took it.

    An instance that is stopped for longer than `length_ms` loses its leases without noticing: a
    lease says who should send, and only a Kafka producer initialised *after* taking it may.
    """

    def __init__(
        self,
        database: Database,
        service: Service,
        owner: str,
        length_ms: int,
        *,
        shares: bool = True,
        marks: Path | None = None,
    ) -> None:
        """`owner` must be this process's alone. Without `shares` it wants all, and keeps all.

        `marks`: a directory of this machine, by which others see at once that this process has
        died, and this one that others have; None: only once their leases have run out.
        """
        self._database, self._service, self._owner = database, service, owner
        self._length_ms, self._shares = length_ms, shares
        self._epochs: dict[int, int] = {}
        self._leaving: frozenset[int] = frozenset()
        self._marks = None if marks is None else _Marks(marks)

    @property
    def numbers(self) -> frozenset[int]:
        """The leases that it holds, as far as it knows."""
        return frozenset(self._epochs)

    def are_others_alive(self) -> bool:
        """Whether another instance has given a sign of life. Changes nothing; `StoreError`."""
        with self._database.reading() as connection:
            others = self._live(self._database.now_ms(connection)), instance.c.owner != self._owner
            return connection.execute(select(func.count()).where(*others)).scalar_one() > 0

    def keep(self, busy: frozenset[int] = frozenset()) -> frozenset[int]:
        """Renews them, gives back what is beyond its fair share, and takes what is free of it.

        Those with a batch under way, `busy`, are given back at a later call, and `still_held`
        leaves them out until then: the next holder would send the batch again. Returns the leases
        that it has taken. Raises `StoreError`.
        """
        if self._marks is not None:
            self._marks.set(self._owner)
        with self._database.begin() as connection:
            self._database.limit_locks(connection, self._length_ms // 2)
            # First: one of them may hold what the rest of this, or the intake, waits for.
            self._database.end_silent_sessions(connection)
            now_ms = self._database.now_ms(connection)
            # Here, in `renew` and in `give_back` instances are locked before leases, and each in
            # one order: two that wait for each other would cost both a second.
            dead, live = self._looked_around(connection, now_ms)
            share = -(-LEASES // live) if self._shares else LEASES
            rows = self._locked(connection)
            mine = [row for row in rows if self._is_held(row)]
            mine.sort(key=lambda row: row.number not in busy)
            kept = [row for row in mine if row in mine[:share] or row.number in busy]
            for row in kept:
                self._write(connection, row.number, until_ms=now_ms + self._length_ms)
            for row in mine[len(kept) :]:
                self._write(connection, row.number, owner=None, until_ms=0)
            others = [row for row in rows if row not in mine]
            of_the_dead = [row for row in others if row.owner in dead]
            for row in of_the_dead:
                self._write(connection, row.number, owner=None, until_ms=0)
            # Beyond its length a lease is of before the clock was set back: nobody renews it.
            ahead_ms = now_ms + self._length_ms
            free = [r for r in others if r in of_the_dead or not now_ms < r.until_ms <= ahead_ms]
            taken = self._taken(connection, free[: max(0, share - len(mine))], now_ms)
        if self._marks is not None:
            self._marks.remove(dead)
        self._leaving = frozenset(row.number for row in kept[share:])
        self._epochs = {row.number: row.epoch for row in kept} | taken
        return frozenset(taken)

    def renew(self) -> None:
        """Renews them, and changes nothing else. For a thread beside that of the other methods.

        Raises `StoreError`.
        """
        with self._database.begin() as connection:
            self._database.limit_locks(connection, self._length_ms // 2)
            now_ms = self._database.now_ms(connection)
            # No insert: one that has given all back is no longer there.
            connection.execute(update(instance).where(self._itself()).values(seen_ms=now_ms))
            # One statement, in their order: who is suspended here holds up all other instances.
            held = tuple_(lease.c.number, lease.c.epoch).in_([*dict(self._epochs).items()])
            mine = select(lease.c.number).where(lease.c.service == self._service, held)
            mine = mine.where(lease.c.owner == self._owner).order_by(lease.c.number)
            change = update(lease).where(
                lease.c.service == self._service, lease.c.number.in_(mine.with_for_update())
            )
            connection.execute(change.values(until_ms=now_ms + self._length_ms))

    def retake(self, number: int) -> bool:
        """Begins a new epoch of a lease that it holds; False if it has lost it: another sends.

        Raises `StoreError`.
        """
        epoch = self._epochs.get(number)
        ours = (self._this(number), lease.c.owner == self._owner, lease.c.epoch == epoch)
        with self._database.begin() as connection:
            until_ms = self._database.now_ms(connection) + self._length_ms
            change = update(lease).where(*ours).values(epoch=lease.c.epoch + 1, until_ms=until_ms)
            is_ours = connection.execute(change).rowcount == 1
        if epoch is not None and is_ours:
            self._epochs[number] = epoch + 1
            return True
        self._epochs.pop(number, None)
        return False

    def still_held(self, connection: Connection) -> frozenset[int]:
        """Returns those to send for: nobody else has taken them. Forgets the others."""
        ours = select(lease).where(lease.c.service == self._service, lease.c.owner == self._owner)
        there = {row.number: row.epoch for row in connection.execute(ours)}
        self._epochs = {n: epoch for n, epoch in self._epochs.items() if there.get(n) == epoch}
        return self.numbers - self._leaving

    def give_back(self) -> None:
        """Frees them all, and leaves the list of instances. Raises `StoreError`."""
        try:
            with self._database.begin() as connection:
                self._database.limit_locks(connection, self._length_ms // 2)
                connection.execute(delete(instance).where(self._itself()))
                for row in self._locked(connection):
                    if row.number in self.numbers and row.owner == self._owner:
                        self._write(connection, row.number, owner=None, until_ms=0)
            self._epochs = {}
        finally:  # one that begins again and again must not leave a file each time
            if self._marks is not None:
                self._marks.unset(self._owner)

    def _looked_around(self, connection: Connection, now_ms: int) -> tuple[set[str], int]:
        """Gives a sign of life, and removes the instances that give none.

        Returns those that have died on this machine, and how many live, this one included.
        """
        key = [instance.c.service, instance.c.owner]
        mine = instance.c.service == self._service
        # Only those of the service: an outbox that is suspended here must not hold up a scheduler.
        rows = connection.execute(
            select(instance).where(mine).order_by(instance.c.owner).with_for_update()
        ).all()
        others = {row.owner for row in rows} - {self._owner}
        dead = {each for each in others if self._marks is not None and self._marks.has_died(each)}
        seen = {"service": self._service, "owner": self._owner, "seen_ms": now_ms}
        sign = self._database.insert(instance).values(seen)
        connection.execute(sign.on_conflict_do_update(index_elements=key, set_={"seen_ms": now_ms}))
        forgotten = instance.c.seen_ms < now_ms - _FORGOTTEN_AFTER * self._length_ms
        connection.execute(delete(instance).where(mine, forgotten | instance.c.owner.in_(dead)))
        count = select(func.count()).where(self._live(now_ms))
        return dead, connection.execute(count).scalar_one()

    def _live(self, now_ms: int) -> ColumnElement[bool]:
        seen = instance.c.seen_ms.between(now_ms - self._length_ms, now_ms + self._length_ms)
        return (instance.c.service == self._service) & seen

    def _itself(self) -> ColumnElement[bool]:
        return (instance.c.service == self._service) & (instance.c.owner == self._owner)

    def _locked(self, connection: Connection) -> Sequence[Row[Any]]:
        """All leases of the service, locked; those that are missing are made."""
        wanted = select(lease).where(lease.c.service == self._service).order_by(lease.c.number)
        rows = connection.execute(wanted.with_for_update()).all()
        if len(rows) == LEASES:
            return rows
        new = {"service": self._service, "owner": None, "epoch": 0, "until_ms": 0}
        made = [{**new, "number": number} for number in range(LEASES)]
        connection.execute(self._database.insert(lease).values(made).on_conflict_do_nothing())
        return connection.execute(wanted.with_for_update()).all()

    def _is_held(self, row: Row[Any]) -> bool:
        return bool(row.owner == self._owner and row.epoch == self._epochs.get(row.number))

    def _taken(
        self, connection: Connection, rows: Sequence[Row[Any]], now_ms: int
    ) -> dict[int, int]:
        until_ms = now_ms + self._length_ms
        for row in rows:
            new = {"owner": self._owner, "epoch": row.epoch + 1, "until_ms": until_ms}
            self._write(connection, row.number, **new)
        return {row.number: row.epoch + 1 for row in rows}

    def _write(self, connection: Connection, number: int, **values: Any) -> None:
        connection.execute(update(lease).where(self._this(number)).values(values))

    def _this(self, number: int) -> Any:
        return (lease.c.service == self._service) & (lease.c.number == number)


class _Marks:
    """Files that processes lock: the kernel frees a lock whose process has ended, however it did.

    One that is suspended keeps its lock. What has no file is of another machine or container, or
    cannot be known, and is not called dead.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._own: int | None = None

    def set(self, owner: str) -> None:
        """Makes the file of this process and locks it, if that is possible here.

        Called again, it notes in the file's time that the process is alive.
        """
        if sys.platform == "win32":
            return
        with suppress(OSError):  # then it is taken for dead when its leases have run out
            if self._own is not None:
                os.utime(self._own)
                return
            self._remove_old()
            self._own = os.open(self._path(owner), os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
            try:
                fcntl.flock(self._own, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:  # a file without a lock would say that it has died
                self.unset(owner)

    def has_died(self, owner: str) -> bool:
        """Whether its file is there, and nobody has it locked."""
        return _is_unlocked(self._path(owner))

    def _remove_old(self) -> None:
        """Removes the files of those who died long ago, whatever their store.

        Not of all who are dead: by its file another store's instance is known to be. And one who is
        making a file has not locked it yet.
        """
        before_s = time.time() - _LONG_DEAD_S
        for each in self._directory.glob(_NAME.format("*")):
            with suppress(OSError):
                if each.stat().st_mtime < before_s and _is_unlocked(each):
                    each.unlink()

    def remove(self, owners: Iterable[str]) -> None:
        """Removes the files of those who are dead."""
        for each in owners:
            with suppress(OSError):
                self._path(each).unlink()

    def unset(self, owner: str) -> None:
        """Removes the file of this process."""
        if self._own is not None:
            self.remove([owner])
            os.close(self._own)
            self._own = None

    def _path(self, owner: str) -> Path:
        return self._directory / _NAME.format(f"{_machine()}-{owner}")


def _is_unlocked(mark: Path) -> bool:
    if sys.platform == "win32":
        return False
    try:
        theirs = os.open(mark, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(theirs, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(theirs)
    return True


def _machine() -> str:
    """What this machine is called until it starts again: locks of others may not be seen here."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return platform.node()


class Renewal:
    """Renews while a statement of the sender's waits for a lock or a slow disk.

    Others would take its leases meanwhile, and send what it has sent and not yet deleted. One whose
    thread makes no step for minutes loses them all the same: what it has would wait for ever.
    """

    def __init__(self, leases: Leases, every_s: float) -> None:
        self._leases, self._every_s = leases, every_s
        self._step_s = time.monotonic()

    def note_step(self) -> None:
        """Notes that the sender is at work."""
        self._step_s = time.monotonic()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Renews until the `with` is left."""
        # A daemon: a worker of an executor would let no program end that does not close its outbox.
        thread = Repeating("leases", self._run)
        thread.start()
        try:
            yield
        finally:
            thread.close(self._every_s)

    def _run(self, ended: Event) -> None:
        while not ended.wait(self._every_s):
            if time.monotonic() - self._step_s < _STUCK_S:
                with suppress(StoreError):  # the sender tells of it
                    self._leases.renew()
