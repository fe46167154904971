"""Measures what messages cost that leave the line and come back."""
