"""What was released, as a ledger keeps it: noisy values, and whose they are."""
