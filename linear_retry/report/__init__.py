"""Renders a lake's summaries, small pandas tables, as an HTML page."""
