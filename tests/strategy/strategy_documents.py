"""Strategy files, sound and nearly sound, for Hypothesis to draw."""

import re
from typing import Any

from hypothesis import strategies as st

texts = st.text(st.characters(exclude_categories=()), max_size=8)
numbers = (
    st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.floats(0, 604_801)
    | st.sampled_from([0, -0.0, 1, 1.0, 2.5, 1000, 1001, 1001.0, 604_800, 604_800.0001, -1, 1e308])
)
durations = (
    st.from_regex(r"([0-9]{1,10}(\.[0-9]{1,3})?(h|m|s|ms|d|)){0,3}\n?", fullmatch=True)
    | st.sampled_from(
        [
            "168h",
            "7d",
            "7d1ms",
            "1d12h",
            "2h1d",
            "1h30m",
            "5m1h",
            "168h1ms",
            "1.5s",
            "-1s",
            "",
            "٣s",
            "5m\n",
            "1s ",
        ]
    )
    | texts
)
scalars = st.none() | st.booleans() | numbers | durations
junk = scalars | st.lists(scalars, max_size=2) | st.dictionaries(texts, scalars, max_size=2)


@st.composite
def objects(draw: st.DrawFn, good: dict[str, st.SearchStrategy[Any]]) -> dict[str, Any]:
    """An object with these keys; half of them with one value, or one key, that is something else.

    One mistake at a time: an object with several would be refused whatever the schema says of each.
    """
    drawn = {key: draw(values) for key, values in good.items()}
    mistake = draw(st.sampled_from(["none", "none", "none", "value", "missing", "extra"]))
    key = draw(st.sampled_from(sorted(good)))
    if mistake == "value":
        drawn[key] = draw(junk)
    elif mistake == "missing":
        del drawn[key]
    elif mistake == "extra":
        drawn[draw(st.sampled_from(["evrey", "every", "times", "max"]) | texts)] = draw(junk)
    return drawn


good_durations = st.from_regex(
    r"(?=[0-9])([0-6]d)?([0-9]{1,2}h)?([0-9]{1,3}m)?([0-9]{1,3}s)?([0-9]{1,3}(\.[0-9]{1,9})?ms)?",
    fullmatch=True,
)
good_waits = st.integers(0, 604_800) | st.floats(0, 604_800) | good_durations
good_counts = st.integers(1, 400) | st.sampled_from([1.0, 1000, 1000.0])
good_factors = st.floats(1, 3) | st.floats(1, allow_infinity=False, allow_nan=False)
every = objects({"every": good_waits, "times": good_counts})
growth = objects(
    {"initial": good_waits, "factor": good_factors, "max": good_waits, "times": good_counts}
)
good_limits = (
    st.none()
    | st.floats(0, 604_800, exclude_min=True)
    | good_durations.filter(re.compile("[1-9]").search)
    | st.sampled_from(["1ms", "0.1ms", "7d", "0s", "0.0h", 0, 5e-324])
)
filling = objects({"initial": good_limits, "within": good_waits, "times": good_counts})
good_elements = good_waits | every | objects({"exponential": growth | filling})
arrays = st.lists(good_elements, max_size=3) | st.lists(good_elements | junk, max_size=3)
long_forms = objects(
    {
        "delays": arrays,
        "jitter": st.floats(0, 1),
        "max_elapsed": good_limits,
        "description": texts,
    }
)
documents = arrays | long_forms | objects({"delays": arrays}) | junk
