"""Outages on the page: from the journal, drawn over time."""
