"""What people do on the console, in a real browser."""
