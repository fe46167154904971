"""What does Hypothesis draw from these bytes? A seed's bytes, so that a seed is an example."""

from __future__ import annotations

from typing import Any


def fuzz_one_input(test: Any, content: bytes) -> None:
    """Run a `@given` function once. Bytes that are too few for an example are none.

    Raises what the function raises.
    """
    test.hypothesis.fuzz_one_input(content)
