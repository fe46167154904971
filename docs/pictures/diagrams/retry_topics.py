"""Draws the way of a message off the line: retry topics, then done or dead letters."""

from docs.pictures.diagrams.drawing import Drawing

_TOPICS = (
    (150, "orders.billing\n.retry.5m", "steps 1 and 2"),
    (300, "orders.billing\n.retry.30m", "steps 3, 4 and 5"),
    (450, "orders.billing\n.retry.1h", "step 6"),
)
_DUE_Y = 236.0


def retry_topics() -> Drawing:
    """The live line, three retry topics, the retry line, and the ends of a message."""
    drawing = Drawing("A message's way off the line", 760, 404)
    drawing.box((24, 32), (90, 44), "orders")
    drawing.arrow(((114, 54), (148, 54)))
    drawing.box((150, 32), (120, 44), "live line:\nin order", "held")
    drawing.arrow(((270, 54), (622, 54)))
    drawing.text((446, 42), "handled", "small", "middle")
    drawing.box((624, 32), (112, 44), "done", "done")
    drawing.arrow(((210, 76), (210, 140)))
    drawing.text((220, 108), "its delays are over: it leaves the line, by step 1", "small")
    _waits(drawing)
    _retry_line(drawing)
    return drawing


def _waits(drawing: Drawing) -> None:
    for x, topic, steps in _TOPICS:
        drawing.box((x, 142), (120, 44), topic, "open")
        drawing.text((x + 66, 204), steps, "small")
        drawing.line(((x + 60, 186), (x + 60, _DUE_Y)))
    drawing.line(((_TOPICS[0][0] + 60, _DUE_Y), (_TOPICS[-1][0] + 60, _DUE_Y)))
    drawing.arrow(((360, _DUE_Y), (360, 268)))
    drawing.text((370, 253), "each when its topic's delay is over", "small")


def _retry_line(drawing: Drawing) -> None:
    drawing.box((300, 270), (120, 44), "retry line", "held")
    drawing.arrow(((420, 292), (680, 292), (680, 78)))
    drawing.text((550, 281), "handled", "small", "middle")
    drawing.arrow(((300, 292), (69, 292), (69, 164), (148, 164)))
    drawing.text((184, 281), "fails: to the topic of its next step", "small", "middle")
    drawing.arrow(((360, 314), (360, 346)))
    drawing.text((370, 331), "fails after the last step, or permanently", "small")
    drawing.box((300, 348), (120, 40), "dead letters", "failed")
