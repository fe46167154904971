"""Mutation tests: every rule of the loop has a test that dies without it."""
