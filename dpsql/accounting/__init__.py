"""Public: what a release costs, and who has paid for it."""
