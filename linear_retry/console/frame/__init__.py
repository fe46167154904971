"""What every page of the console stands in: settings, services, forms and templates."""
