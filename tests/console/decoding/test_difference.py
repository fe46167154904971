"""What was changed in a message is shown before it is forwarded, whatever it looks like."""

from linear_retry.console.decoding.difference import diff_lines


def test_no_line_is_hidden() -> None:
    """Comments of SQL and the lines around a key begin as the heads of a diff do."""
    old, new = "a\n-- one\n@@ b", "a\n++ two\n@@ c"
    assert " a\n--- one\n-@@ b\n+++ two\n+@@ c".splitlines() == diff_lines(old, new).splitlines()
    assert "---old\n+++new" == diff_lines("--old", "++new")


def test_very_many_lines_are_counted_alone() -> None:
    """Hostile ones would keep a core busy for minutes."""
    old, new = "\n".join("ab" * 3_000), "a"
    assert "6,000 lines before, 1 after: too many to compare" == diff_lines(old, new)
