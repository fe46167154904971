"""Draws what an open circuit pauses, for each scope."""

from docs.pictures.diagrams.drawing import Drawing, Kind

_PARTITIONS = ("orders[0]", "orders[1]", "refunds[0]", "refunds[1]")
_PAUSED = {"consumer": 4, "topic": 2, "partition": 1}


def scopes() -> Drawing:
    """The same failure, orders[0]@42, under each value of `scope`."""
    drawing = Drawing("What an open circuit pauses", 760, 270)
    for column, (scope, paused) in enumerate(_PAUSED.items()):
        left = 24 + column * 244
        drawing.text((left + 112, 28), f'scope="{scope}"', "strong", "middle")
        for row, name in enumerate(_PARTITIONS):
            kind: Kind = "failed" if row == 0 else "open" if row < paused else "done"
            said = "@42 held" if row == 0 else "paused" if row < paused else "continues"
            drawing.box((left, 48 + row * 44), (224, 36), f"{name}: {said}", kind)
    drawing.text(
        (380, 244),
        "One thread runs all handlers: the others wait while a probe is attempted.",
        "small",
        "middle",
    )
    return drawing
