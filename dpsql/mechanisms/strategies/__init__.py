"""Factorization: what is measured in place of the questions, and how answers are made of it."""
