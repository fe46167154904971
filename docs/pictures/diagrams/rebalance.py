"""Draws a rebalance while a circuit is open: what moves, and what stays."""

from docs.pictures.diagrams.drawing import Drawing


def rebalance() -> Drawing:
    """Member A loses the partition of the held message; member B takes it over."""
    drawing = Drawing("A rebalance while a circuit is open", 760, 330)
    drawing.text((24, 34), "member A", "strong")
    drawing.text((24, 72), "orders[0]")
    drawing.text((24, 116), "orders[1]")
    drawing.line(((320, 40), (320, 284)), "dashed")
    drawing.text((320, 30), "rebalance", "small", "middle")
    drawing.arrow(((320, 72), (356, 72), (356, 220)))
    drawing.text((366, 72), "revoked: its failures are committed with 42", "small")
    drawing.box((110, 56), (60, 32), "42", "failed")
    drawing.box((170, 56), (150, 32), "42 held", "held")
    drawing.box((170, 100), (380, 32), "paused: the circuit is A's, and stays open", "open")
    drawing.box((110, 100), (60, 32), "7", "done")
    drawing.box((550, 100), (60, 32), "8", "held")
    drawing.box((610, 100), (126, 32), "9, 10, ...", "done")
    drawing.text((580, 146), "probe,", "small", "middle")
    drawing.text((580, 162), "from retry_at of A", "small", "middle")
    drawing.text((24, 186), "member B", "strong")
    drawing.text((24, 238), "orders[0]")
    drawing.box((330, 222), (210, 32), "42 held", "held")
    drawing.box((540, 222), (60, 32), "42", "done")
    drawing.box((600, 222), (136, 32), "43, 44, ...", "done")
    drawing.text((435, 268), "until retry_at of A", "small", "middle")
    drawing.time_axis(110, 736, 300)
    return drawing
