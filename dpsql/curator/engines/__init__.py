"""Engines give the sparse counts of a column set; nothing else of a database is read."""
