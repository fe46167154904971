"""The metrics of an instance are those of any service that an API is beside."""

from linear_retry.consumer.linear_consumer import LinearConsumer
from linear_retry.scheduler.http import ServiceMetrics
from linear_retry.store.records import Service


class _Spare:
    """A service that is neither of ours, with a consumer that has not begun."""

    name: Service = "scheduler"
    sent = 7

    def __init__(self) -> None:
        config = {"bootstrap.servers": "127.0.0.1:9", "group.id": "spare"}
        self.intake = LinearConsumer(
            config, ["billing.scheduled"], strategy=[1], transient=OSError, dead_letters="lost"
        )

    def not_alive(self) -> str | None:
        return None

    def not_ready(self) -> str | None:
        return None


def test_any_service_shows_its_intake() -> None:
    """Beside what it has sent, whatever its class is."""
    found = {
        (sample.name, sample.labels.get("group")): sample.value
        for family in ServiceMetrics(_Spare()).collect()
        for sample in family.samples
    }
    assert 7 == found["linear_retry_store_sent_total", None]
    assert "spare" in {group for _, group in found}
