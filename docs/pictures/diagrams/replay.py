"""Draws a message that is dead-lettered and replayed twice, with its generations."""

from docs.pictures.diagrams.drawing import Drawing, Kind

_SOURCE: tuple[tuple[int, int, str, Kind], ...] = (
    (110, 46, "41", "done"),
    (160, 46, "42", "failed"),
    (210, 46, "43", "done"),
    (260, 46, "...", "done"),
    (374, 46, "97", "failed"),
    (424, 46, "...", "done"),
    (590, 52, "105", "done"),
    (646, 46, "...", "done"),
)


def replay() -> Drawing:
    """The source topic, the dead-letter topic and the resolutions topic."""
    drawing = Drawing("Replay and generations", 760, 330)
    for y, name in ((58, "orders"), (166, "orders.dlq"), (252, "orders.dlq\n.resolved")):
        drawing.text((24, y), name, "strong")
    for x, width, offset, kind in _SOURCE:
        drawing.box((x, 40), (width, 36), offset, kind)
    for x, generation in ((130, 1), (350, 2)):
        drawing.box((x, 142), (130, 48), f"same retry-id,\ngeneration {generation}", "failed")
    drawing.arrow(((183, 76), (183, 140)))
    drawing.text((192, 108), "dead-lettered", "small")
    drawing.arrow(((397, 76), (397, 140)))
    drawing.text((406, 108), "dead-lettered again", "small")
    drawing.arrow(((260, 166), (310, 166), (310, 100), (385, 100), (385, 78)))
    drawing.text((301, 182), "replay", "small", "middle")
    drawing.arrow(((480, 166), (616, 166), (616, 78)))
    drawing.text((548, 156), "replay", "small", "middle")
    drawing.text((626, 108), "handled", "small")
    for x, generation in ((230, 1), (480, 2)):
        drawing.box((x, 234), (170, 36), f"retry-id#{generation}: replayed", "held")
        drawing.line(((x + 70, 184 if generation == 1 else 168), (x + 70, 234)), "dashed")
    drawing.time_axis(110, 736, 300)
    return drawing
