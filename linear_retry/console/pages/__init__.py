"""The pages: each module has a function `page`, which returns its routes and its entry."""
