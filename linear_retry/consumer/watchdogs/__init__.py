"""Watchdogs: brokers out of sight, stalled partitions, dead clients, slow handlers."""
