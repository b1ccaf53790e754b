"""A headless Chromium, driven through two pipes by the DevTools protocol; no client is needed."""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

BINARIES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-extensions",
    "--disable-background-networking", "--hide-scrollbars", "--remote-debugging-pipe",
)  # fmt: skip


def binary() -> str | None:
    """The browser's program, None where there is none."""
    return next((found for name in BINARIES if (found := shutil.which(name))), None)


MISSING = binary() is None
REASON = f"no browser is installed: none of {', '.join(BINARIES)}"


class Browser:
    """One page of a browser."""

    def __init__(self, out: int, back: int) -> None:
        self._out, self._back = out, back
        self._number, self._session = 0, ""
        self._rest = b""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        found = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = found["sessionId"]
        self.call("Page.enable")

    def call(self, method: str, **params: Any) -> Any:
        """What a method of the protocol gives."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._message()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]

    def _message(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            got = os.read(self._back, 1 << 20)
            assert got, "the browser ended"
            self._rest += got
        first, _, self._rest = self._rest.partition(b"\0")
        read: dict[str, Any] = json.loads(first)
        return read

    def open(self, page: Path, width: int, *, dark: bool = False) -> None:
        """Show a file as a window of this width does."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=900, deviceScaleFactor=1, mobile=width < 600,
        )  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", media="screen", features=[scheme])
        self.call("Page.navigate", url=page.as_uri())
        while self._message().get("method") != "Page.loadEventFired":
            pass

    def value(self, script: str) -> Any:
        """What JavaScript of the test, not of the page, says of the page."""
        return self.call("Runtime.evaluate", expression=script, returnByValue=True)["result"].get(
            "value"
        )

    def picture(self, place: Path) -> None:
        """The whole page as a PNG."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        made = self.call("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
        place.write_bytes(base64.b64decode(made["data"]))

    def paper(self, place: Path) -> None:
        """The whole page as a PDF."""
        made = self.call("Page.printToPDF", printBackground=True, preferCSSPageSize=True)
        place.write_bytes(base64.b64decode(made["data"]))


@contextlib.contextmanager
def browser() -> Iterator[Browser]:
    """A browser with a profile of its own, ended afterwards."""
    program = binary()
    assert program is not None
    theirs, out = os.pipe()
    back, ours = os.pipe()
    high = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (theirs, ours)]

    def placed() -> None:  # the browser reads from 3 and writes to 4
        os.dup2(high[0], 3)
        os.dup2(high[1], 4)

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        process = subprocess.Popen(
            [program, *_FLAGS, f"--user-data-dir={profile}"],
            preexec_fn=placed, pass_fds=(3, 4),
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        for end in (theirs, ours, *high):
            os.close(end)
        try:
            yield Browser(out, back)
        finally:
            os.close(out)
            os.close(back)
            process.terminate()
            process.wait(timeout=20)
