"""The built documentation in headless Chromium: no error, no request to another host, no table wider than the page."""

from __future__ import annotations

import functools
import json
import re
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from support import browser
from support.jobs import ROOT

BUILT = ROOT / "docs" / "_build" / "html"
MEASURE = """<!doctype html><title>-</title><link rel="icon" href="data:,"><body><script type="module">
const frame = document.createElement("iframe"), found = [];
frame.style.height = "900px";
document.body.append(frame);
for (const name of PAGES) {
    await new Promise((loaded) => { frame.onload = loaded; frame.src = name; });
    for (const width of [390, 1400]) {
        frame.style.width = `${width}px`;
        const page = frame.contentDocument, tables = page.querySelectorAll(".bd-article table");
        const widths = Array.from(tables, (table) => table.offsetWidth);
        found.push([name, width, Math.max(page.documentElement.scrollWidth, ...widths)]);
    }
}
document.title = JSON.stringify(found);
</script>"""


def pages() -> list[str]:
    """The pages of the documentation; the theme has brought templates along."""
    names = (path.relative_to(BUILT) for path in sorted(BUILT.rglob("*.html")))
    return [str(name) for name in names if name.parts[0] != "_static"]


class Handler(SimpleHTTPRequestHandler):
    """Serves the documentation and a page that measures the others; keeps what it did not find."""

    missing: list[str]

    def do_GET(self) -> None:
        if self.path == "/measure":
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(MEASURE.replace("PAGES", json.dumps(pages())).encode())
        else:
            super().do_GET()

    def log_error(self, form: str, *values: object) -> None:
        self.missing.append(f"{self.path}: {form % values}")

    def log_request(self, *_: object) -> None:
        """Keep nothing of what was found."""


@pytest.fixture
def served() -> Iterator[tuple[str, list[str]]]:
    """The address of the documentation, and the requests that failed."""
    missing: list[str] = []
    handler = type("Kept", (Handler,), {"missing": missing})
    with ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(handler, directory=str(BUILT))) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", missing
        server.shutdown()
        thread.join()


@browser.needed
@pytest.mark.parametrize("wrong", ["<script>missing()</script>", '<img src="https://fonts.example.org/a.png" alt="">'])
def test_a_page_that_errs_or_asks_others_is_noticed(wrong: str, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(f"<!doctype html><title>page</title><body>{wrong}")
    with pytest.raises(AssertionError, match=r"missing is not defined|fonts\.example\.org"):
        browser.browse((tmp_path / "page.html").as_uri(), tmp_path)


@browser.needed
@pytest.mark.skipif(not BUILT.is_dir(), reason="make docs has not built the documentation here")
def test_pages_fit_phones_and_screens_without_an_error(served: tuple[str, list[str]], tmp_path: Path) -> None:
    address, missing = served
    shown = browser.browse(f"{address}/measure", tmp_path, budget=1000000)
    [title] = re.findall("<title>(.*)</title>", shown)
    found = json.loads(title)
    assert len(found) == 2 * len(pages()) > 100
    assert [(name, width, most) for name, width, most in found if most > width] == []
    assert missing == []
