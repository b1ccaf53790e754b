"""Distributions that are fitted to what was measured, and what they guess of the rest."""
