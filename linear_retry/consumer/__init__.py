"""The linear consumer and its parts."""
