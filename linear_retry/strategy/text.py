"""How is an array of delays written as a strategy file?"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import groupby

from linear_retry.files.small import MAX_BYTES, NOT_TEXT
from linear_retry.strategy.delays import duration_text


def text(delays_ms: Sequence[int], description: str) -> str:
    """JSON that `Strategy.load` reads back as these delays, one element on each line.

    Characters that a description may not have are replaced, and a long one is cut.
    """
    elements = ((duration_text(ms), sum(1 for _ in same)) for ms, same in groupby(delays_ms))
    written = [wait if times == 1 else {"every": wait, "times": times} for wait, times in elements]
    lines = ",\n    ".join(json.dumps(element) for element in written)
    shown = json.dumps(NOT_TEXT.sub("\ufffd", description)[: MAX_BYTES // 64])
    return f'{{\n  "description": {shown},\n  "delays": [\n    {lines}\n  ]\n}}\n'
