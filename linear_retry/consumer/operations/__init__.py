"""Operators' requests (retry now, give up ...), in the process and over the control topic."""
