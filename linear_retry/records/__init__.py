"""What is on the wire: records, retry headers, dead letters, operators' commands."""
