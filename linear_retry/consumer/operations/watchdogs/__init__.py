"""Watchdogs: lost brokers, stalled partitions, dead clients, slow handlers."""
