"""Fuzzes what strangers write: strategy texts and header bytes."""
