"""The lake: a directory of Parquet tables."""
