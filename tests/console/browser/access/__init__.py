"""Who may do what, and from where, as a browser sees it."""
