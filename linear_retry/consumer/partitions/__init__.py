"""The state of the assigned partitions, and the calls that pause, seek and commit."""
