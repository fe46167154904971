"""Writes the generated tables into the pages: `python -m docs.generators`."""

from docs.generators.content import written
from docs.generators.root_pages import ROOT

for path in ROOT.glob("docs/**/*.md"):
    page = path.read_text("utf-8")
    if page != (now := written(page)):
        path.write_text(now, "utf-8")
