"""The section on errors that are wrongly treated as transient, or as permanent."""

from collections import Counter

from linear_retry.report.section import (
    FIRST_AND_LAST,
    Grid,
    Row,
    Section,
    Tables,
    count_column,
    counted,
    records,
    text_column,
)

FEWEST_IN_VAIN = 5
FEWEST_GIVEN_UP, FEWEST_RECOVERED = 3, 3


def in_vain(rows: list[Row]) -> list[Row]:
    """Returns errors that were treated as transient, though no outage with them recovered.

    Of a message that has left the line it is not known here whether its retries succeeded.
    """
    return [
        row
        for row in rows
        if row["error"]
        and not row["recovered"]
        and not row["left_line"]
        and row["given_up"] >= FEWEST_IN_VAIN
    ]


def too_soon(rows: list[Row]) -> list[Row]:
    """Returns errors that were treated as permanent, though outages with them recovered.

    Those outages may be in this group, or in others.
    """
    recovered: Counter[str] = Counter()
    for row in rows:
        recovered[row["error"]] += row["recovered"]
    return [
        {
            "group": row["group"],
            "error": row["error"],
            "letters": row["letters_permanent"],
            "recovered_here": row["recovered"],
            "recovered_elsewhere": recovered[row["error"]] - row["recovered"],
        }
        for row in rows
        if row["error"]
        and row["letters_permanent"] >= FEWEST_GIVEN_UP
        and recovered[row["error"]] >= FEWEST_RECOVERED
    ]


def section(tables: Tables) -> Section:
    """Shows the errors that look wrongly classified."""
    rows = records(tables["errors"])
    vain = sorted(in_vain(rows), key=lambda row: -row["given_up"])
    soon = sorted(too_soon(rows), key=lambda row: -row["letters"])
    grids = []
    if vain:
        title = "Treated as transient, never recovered"
        grids.append(Grid.of(title, vain, _VAIN_COLUMNS, "errors"))
    if soon:
        title = "Treated as permanent, but recovered when retried"
        grids.append(Grid.of(title, soon, _SOON_COLUMNS, "errors"))
    text = _summary(len(vain), len(soon))
    return Section("Transient or not", text, grids=tuple(grids), notes=_NOTES)


_NOTES = (
    f"In vain: {FEWEST_IN_VAIN} outages or more of a group began with the error and were given up, "
    f"and none recovered. Too soon: {FEWEST_GIVEN_UP} letters or more of a group were given up at "
    f"once, and {FEWEST_RECOVERED} outages or more that began with the error recovered, in any "
    "group.",
    "An error is shown by the last part of its type’s name, since the journal often has no more: "
    "two types with the same name look like one here.",
)


def _summary(vain: int, soon: int) -> str:
    if not vain and not soon:
        return "Nothing here suggests that errors are misclassified."
    return (
        f"Retried in vain: {counted(vain, 'error')}. Given up at once, though they recovered "
        f"elsewhere or later: {counted(soon, 'error')}."
    )


_VAIN_COLUMNS = (
    text_column("group"),
    text_column("error"),
    count_column("outages"),
    count_column("given up", "given_up"),
    count_column("recovered"),
    *FIRST_AND_LAST,
)
_SOON_COLUMNS = (
    text_column("group"),
    text_column("error"),
    count_column("letters given up at once", "letters"),
    count_column("outages that recovered here", "recovered_here"),
    count_column("in other groups", "recovered_elsewhere"),
)
