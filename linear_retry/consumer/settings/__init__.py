"""What the user chooses, checked before any I/O."""
