"""Reads small files of the user's, and writes whole files or none."""
