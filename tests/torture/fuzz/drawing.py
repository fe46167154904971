"""Runs a Hypothesis test on a seed's bytes, so that a seed is an example."""

from typing import Any


def fuzz_one_input(test: Any, content: bytes) -> bool:
    """Run a `@given` function once. False: these bytes are too few for an example, nothing was run.

    Raises what the function raises.
    """
    return test.hypothesis.fuzz_one_input(content) is not None
