"""The demos of retry topics and of the scheduler: orders leave the line, and come back later."""
