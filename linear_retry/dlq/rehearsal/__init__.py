"""Hands dead letters to a corrected handler, to see what would come of their replay."""
