"""Draws a message's life: every path from the topic to its end."""

from docs.pictures.diagrams.drawing import Drawing


def message() -> Drawing:
    """The handler, its outcomes, and the committed offset."""
    drawing = Drawing("A message's life", 760, 404)
    drawing.box((24, 32), (100, 44), "message")
    drawing.arrow(((124, 54), (170, 54)))
    drawing.box((172, 32), (110, 44), "handler", "held")
    drawing.arrow(((282, 54), (578, 54)))
    drawing.text((430, 42), "returns", "small", "middle")
    drawing.box((580, 32), (156, 44), "done:\nits offset is committed", "done")
    _failures(drawing)
    _dead_letter(drawing)
    return drawing


def _failures(drawing: Drawing) -> None:
    drawing.line(((206, 76), (206, 258)))
    drawing.text((180, 96), "raises", "small", "middle")
    drawing.arrow(((206, 138), (318, 138)))
    drawing.text((262, 118), "transient,\na delay is left", "small", "middle")
    drawing.box((320, 112), (230, 52), "circuit open: the scope paused,\nthe message held", "open")
    drawing.arrow(((436, 112), (436, 90), (248, 90), (248, 78)))
    drawing.text((498, 92), "at retry_at, only it", "small", "middle")
    drawing.arrow(((206, 200), (318, 200)))
    drawing.text((262, 181), "transient,\nnone is left", "small", "middle")
    drawing.box((320, 178), (230, 44), _choices("on_exhausted", "repeat"), "failed")
    drawing.arrow(((206, 258), (318, 258)))
    drawing.text((262, 247), "permanent", "small", "middle")
    drawing.box((320, 236), (230, 44), _choices("on_permanent", "skip"), "failed")
    drawing.line(((550, 200), (580, 200), (580, 258), (550, 258)))


def _choices(parameter: str, other: str) -> str:
    return f'{parameter}="dead-letter",\nor "{other}", or "stop"'


def _dead_letter(drawing: Drawing) -> None:
    drawing.arrow(((580, 258), (580, 308)))
    drawing.box((490, 310), (150, 44), "dead letter sent", "failed")
    drawing.arrow(((640, 332), (704, 332), (704, 78)))
    drawing.text((700, 348), "acknowledged", "small", "middle")
    drawing.arrow(((490, 332), (350, 332)))
    drawing.text((420, 321), "refused", "small", "middle")
    drawing.box(
        (108, 306), (240, 52), "circuit open: its delivery is\nretried, not the handler", "open"
    )
    drawing.arrow(((228, 358), (228, 384), (580, 384), (580, 356)))
    drawing.text((404, 375), "after 1, 2, 5, 10, 10 ... s", "small", "middle")
