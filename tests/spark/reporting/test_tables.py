"""The tables beside the page are safe to open, and only those of this report."""

from pathlib import Path

import pandas as pd  # type: ignore[import-untyped]  # it has no types

from linear_retry.spark.reporting.report import write_tables


def test_a_text_stays_a_text_in_a_spreadsheet(tmp_path: Path) -> None:
    """What begins like a formula has an apostrophe before it in CSV; in Parquet it is as it was."""
    texts = ["=1+1", "+1", "-a", "@a", "\ta", "plain", "a=b", None]
    table = pd.DataFrame({"key": texts, "letters": [-1] * len(texts)})
    write_tables({"keys": table}, tmp_path)
    inert = ["'=1+1", "'+1", "'-a", "'@a", "'\ta", "plain", "a=b"]
    read = pd.read_csv(tmp_path / "keys.csv")
    assert inert == list(read["key"].dropna())
    assert [-1] * len(texts) == list(read["letters"])
    assert texts == list(pd.read_parquet(tmp_path / "keys.parquet")["key"])


def test_what_is_left_out_now_is_gone(tmp_path: Path) -> None:
    """Keys of an earlier report do not stay; what is somebody else's does."""
    (tmp_path / "mine.csv").write_text("mine")
    table = pd.DataFrame({"group": ["a"]})
    write_tables({"keys": table, "groups": table}, tmp_path)
    write_tables({"groups": table}, tmp_path)
    assert ["groups.csv", "groups.parquet", "mine.csv"] == sorted(
        path.name for path in tmp_path.iterdir()
    )
