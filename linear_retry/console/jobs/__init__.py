"""Replays, resolves and purges that run on the server: planned, confirmed, watched, cancelled."""
