"""docs/reference/ says what the code says, where it is not generated."""

import ast
import dataclasses
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from docs.generators.acls import acls
from docs.generators.commands import commands, exit_codes
from docs.generators.content import filled, written
from docs.generators.docstrings import in_rst, readable
from docs.generators.events import events
from docs.generators.root_pages import PAGES, root_page
from linear_retry import (
    ConfigurationError,
    DeadLetters,
    LinearConsumer,
    Recovery,
    RetryTopics,
    Scheduler,
    Strategy,
    errors,
)
from linear_retry.kafka.consumer.settings import consumer_settings
from tests.docs.markdown import ROOT, blocks, code, links, page, table

_SETTINGS = page("docs/reference/settings.md")
_CONFIG = {"bootstrap.servers": "localhost:9092", "group.id": "billing"}
_REQUIRED = inspect.Parameter.empty


def _defaults(head: str) -> dict[str, Any]:
    """The first two columns of a table: names with their defaults."""
    return {
        code(name)[0]: _REQUIRED if default == "required" else ast.literal_eval(code(default)[0])
        for name, default, _ in table(_SETTINGS, head)
    }


def test_every_parameter_is_there() -> None:
    """Those of LinearConsumer, in their order, with their defaults."""
    parameters = inspect.signature(LinearConsumer).parameters.items()
    public = {name: one.default for name, one in parameters if not name.startswith("_")}
    assert list(public.items()) == list(_defaults("parameter").items())


def test_every_setting_of_dead_letters_is_there() -> None:
    """In their order, with their defaults."""
    settings = DeadLetters("orders.dlq")
    values = {field.name: getattr(settings, field.name) for field in dataclasses.fields(settings)}
    assert values | {"topic": _REQUIRED} == _defaults("dead-letter setting")
    assert [*values] == [*_defaults("dead-letter setting")]


def test_every_setting_of_retry_topics_is_there() -> None:
    """In their order, with their defaults; of a recovery, too."""
    for head, kind in (
        ("setting of retry topics", RetryTopics),
        ("setting of a scheduler", Scheduler),
        ("setting of a recovery", Recovery),
    ):
        parameters = inspect.signature(kind).parameters.items()
        assert {name: one.default for name, one in parameters} == _defaults(head)
        assert [name for name, _ in parameters] == [*_defaults(head)]


def test_the_code_of_the_settings_runs() -> None:
    """The page's predicate and dead letters make a consumer."""
    names: dict[str, Any] = {}
    for block in blocks(_SETTINGS, "python"):
        exec(block, names)
    assert names["transient"](OSError("deadlock detected"))
    assert "reference" == names["dead_letters"].oversized


@pytest.mark.parametrize("row", table(_SETTINGS, "key"), ids=lambda row: row[0])
def test_our_keys_are_set(row: list[str]) -> None:
    """librdkafka gets the keys of the table."""
    reported = code(row[1])[0]
    assert reported == str(consumer_settings(_CONFIG).config[code(row[0])[0]]).lower()


@pytest.mark.parametrize("row", table(_SETTINGS, "refused"), ids=lambda row: row[0])
def test_refused_keys_are_refused(row: list[str]) -> None:
    """And the error names the key."""
    (setting,) = code(row[0])
    with pytest.raises(ConfigurationError, match=re.escape(setting.partition("=")[0])):
        _consumer(setting)


@pytest.mark.parametrize("row", table(_SETTINGS, "warned about"), ids=lambda row: row[0])
def test_dubious_keys_are_warned_about(row: list[str]) -> None:
    """And the warning names the setting."""
    (setting,) = code(row[0])
    with pytest.warns(UserWarning, match=re.escape(setting)):
        _consumer(setting)


def _consumer(setting: str) -> LinearConsumer:
    key, _, value = setting.partition("=")
    config = _CONFIG | {key: {"true": True, "false": False}.get(value, value)}
    return LinearConsumer(
        config, ["orders"], strategy=Strategy([1]), transient=OSError, dead_letters="orders.dlq"
    )


def test_every_error_is_there() -> None:
    """The table has every error of the tree, and no other."""
    tree = [
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, Exception) and not name.startswith("_")
    ]
    reported = [code(row[0])[0] for row in table(page("docs/reference/errors.md"), "error")]
    assert sorted(tree) == sorted(reported)


@pytest.mark.parametrize(
    ("make", "head"), [(events, "event"), (exit_codes, "exit code"), (acls, "for")]
)
def test_generated_tables_are_whole(make: Callable[[], str], head: str) -> None:
    """No cell of what is made from the code is empty."""
    rows = table(make(), head)
    assert rows
    assert [] == [row for row in rows if not all(row)]


@pytest.mark.parametrize("path", sorted(ROOT.glob("docs/**/*.md")), ids=lambda path: path.stem)
def test_a_page_reads_where_nobody_builds_the_site(path: Path) -> None:
    """Strategies, Examples, Performance and the reference were blank on a forge.

    Tables that differ from the code are written anew by `python -m docs.generators`.
    """
    text = path.read_text("utf-8")
    assert [] == re.findall(
        r"^```\{(?:generated|root-page)\}.*|^\.\. automodule.*", text, re.MULTILINE
    )
    assert text.count("<!-- {") == text.count("<!-- end -->")
    assert [] == re.findall(r"^<!-- \{.*-->\s*<!-- end -->", text, re.MULTILINE)
    assert written(text) == text, "run: python -m docs.generators, and commit what it writes"


def test_the_site_has_the_content_itself() -> None:
    """In place of the link that a forge shows."""
    shown = filled("<!-- {automodule} linear_retry.dlq; no-index: -->\n[it](x)\n<!-- end -->\nmore")
    expected = "```{eval-rst}\n.. automodule:: linear_retry.dlq\n   :no-index:\n```\nmore"
    assert expected == shown
    page = filled("<!-- {root-page} VERSIONING.md -->\n[it](x)\n<!-- end -->\n")
    assert (True, False) == ("## " in page, "[it]" in page)


def test_every_command_is_described() -> None:
    """Under a heading of its own, with its options, and its example as code."""
    text = commands()
    headings = re.findall(r"^#{2,3} `(.+)`$", text, re.MULTILINE)
    assert {"linear-retry dlq replay", "linear-retry watch"} <= set(headings)
    assert len(headings) == len(set(headings))
    examples = [line for block in blocks(text, "sh") for line in block.splitlines()]
    assert [] == [line for line in examples if not line.startswith("linear-retry ")]
    assert "| `-F`, `--config FILE` | librdkafka" in text


@pytest.mark.parametrize("name", sorted(PAGES))
def test_links_of_a_page_from_the_root_lead_somewhere(name: str) -> None:
    """Also where the site shows it, in another folder."""
    local = [link for link in links(root_page(name)) if not link.startswith(("https://", "#"))]
    files = [link.partition("#")[0].lstrip("/") for link in local]
    lost = [file for file in files if not (ROOT / "docs" / file).exists()]
    assert [] == lost


def test_docstrings_are_fitted_to_sphinx() -> None:
    """Code between single backticks becomes code, and what only tests pass is left out."""
    lines = ["`run` ends on ``stop``,", "or where `iter(consumer)` ends."]
    in_rst(lines)
    assert ["``run`` ends on ``stop``,", "or where ``iter(consumer)`` ends."] == lines
    signature = "(config: Mapping, *, control: str | None = None, _dependencies: X | None = None)"
    fitted = "(config: Mapping, *, control: str | None = None)"
    assert fitted == readable(signature)
    assert "(config: Mapping = ...)" == readable("(config: Mapping = <factory>)")
