"""Makes a page of HTML of a lake's small tables, which are frames of pandas."""
