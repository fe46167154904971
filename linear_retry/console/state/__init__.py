"""The console's settings, and what it keeps: its database and its audit."""
