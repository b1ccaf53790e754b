"""`dpsql shell`: SQL at a prompt that knows the schema, or piped in."""
