"""Pages in headless Chromium: what it makes of them, its complaints, and the requests that they send."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
_NOTE = '"[PST]: '
"""What the theme of the documentation begins notes with that are no errors: the browser marks all alike."""
needed = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here: apt install chromium")


def browse(address: str, folder: Path, *, width: int = 1400, budget: int = 4000) -> str:
    """Return what a page has become, which must have no error and ask no other host for anything.

    Args:
        address: address of the page: a file, or one of this host.
        folder: folder for the browser's own files.
        width: width of the window in pixels; Chromium takes no less than 500 of a window, so narrower pages are frames.
        budget: milliseconds that the scripts of the page take the time to be.
    """
    assert CHROMIUM is not None
    log = folder / "requests.json"
    words = [
        CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--v=0",
        "--disable-background-networking", "--disable-component-update",
        "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", f"--window-size={width},900",
        f"--log-net-log={log}", f"--user-data-dir={folder / 'profile'}",
        f"--virtual-time-budget={budget}", "--dump-dom", address,
    ]  # fmt: skip
    done = subprocess.run(words, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    said = [line for line in done.stderr.splitlines() if "CONSOLE" in line and _NOTE not in line]
    wrong = said + foreign(log)
    assert not wrong, "\n".join(wrong)
    return done.stdout


def foreign(log: Path) -> list[str]:
    """The addresses on other hosts that a page has asked for; what the browser itself asks for has no origin."""
    events = [event.get("params", {}) for event in json.loads(log.read_text())["events"]]
    asked = [params["url"] for params in events if params.get("initiator", "not an origin") != "not an origin"]
    return [url for url in asked if re.match(r"(http|ws)s?://(?!127\.0\.0\.1[:/])", url)]
