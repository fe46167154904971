"""The layer: real clients, whatever the brokers and the members do."""

import tempfile
from collections import Counter
from pathlib import Path
from typing import get_args

from linear_retry import events
from linear_retry.kafka.embedded.cluster import EmbeddedKafka
from linear_retry.scope import AnyScope, ScopeKind
from linear_retry.testing import AttemptStarted
from tests.kafka_operations import KafkaOperations
from tests.scenarios.protocols import PROTOCOLS, soon_missed
from tests.scenarios.scene import Scene
from tests.torture.embedded.met import ErrorsMet
from tests.torture.embedded.play import BROKERS, LETTERS, PARTITIONS, TOPIC, Play
from tests.torture.layer import Counts, Seeded

_STRATEGY = [0.02, 0.1, 0.2, 0.4]


class Operations(KafkaOperations):
    """What a scene asks: a mock broker that is asked for all committed offsets says nothing."""

    def __init__(self, kafka: EmbeddedKafka) -> None:
        super().__init__(kafka.bootstrap)
        self._kafka = kafka

    def committed(self, group: str, topic: str) -> dict[int, int]:
        found = self._kafka.committed(group, topic)
        return {number: offset for (_, number), offset in found.items()}


def play(seed: int) -> Counts:
    """One group of one protocol and scope, some faults, the end, and the guarantees."""
    protocols = list(PROTOCOLS)
    protocol = protocols[seed % len(protocols)]
    scopes: tuple[AnyScope, ...] = (*get_args(ScopeKind), "key")
    scope = scopes[seed % len(scopes)]
    brokers = EmbeddedKafka(brokers=BROKERS, session_timeout_ms=2000, heartbeat_interval_ms=300)
    with (
        brokers as kafka,
        kafka.counting() as asked,
        tempfile.TemporaryDirectory() as directory,
    ):
        for topic in (TOPIC, LETTERS):
            kafka.create_topic(topic, PARTITIONS)
        scene = Scene(
            Operations(kafka),
            *(TOPIC, LETTERS, Path(directory)),
            strategy=_STRATEGY,
            config=soon_missed(PROTOCOLS[protocol]),
        )
        met = ErrorsMet(kafka, asked)
        running = Play(kafka, met, scene, scope, seed)
        try:
            running.run()
            running.end()
        finally:
            running.repair()
            scene.end()
        broken = scene.violations(by_key=scope == "key")
        assert not broken, "\n".join([*broken, running.story()])
        return running.counts + met.counts + _happened(scene)


def _happened(scene: Scene) -> Counts:
    log = scene.log()
    return Counter(
        {
            "attempts": sum(isinstance(entry, AttemptStarted) for entry in log),
            "openings": len(scene.emitted(events.CircuitOpened)),
            "letters": len(scene.emitted(events.DeadLettered)),
            "revokes": len(scene.emitted(events.Revoked)),
            "losses": len(scene.emitted(events.Lost)),
            "jumps over deleted records": len(scene.emitted(events.DataLost)),
            "revivals": len(scene.emitted(events.PartitionRevived)),
            "leaks": len(scene.emitted(events.LeakDropped)),
        }
    )


EMBEDDED_RUNS = Seeded("embedded", "runs", 8, 1_000, play, chunk=8, at_once=4)
