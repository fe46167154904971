"""What is stored through the application's own connection, in its transaction."""
