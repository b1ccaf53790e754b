"""What makes it evident that a ledger was changed by something else than dpsql."""
