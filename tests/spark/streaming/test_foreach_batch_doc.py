"""The code and the claims of docs/spark/foreach-batch.md are true."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from linear_retry.demo.service import Outage, PaymentService
from tests.conftest import TopicFactory
from tests.docs.markdown import blocks, page
from tests.real_kafka import RealKafka


@pytest.mark.broker
def test_the_code_works(
    spark: SparkSession, kafka: RealKafka, topic: TopicFactory, tmp_path: Path
) -> None:
    """With the service down for a moment, all is charged, and nothing is a dead letter."""
    orders, letters = topic(), topic()
    written = kafka.produce(
        orders, [(0, None, b'{"order": "%d"}' % number, ()) for number in range(3)]
    )
    (python,) = blocks(page("docs/spark/foreach-batch.md"), "python")
    with PaymentService((Outage(1, "refused", 0.5),), frozenset()) as service:
        for name, here in (
            ("localhost:9092", kafka.bootstrap),
            ('"orders"', f'"{orders}"'),
            ("orders.dlq", letters),
            ("http://localhost:8000", service.url),
            ("checkpoints/charge", str(tmp_path)),
            # The page's program has no end of its own.
            (
                "query.awaitTermination()",
                "query.processAllAvailable(); query.stop(); charges.close()",
            ),
        ):
            assert name in python
            python = python.replace(name, here)
        exec(compile(python, "foreach-batch.md", "exec"), {})
        charged = {(0, int(each.order_id)) for each in service.receipts}
    assert set(written) == charged
    assert [] == kafka.read(letters)
