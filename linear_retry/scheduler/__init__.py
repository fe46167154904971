"""The scheduler: a service that keeps messages in its store and sends each when it is due."""
