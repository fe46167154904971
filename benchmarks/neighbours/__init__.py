"""How fast do other libraries read the same topic?"""

from benchmarks.neighbours.race import run

__all__ = ["run"]
