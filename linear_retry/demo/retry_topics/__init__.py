"""The demo of retry topics: orders that fail leave the line, and come back at their times."""
