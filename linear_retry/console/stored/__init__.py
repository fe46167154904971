"""The messages and dead letters of a store: selected by forms, listed, and changed."""
