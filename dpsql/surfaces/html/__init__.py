"""Pages: one HTML file each, which needs nothing from elsewhere and runs no script."""
