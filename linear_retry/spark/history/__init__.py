"""The history of outages: the episodes in the journal, and the outages that they were part of."""
