"""Computes, from recorded outages, the strategy that would have cost least."""
