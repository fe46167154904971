"""docs/about/reliability.md names what there is."""

import re
import tomllib

from tests.docs.markdown import ROOT, code, page, table
from tests.rules.rule import LISTS
from tests.torture.layers import LAYERS

_PAGE = page("docs/about/reliability.md")


def test_every_layer_is_in_the_table() -> None:
    """With its own amounts, where those are numbers of its unit."""
    rows = {code(row[0])[0]: row for row in table(_PAGE, "layer")}
    assert {layer.name for layer in LAYERS} == set(rows)
    for layer in LAYERS:
        if layer.name != "exhaustive":  # a depth
            assert f"{layer.short:,} {layer.unit}" == rows[layer.name][2]
            assert rows[layer.name][3].startswith(f"{layer.long:,}")


def test_the_rules_are_counted() -> None:
    """There are more than the page promises, and none has gone since its measurement."""
    listed = sum(len(tomllib.loads(path.read_text("utf-8"))) for path in LISTS.glob("*.toml"))
    (bound,) = re.findall(r"More than (\d+) of them are listed", _PAGE)
    (measured,) = re.findall(r"Measured when (\d+) were listed", _PAGE)
    assert int(measured) <= listed
    assert int(bound) < listed


def test_what_is_run_is_there() -> None:
    """Each target of make."""
    makefile = (ROOT / "Makefile").read_text("utf-8")
    targets = {word.split()[1] for word in code(_PAGE) if word.startswith("make ")}
    assert {"torture", "rules", "soak", "test"} <= targets
    assert [] == [name for name in targets if f"\n{name}:" not in makefile]
