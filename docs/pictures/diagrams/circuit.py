"""Draws the circuit over time: two failures of one message, and its success."""

from docs.pictures.diagrams.drawing import Drawing, Kind

_ATTEMPTS: tuple[tuple[int, str, Kind], ...] = (
    (120, "40", "done"),
    (158, "41", "done"),
    (196, "42", "failed"),
    (312, "42", "failed"),
    (560, "42", "done"),
    (598, "43", "done"),
    (636, "44", "done"),
    (674, "45", "done"),
)
_STATES: tuple[tuple[int, int, str, Kind], ...] = (
    (120, 230, "closed", "done"),
    (230, 312, "open", "open"),
    (312, 346, "", "held"),
    (346, 560, "open", "open"),
    (560, 594, "", "held"),
    (594, 716, "closed", "done"),
)
_READING: tuple[tuple[int, int, str, Kind], ...] = (
    (120, 230, "read", "done"),
    (230, 594, "paused, but polled: the member stays in its group", "open"),
    (594, 716, "read", "done"),
)


def circuit() -> Drawing:
    """Attempts, the circuit's states, and what is read meanwhile, on one axis of time."""
    drawing = Drawing("The circuit over time", 760, 290)
    for y, name in ((52, "handler"), (122, "circuit"), (192, "partitions")):
        drawing.text((24, y), name, "strong")
    for x, offset, kind in _ATTEMPTS:
        drawing.box((x, 36), (34, 32), offset, kind)
    for start, end, name, kind in _STATES:
        drawing.box((start, 106), (end - start, 32), name, kind)
    drawing.text((329, 152), "half-open", "small", "middle")
    drawing.text((577, 152), "half-open", "small", "middle")
    for start, end, text, kind in _READING:
        drawing.box((start, 176), (end - start, 32), text, kind)
    for start, end, delay in ((230, 312, "1 s"), (346, 560, "5 s")):
        drawing.arrow(((start, 52), (end - 3, 52)), "dashed")
        drawing.text(((start + end) / 2, 40), delay, "small", "middle")
    drawing.time_axis(120, 716, 236)
    drawing.text((24, 268), "strategy [1, 5, ...]; the numbers are offsets", "small")
    return drawing
