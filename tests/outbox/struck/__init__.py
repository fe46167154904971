"""An application with an outbox in a process of its own, struck at a numbered point."""
