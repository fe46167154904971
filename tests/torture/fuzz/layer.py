"""The layer: strategies and headers of strangers are read or refused, and nothing else."""

import random
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.torture.fuzz import header_laws, headers, strategies
from tests.torture.layer import Broker, Counts, Failure, Seeded, Tally

# Hypothesis draws ten times as slowly as bytes are changed; a broker is slower still.
_PLAYS = {
    strategies.play_mutated: 45,
    headers.play_garbled: 40,
    strategies.play_drawn: 8,
    headers.play_drawn: 5,
    headers.play_sent: 2,
}


def play(seed: int) -> Counts:
    """One text, or the headers of one message."""
    rng = random.Random(seed)
    (play_one,) = rng.choices(list(_PLAYS), list(_PLAYS.values()))
    return play_one(rng)


def try_corpus(seed: int) -> Tally:
    """Everything nasty that is kept in the repo. What fails has `seed`: any seed replays it."""
    tally = Tally()
    for name, content in strategies.corpus().items():
        try:
            _check_verdict(name, content)
        except Exception:  # noqa: BLE001  (whatever it is, it is this file's failure)
            tally.failures.append(Failure(seed, f"strategies/{name}: {traceback.format_exc()}"))
    for name, pairs in headers.corpus().items():
        try:
            for number in range(10):  # each is put into a message in one of several ways
                header_laws.check(pairs, random.Random(number))
        except Exception:  # noqa: BLE001  (whatever it is, it is this file's failure)
            tally.failures.append(Failure(seed, f"headers/{name}: {traceback.format_exc()}"))
    files = len(strategies.corpus()) + len(headers.corpus())
    tally.counts = Counter({"files of the corpus": files})
    return tally


def _check_verdict(name: str, content: bytes) -> None:
    """A strategy under `legal/` must be read, one under `refused/` must not."""
    counts = strategies.check(content)
    assert name.startswith("legal/") == ("strategies" in counts), counts


@dataclass(frozen=True, slots=True)
class Fuzz:
    """The corpus first, each time; then one example for each seed."""

    seeded: Seeded = field(
        default_factory=lambda: Seeded(
            "fuzz", "examples", short=20_000, long=1_000_000, play=play, chunk=500
        )
    )

    @property
    def name(self) -> str:
        return self.seeded.name

    @property
    def unit(self) -> str:
        return self.seeded.unit

    @property
    def short(self) -> int:
        return self.seeded.short

    @property
    def long(self) -> int:
        return self.seeded.long

    def run(self, first: int, amount: int, broker: Broker) -> Iterator[Tally]:
        yield try_corpus(first)
        yield from self.seeded.run(first, amount, broker)


FUZZ = Fuzz()
