"""The section on proposed delays, and the table of what to run for each group."""

import shlex
from typing import Any

from linear_retry.report.section import (
    NOTHING,
    Column,
    Grid,
    Row,
    Section,
    Tables,
    between,
    count,
    count_column,
    counted,
    duration,
    percent,
    printable,
    records,
    shown,
    signed,
    text_column,
)

_PROPOSED = "proposed"


def section(tables: Tables) -> list[Section]:
    """Returns the section, if any group has outages with known bounds."""
    rows = _rows(tables)
    if not rows:
        return []
    first = rows[0]
    return [
        Section(
            "Proposed delays",
            "The delays that would have cost each group least if an attempt costs as much as "
            f"{duration(first['probe_cost_s'])} of waiting, and {percent(first['cover'])} of its "
            "outages must end before the delays do.",
            grids=(Grid.of("Proposed delays of each group", rows, _COLUMNS, "proposals"),),
            notes=(
                "Made from the first two thirds of a group’s outages, and compared with the delays "
                "in the journal on the others. What is saved, of waiting and attempts, is counted "
                "only in outages that both cover. Delays that cover less of the later outages than "
                "was asked are not confirmed: do not use them.",
                *(_gap(row) for row in rows if row["gap_share"] is not None),
            ),
        )
    ]


def to_do(tables: Tables, lake: str) -> Grid | None:
    """Returns a row for each group, those that waste most time first: what to run for it."""
    if "groups" not in tables or tables["groups"].empty:
        return None
    proposals = {row["group"]: row for row in _rows(tables)}
    rows = [
        {**row, "proposal": proposals.get(row["group"]), "lake": lake}
        for row in sorted(records(tables["groups"]), key=lambda row: -row["unsure_s"])
    ]
    return Grid.of("What to do, by group", rows, _TO_DO, "groups")


def _rows(tables: Tables) -> list[Row]:
    return records(tables["proposals"]) if "proposals" in tables else []


def _run(lake: str, row: Row | None) -> str:
    """Returns a command, or the reason why nothing is to be run."""
    if row is None:
        return "nothing yet: no outage has known bounds"
    if row["verdict"] == "too few":
        known = f"{count(row['ended'])} outages have a known end"
        return f"nothing yet: {known}, and it takes {count(row['needed'])}"
    if row["verdict"] == "clocks apart":
        return "nothing yet: the clocks of its members disagree"
    if row["verdict"] == "unreachable":
        return "a longer strategy first: too many outages have no known end"
    if row["verdict"] != _PROPOSED:
        return "nothing yet: the proposal covers too few of the later outages"
    if row["saved_low_s"] is not None and row["saved_low_s"] <= 0:
        return "nothing: the proposed delays save nothing for sure"
    # Not truncated: the command would name another group, or no lake.
    where, group = (shlex.quote(printable(each)) for each in (lake, row["group"]))
    return (
        f"linear-retry spark tune --lake {where} --group {group} "
        f"--probe-cost {row['probe_cost_s']:g} --cover {row['cover']:g} --to strategy.json"
    )


def _saved(row: Row | None) -> str:
    return NOTHING if row is None or row["verdict"] != _PROPOSED else signed(row["saved_s"])


def _saved_surely(row: Row) -> str:
    is_proposed = row["verdict"] == _PROPOSED
    return between(row["saved_low_s"], row["saved_high_s"]) if is_proposed else NOTHING


def _gap(row: Row) -> str:
    where = between(row["gap_from_s"], row["gap_until_s"])
    return (
        f"{percent(row['gap_share'])} of the outages of group {shown(row['group'])} ended "
        f"{where} after the first failure, where it makes no attempt: not knowing when costs up to "
        f"{duration(row['gap_cost_s'])} per outage; attempts after {duration(row['gap_first_s'])} "
        f"and {duration(row['gap_second_s'])} would tell more."
    )


def _delays(row: Row) -> str:
    if row["delays"] is None:
        return NOTHING
    return row["delays"] if row["verdict"] == _PROPOSED else f"{row['delays']} (not confirmed)"


def _covers(name: str) -> Any:
    return lambda row: percent(row[name])


_COLUMNS = (
    text_column("group"),
    Column("made from", lambda row: counted(row["seen"], "outage")),
    Column("delays", _delays, is_number=False),
    Column("end after", lambda row: duration(row["ends_after_s"])),
    Column("now cover", _covers("current_covers")),
    Column("would cover", _covers("covers")),
    Column("saved per outage", _saved),
    Column("95% sure", _saved_surely),
)
_TO_DO = (
    text_column("group"),
    Column("wasted, at most", lambda row: duration(row["unsure_s"])),
    count_column("given up", "given_up"),
    Column("saved per outage", lambda row: _saved(row["proposal"])),
    Column("run", lambda row: _run(row["lake"], row["proposal"]), is_number=False),
)
