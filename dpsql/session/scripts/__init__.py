"""A script of SQL as one: read, planned, foretold, paid and answered."""
