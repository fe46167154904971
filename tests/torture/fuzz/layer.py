"""The layer: strategies and headers of strangers are read or refused, and nothing else."""

import random
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from tests.torture.fuzz import header_laws, headers, strategies
from tests.torture.layer import Broker, Counts, Failure, Seeded, Tally

# A broker is slow. What Hypothesis draws is tried by the tests of strategies and of records.
_PLAYS = {strategies.play_mutated: 50, headers.play_garbled: 48, headers.play_sent: 2}


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
class Fuzz(Seeded):
    """The corpus first, each time; then one example for each seed."""

    def run(self, first: int, amount: int, broker: Broker) -> Iterator[Tally]:
        yield try_corpus(first)
        yield from Seeded.run(self, first, amount, broker)


FUZZ = Fuzz("fuzz", "examples", short=2_000, long=1_000_000, play=play, chunk=500)
