"""A week of a simulated fleet, and whether the Spark pipeline finds what really happened."""
