"""Public and pure: SQL text becomes a workload of linear queries; no private data comes here."""
