"""What people touch; surfaces show releases only."""
