"""A real Apache Kafka broker for tests, which can be stopped and started again."""

from __future__ import annotations

import random
import shutil
import socket
import struct
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tests import dying_with_parent, kafka_jars
from tests.cache import CACHE, publish
from tests.kafka_operations import KafkaOperations, wait_until
from tests.patience import PATIENCE_S

_CLUSTER_ID = "bGluZWFyLXJldHJ5LTAwMQ"
_JVM = (
    "-Xmx512m",
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
)
# Of 4.5 s of processor time that it takes to begin a broker, these spare more than half.
_FORMATTED = CACHE / f"kafka-{kafka_jars.KAFKA_VERSION}-formatted"
_CLASSES = CACHE / f"kafka-{kafka_jars.KAFKA_VERSION}.jsa"
_AN_OLD_ARCHIVE_IS_IGNORED = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off")

_QUICK = {
    # New groups and their members need not wait for one another.
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    # In KIP-848 groups the session is the broker's: 45 s, and so long a killed member would stay.
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "500",
    # One node, and few internal partitions to open again after each start.
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "log.retention.check.interval.ms": "1000",
    "log.initial.task.delay.ms": "500",
    # Compaction looks for something to do every 15 s by default.
    "log.cleaner.backoff.ms": "1000",
    # Twice a second the controller would write that nothing has happened, and the broker read it.
    "metadata.max.idle.interval.ms": "0",
    # Else a killed broker is refused for 9 s, for its former self counts as alive.
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "300",
}


