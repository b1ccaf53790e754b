"""Gates of these tests let a good guess pass, but once in some ten million.

By their usual threshold one in some thousand is found to be far off.
"""

from collections.abc import Iterator

import pytest

from dpsql.mechanisms.synopses import verifier


@pytest.fixture
def questions() -> int:
    """How many good guesses are to pass; a test may want as many as usual."""
    return 10_000_000


@pytest.fixture(autouse=True)
def _gates(questions: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    known = [each for each in vars(verifier).values() if hasattr(each, "cache_clear")]
    monkeypatch.setattr(verifier, "QUESTIONS", questions)
    for each in known:
        each.cache_clear()
    yield
    for each in known:
        each.cache_clear()
