"""Synopses as a session has them: bought, asked, taught, kept and exported."""
