"""A process that produces through an outbox until it is struck.

One message is larger than its topic takes: that lets the outbox take back what is under way, store
it with what follows, and send it from the store.
"""

import itertools
import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from linear_retry.outbox import Outbox, OutboxMessage, outbox
from tests.store.sender.struck.child import StruckDatabase
from tests.torture.struck.moments import Blow, Moments

KEYS = 5
LARGEST_BYTES = 20_000
_LARGE = 50
_FLUSH_EVERY = 100


@dataclass(frozen=True, slots=True)
class Role:
    """What the process is to do. `testimony`: a file for the numbers that are durable."""

    url: str
    config: dict[str, Any]
    topic: str
    blow: dict[str, Any]
    testimony: str

    def to_json(self) -> str:
        return json.dumps(asdict(self))


def main(role: Role) -> None:
    moments = Moments(Blow(**role.blow), lambda _: None)
    struck = StruckDatabase(role.url, moments)
    with (
        Path(role.testimony).open("ab", buffering=0) as file,
        patch.object(outbox, "Database", lambda *_, **__: struck),
        Outbox(role.config, store=role.url, on_refused="dead-letter") as box,
    ):

        def on_delivery(error: Any, message: OutboxMessage) -> None:
            assert error is None
            file.write(b"%d\n" % int(message.value or b""))

        for number in itertools.count():
            value = (b"%d" % number).ljust(2 * LARGEST_BYTES if number == _LARGE else 0)
            box.produce(role.topic, value, b"k%d" % (number % KEYS), on_delivery=on_delivery)
            if number % _FLUSH_EVERY == _FLUSH_EVERY - 1:
                assert 0 == box.flush()


if __name__ == "__main__":
    main(Role(**json.loads(sys.argv[1])))
