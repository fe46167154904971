"""Small programs that run, each of them tested."""
