"""A micro-batch is attempted as a message is; whose it is, and how it waits, is lent to it."""