class RealKafka(KafkaOperations):
    """One KRaft node, broker and controller in one, with its data in `directory`.

    Its address stays the same over stop, kill and start. `broker_settings` are `server.properties`
    on top of those that make it quick; topics are created automatically, as by default, unless
    they say otherwise. In a `with` it is started, and at the end killed.
    """

    def __init__(
        self,
        directory: Path,
        broker_settings: dict[str, str] | None = None,
        more_java: Sequence[str] = (),
    ) -> None:
        """`more_java`: options of the virtual machine."""
        self._directory = directory
        self._more_java = more_java
        self._ports = free_ports(2)
        super().__init__(f"127.0.0.1:{self._ports[0]}")
        self._more = broker_settings or {}
        self._watcher = AdminClient(self.client_settings())
        self._process: subprocess.Popen[bytes] | None = None
        # The kernel ends the broker with the *thread* that began it: so it must be one that stays,
        # or a test that restarts the broker from a thread of its own would lose it again.
        self._starter = ThreadPoolExecutor(1, "broker-starter")

    def __enter__(self) -> RealKafka:
        try:
            self._format()
            self.start()
        except BaseException:
            self._end()  # `with` calls no __exit__ for what was never entered
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    @property
    def pid(self) -> int | None:
        """The broker's process id while it runs."""
        return self._process.pid if self._process else None

    def start(self) -> None:
        """Returns when the broker answers clients; fails with its log where it does not."""
        if self._process is not None:
            raise AssertionError("the broker runs already")
        self._process = self._starter.submit(self._spawn).result()
        wait_until(self._answers, "the broker answers", self.log_tail)

    def stop(self) -> None:
        """SIGTERM: an orderly end, as in a rolling restart."""
        if self._process is not None:
            self._process.terminate()
            self._gone()

    def kill(self) -> None:
        """SIGKILL: no orderly end."""
        if self._process is not None:
            self._process.kill()
            self._gone()

    def restart(self) -> None:
        """Killed, and started again with the same data at the same address."""
        self.kill()
        self.start()

    def corrupt(self, topic: str, partition: int, offset: int) -> None:
        """While it is stopped: one byte of the batch that begins at `offset` changes on disk.

        It is one of the last record's value: the batch's checksum is wrong, and nothing else.
        """
        (path,) = (self._data / f"{topic}-{partition}").glob("*.log")
        log = bytearray(path.read_bytes())
        place, found, length = 0, -1, 0
        while found != offset:
            place += length
            found, length = struct.unpack_from(">qi", log, place)
            length += struct.calcsize(">qi")
        log[place + length - 2] ^= 1
        path.write_bytes(log)

    def truncate(self, topic: str, partition: int, end: int) -> None:
        """After `kill`: what a power failure does. Nothing from `end` on is in the log any more.

        `end` is where a batch begins, in the only segment. The broker makes the indexes again.
        """
        directory = self._data / f"{topic}-{partition}"
        (path,) = directory.glob("*.log")
        log, place = path.read_bytes(), 0
        while struct.unpack_from(">q", log, place)[0] != end:
            place += struct.calcsize(">qi") + struct.unpack_from(">qi", log, place)[1]
        path.write_bytes(log[:place])
        for made_again in (*directory.glob("*index"), *directory.glob("*.snapshot")):
            made_again.unlink()

    def _end(self) -> None:
        self.kill()
        self._starter.shutdown()

    def _gone(self) -> None:
        if self._process is not None:
            self._process.wait(PATIENCE_S)
            self._process = None

    def _answers(self) -> bool:
        if self._process is None or self._process.poll() is not None:
            raise AssertionError(f"the broker ended by itself\n{self.log_tail()}")
        try:
            return bool(self._watcher.list_topics(timeout=0.5).brokers)
        except KafkaException:
            return False

    def _spawn(self) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as log:
            return subprocess.Popen(
                dying_with_parent.guarded(*self._java("kafka.Kafka", str(self._config))),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                process_group=0,  # Ctrl-C is for pytest, which then ends the broker in its turn
            )

    def _format(self) -> None:
        """Gives it empty storage: a copy of what Kafka's own tool made once."""
        if not _FORMATTED.is_dir():
            with TemporaryDirectory(dir=CACHE, prefix="formatted-") as unfinished:
                self._write_config(Path(unfinished))
                arguments = ("format", "--cluster-id", _CLUSTER_ID, "--config", str(self._config))
                command = self._java("kafka.tools.StorageTool", *arguments)
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                if done.returncode:
                    raise AssertionError(f"the broker's storage: {done.stdout}{done.stderr}")
                publish(Path(unfinished), _FORMATTED)
        self._write_config(self._data)
        shutil.copytree(_FORMATTED, self._data, dirs_exist_ok=True)

    def _write_config(self, data: Path) -> None:
        settings = self._settings() | {"log.dirs": str(data)}
        self._directory.mkdir(parents=True, exist_ok=True)
        self._config.write_text("".join(f"{k}={v}\n" for k, v in settings.items()))

    def _java(self, main_class: str, *arguments: str) -> list[str]:
        classes = [f"-XX:SharedArchiveFile={_CLASSES}"] if _CLASSES.is_file() else []
        java = [kafka_jars.java(), *_JVM, *_AN_OLD_ARCHIVE_IS_IGNORED, *classes, *self._more_java]
        return [*java, "-cp", f"{kafka_jars.directory()}/*", main_class, *arguments]

    def _settings(self) -> dict[str, str]:
        clients, controller = self._ports
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listeners": f"PLAINTEXT://127.0.0.1:{clients},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{clients}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
            **_QUICK,
            **self._more,
        }

    @property
    def _data(self) -> Path:
        return self._directory / "data"

    @property
    def _config(self) -> Path:
        return self._directory / "server.properties"

    @property
    def _log(self) -> Path:
        return self._directory / "broker.log"

    def log_tail(self) -> str:
        """The end of what it has logged, below the path of the file."""
        return f"{self._log}:\n{self._log.read_text(errors='replace')[-3000:]}"


def archive_classes() -> None:
    """Keeps a broker's loaded classes in the cache, for all that begin after it, if not there."""
    if _CLASSES.is_file():
        return
    with TemporaryDirectory(dir=CACHE, prefix="classes-") as unfinished:
        made = Path(unfinished) / "classes.jsa"
        with RealKafka(Path(unfinished), more_java=[f"-XX:ArchiveClassesAtExit={made}"]) as broker:
            broker.stop()
        made.rename(_CLASSES)


def free_ports(count: int) -> list[int]:
    # Below the range that systems take for outgoing connections: a client that tries to reach a
    # stopped broker's port would else take that very port itself some day, and connect to itself.
    free: list[int] = []
    for port in random.sample(range(20_000, 32_000), 200):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) and len(free) < count:
                free.append(port)
    return free
