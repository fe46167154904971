"""Who may reach what is served, and what they may do there."""
