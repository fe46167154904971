"""The wire format: records, retry headers, dead letters, operators' commands."""
