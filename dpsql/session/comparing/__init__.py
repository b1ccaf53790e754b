"""Statements that compare the counts of groups, and do not tell them."""
