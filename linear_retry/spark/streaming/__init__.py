"""A streaming query whose micro-batches are retried: `foreach_batch`."""
