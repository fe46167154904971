"""The commands of `manage.py` for the shop."""
