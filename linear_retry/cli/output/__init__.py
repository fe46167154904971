"""What commands print, and how they exit."""
