"""What operators see and ask for (retry now, give up ...), and the watchdogs."""
