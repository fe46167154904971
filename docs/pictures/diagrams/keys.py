"""Draws one partition whose keys are lanes: one of them waits, and the others pass."""

from docs.pictures.diagrams.drawing import Drawing, Kind

_OFFSETS = ("40 A", "41 B", "42 C", "43 B", "44 A", "45 C", "46 A", "47 B")
_LANES: tuple[tuple[str, tuple[tuple[str, Kind], ...], str], ...] = (
    ("A", (("40", "done"), ("44", "done"), ("46", "plain")), "continues"),
    ("B", (("41", "failed"), ("43", "held"), ("47", "held")), "41 is held until its retry_at"),
    ("C", (("42", "done"), ("45", "done")), "continues"),
)
_BOX = 62


def keys() -> Drawing:
    """A failure of key B, in a partition with messages of three keys."""
    drawing = Drawing("One key waits, and the others pass", 760, 300)
    drawing.text((24, 46), "orders[0]", "strong")
    for number, name in enumerate(_OFFSETS):
        kind: Kind = "open" if name.endswith("B") else "plain"
        drawing.box((120 + number * (_BOX + 12), 30), (_BOX, 32), name, kind)
    drawing.arrow(((380, 74), (380, 104)))
    for row, (key, messages, said) in enumerate(_LANES):
        y = 116 + row * 48
        drawing.text((24, y + 16), f"key {key}", "strong")
        for number, (offset, state) in enumerate(messages):
            drawing.box((120 + number * (_BOX + 12), y), (_BOX, 32), offset, state)
        drawing.text((372, y + 16), said, "small")
    drawing.text(
        (380, 272),
        "Committed is 41, with a note: up to 46 all is done, but key B from 41 on.",
        "small",
        "middle",
    )
    return drawing
