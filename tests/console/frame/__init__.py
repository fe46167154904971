"""What every page of the console stands in."""
