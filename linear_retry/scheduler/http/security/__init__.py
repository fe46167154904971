"""Who may reach the API, and what they may do there."""
