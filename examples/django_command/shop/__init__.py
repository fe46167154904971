"""A shop: a Django project of one app."""
