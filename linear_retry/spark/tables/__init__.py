"""The tables of the lake: their columns, as expressions of SQL."""
