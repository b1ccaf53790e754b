"""The documentation, and what writes its pages of reference (`python -m docs.generate`)."""
