"""Every guarantee holds in the short form of each layer."""

import pytest

from tests.real_kafka import RealKafka
from tests.torture.__main__ import how_to_replay, summary
from tests.torture.layer import Layer, Tally
from tests.torture.layers import LAYERS


@pytest.mark.parametrize(
    "layer", [pytest.param(layer, id=layer.name) for layer in LAYERS if layer.short]
)
def test_nothing_breaks(layer: Layer, request: pytest.FixtureRequest) -> None:
    """No seed of the short form breaks a guarantee, and none is left out."""

    def broker() -> RealKafka:
        kafka: RealKafka = request.getfixturevalue("kafka")
        return kafka

    tally = Tally()
    for part in layer.run(0, layer.short, broker):
        tally.add(part)
    request.node.user_properties.append(("torture", summary(layer, 0, tally)))
    if tally.failures:
        pytest.fail(how_to_replay(layer, tally), pytrace=False)
    assert tally.done >= layer.short
