"""A session: text in, release out; the only place where the parts meet."""

from dpsql.session.session import Session
from dpsql.session.settings import Settings

__all__ = ["Session", "Settings"]
