"""Spark's client gets what librdkafka's keys mean."""

from pathlib import Path

import pytest

from linear_retry.errors import ConfigurationError
from linear_retry.spark.ingestion.sources import java_keys, librdkafka_keys


def test_a_login_over_tls(tmp_path: Path) -> None:
    """Certificates go as text, and name and password as the Java client wants them."""
    ca = tmp_path / "ca.pem"
    ca.write_text("-----BEGIN")
    config = {
        "bootstrap.servers": "kafka:9093",
        "security.protocol": "SASL_SSL",
        "sasl.mechanisms": "SCRAM-SHA-512",
        "sasl.username": "ann",
        "sasl.password": 'a"b\\c',
        "ssl.ca.location": str(ca),
        "ssl.endpoint.identification.algorithm": "none",
    }
    assert {
        "kafka.bootstrap.servers": "kafka:9093",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.ssl.truststore.certificates": "-----BEGIN",
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.endpoint.identification.algorithm": "",
        "kafka.sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule "
        'required username="ann" password="a\\"b\\\\c";',
    } == java_keys(config)


def test_keys_of_the_java_client() -> None:
    """What begins with `kafka.` goes to Spark as it is, and to nobody else."""
    config = {"bootstrap.servers": "a:1", "kafka.ssl.truststore.location": "/x"}
    assert {"kafka.bootstrap.servers": "a:1", "kafka.ssl.truststore.location": "/x"} == java_keys(
        config
    )
    assert {"bootstrap.servers": "a:1"} == librdkafka_keys(config)


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ({"ssl.crl.location": "/x"}, "'ssl.crl.location' is not known for Spark's Kafka client"),
        ({"ssl.ca.location": "/nowhere"}, "ssl.ca.location: /nowhere cannot be read"),
        ({"sasl.username": "ann"}, "not GSSAPI; for this one write kafka.sasl.jaas.config"),
    ],
)
def test_what_cannot_be_passed_on(config: dict[str, str], text: str) -> None:
    """A key left out might weaken what it secures: it is refused, with the remedy."""
    with pytest.raises(ConfigurationError, match=text):
        java_keys(config)
