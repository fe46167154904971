"""Is every rule of the loop needed, and does a test die where it is missing?"""
