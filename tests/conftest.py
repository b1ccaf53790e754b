"""What several rooms' tests share: the shape of printed output."""

from __future__ import annotations

import re
import signal
import threading
from collections.abc import Callable

import pytest

_NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")


def masked(text: str) -> list[str]:
    """The lines of a text with every number as `#`, rules and runs of spaces cut short."""
    found = []
    for line in text.strip().splitlines():
        line = _NUMBER.sub("#", line)
        line = re.sub(r"─+", "─", re.sub(r"[█░]+", "█", line))
        found.append(re.sub(r" +", " ", line).rstrip())
    return found


@pytest.fixture(autouse=True)
def _ctrl_c_arrives() -> None:
    """A shell starts a background job with Ctrl-C ignored, and a test's children inherit that."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def shape() -> Callable[[str], list[str]]:
    """Text to the lines that stay when numbers change."""
    return masked
