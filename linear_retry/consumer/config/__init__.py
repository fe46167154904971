"""Checks what a user asks for, before any I/O."""
