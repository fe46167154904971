"""How do the small tables of a lake become a page, and files beside it?

Needs the extra `spark`. Nothing here knows Spark: what comes in are frames of pandas.
"""
