"""The commands on the store, the same for the scheduler and the outbox."""
