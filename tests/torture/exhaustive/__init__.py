"""Every sequence of steps in small worlds."""
