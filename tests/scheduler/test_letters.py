"""The dead letter of a message that the scheduler does not send."""

from dataclasses import asdict, replace

from linear_retry.records.dead_letter import FailureInfo, parse, to_dead_letter
from linear_retry.records.lineage import Hop, Line, lineage_of
from linear_retry.records.record import Record
from linear_retry.scheduler.letters import DRAINED, dead_letter
from linear_retry.store.records import StoredMessage
from tests.store.contents import new_message


def test_what_was_replayed_and_is_drained_is_another_letter() -> None:
    """Its letter had the generation of the one that was replayed, which counts as dealt with: no
    replay sent it, and a purge deleted it."""
    record = Record("orders", 3, 7, 1_767_225_600_000, b"key", b"value", ())
    failure = FailureInfo(
        *("billing", "transient", 2, 1_767_225_600_000, 1_767_225_601_000, "retries@1"),
        hop=Hop("billing.scheduled", 1, "retries@1", 2**41),
    )
    replayed = replace(lineage_of(record, Line("billing")), replay_id="again", replay_count=1)
    headers = tuple(to_dead_letter(record, failure, replayed).headers())
    new = asdict(new_message(headers=headers))
    waiting = StoredMessage(**new, id=1, lane_id=1, stored_ms=0)
    drained = dead_letter(waiting, "orders.dlq", DRAINED, due_ms=2**41)
    found = parse(drained.headers, drained.key, drained.value)
    assert (replayed.retry_id, 2, None) == (found.retry_id, found.generation, found.replay_id)
