"""Where a ledger is kept: in memory, in an SQLite file, or on a PostgreSQL server."""
