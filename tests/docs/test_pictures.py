"""The pictures of the documentation are those that its scripts draw."""

import xml.etree.ElementTree as ET
from collections.abc import Callable

import pytest

from docs.pictures.__main__ import DIAGRAMS, FOLDER
from docs.pictures.demo import PICTURE
from docs.pictures.diagrams.drawing import Drawing


@pytest.mark.parametrize("draw", DIAGRAMS, ids=lambda draw: draw.__name__)
def test_a_diagram_is_current(draw: Callable[[], Drawing]) -> None:
    """If it fails: python -m docs.pictures."""
    kept = (FOLDER / f"{draw.__name__}.svg").read_text("utf-8")
    assert draw().svg() == kept
    assert "svg" in ET.fromstring(kept).tag


def test_there_is_no_other_picture() -> None:
    """One that no script draws could not be changed."""
    drawn = {draw.__name__ for draw in DIAGRAMS} | {PICTURE.stem}
    assert drawn == {path.stem for path in FOLDER.glob("*.svg")}
