"""The console: what operators see and do in a browser."""
