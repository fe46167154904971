"""How long tests wait for what must come."""

PATIENCE_S = 300.0
"""Only a failing test waits so long. However busy the machine is, what works comes sooner."""
