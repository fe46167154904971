"""Outages on the page: from the journal and the lake, drawn over time."""
