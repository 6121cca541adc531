"""`python -m gondwana.liveview PAGE RANKS PROCESS`: serves the live view of a job until its process has ended.

PAGE and RANKS are the descriptors of the sockets at which it listens. It stands above rank 0 in the tree of the
watchdogs, and asks only while somebody looks. Started by `liveview.serving`, which gives it the secrets.
"""

from __future__ import annotations

import functools
import hmac
import json
import os
import select
import socket
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from gondwana.runtime.watching import channel
from gondwana.runtime.watching.rollcall import Stand, roll_call
from gondwana.runtime.watching.tree import Tree

_APART = 0.4
"""Seconds between two questions at least, however many look."""
_ANSWER_TIME = 1.0
_VIEW = -1
"""The number of the view in the tree."""
_PAGE = Path(__file__).with_name("page.html")
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; img-src data:"


class View:
    """What is known of a job. Local.

    Args:
        secret: secret by which rank 0 and the view prove to each other that they belong to the job.
    """

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self._lock = threading.Lock()
        self._tree: Tree | None = None
        self._asked = 0.0
        self._answers: dict[int, Any] = {}
        self._answered = 0.0

    def attend(self, listening: socket.socket) -> None:
        """Take the connection of rank 0, and those of later starts of the job. Local; does not end."""
        while True:
            for connected in channel.accept(listening, [0], self._secret, 1e6):
                with self._lock:
                    self._tree = Tree(_VIEW, None, [connected])

    def state(self) -> dict[str, Any]:
        """Return what the page shows: `age` [s], `ranks`, and the roll call. Local; blocks for a second at most."""
        with self._lock:
            now = time.monotonic()
            if self._tree is not None and now >= self._asked + _APART:
                self._asked = now
                answers = self._tree.collect([], _ANSWER_TIME, "live")
                self._tree.kept.clear()  # answers that came too late
                if len(answers) > 1:
                    self._answered = time.monotonic()
                    self._answers = {rank: answer for rank, answer in sorted(answers.items()) if rank != _VIEW}
            if not self._answers:
                return {"age": None, "ranks": {}, "roll_call": ""}
            stands = {rank: Stand.read(answer[:2]) for rank, answer in self._answers.items()}
            return {
                "age": time.monotonic() - self._answered,
                "ranks": {rank: answer[2] for rank, answer in self._answers.items()},
                "roll_call": roll_call("live", stands).partition("\n")[2],
            }


class Handler(BaseHTTPRequestHandler):
    """Answers a request, if it has the token.

    Args:
        view: what is known of the job.
        token: the token.
        *request: arguments of the base.
    """

    server_version, sys_version, timeout = "gondwana", "", 10.0

    def __init__(self, view: View, token: str, *request: Any) -> None:
        self._view, self._token = view, token
        super().__init__(*request)

    def do_GET(self) -> None:
        """Send the page, or the state as JSON."""
        path, _, query = self.path.partition("?")
        if not hmac.compare_digest(query.encode("utf-8", "replace"), f"token={self._token}".encode()):
            self.send_error(403, "give the address as gondwana run --live has printed it, with its token")
        elif path == "/":
            self._send(_PAGE.read_bytes(), "text/html; charset=utf-8")
        elif path == "/state":
            self._send(json.dumps(self._view.state()).encode(), "application/json")
        else:
            self.send_error(404)

    def _send(self, content: bytes, kind: str) -> None:
        self.send_response(200)
        for name, value in (
            ("Content-Type", kind),
            ("Content-Length", str(len(content))),
            ("Content-Security-Policy", _POLICY),
            ("Referrer-Policy", "no-referrer"),
            ("Cache-Control", "no-store"),
        ):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


class Server(ThreadingHTTPServer):
    """A server at a socket that listens already."""

    daemon_threads = True

    def __init__(self, listening: socket.socket, view: View, token: str) -> None:
        super().__init__(listening.getsockname(), functools.partial(Handler, view, token), bind_and_activate=False)
        self.socket.close()
        self.socket = listening

    def handle_error(self, *_: object) -> None:
        """Print nothing: a browser has closed the connection."""


def main(page: int, ranks: int, process: int) -> None:
    """Serve until a process has ended, beside the one that has started this one. Local."""
    ended = os.pidfd_open(process)
    secret, token = sys.stdin.readline().split()
    if os.fork():
        os._exit(0)  # a job must not have children that it does not know
    os.setsid()  # Ctrl-C is for the job
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nowhere, stream)
    view = View(bytes.fromhex(secret))
    threading.Thread(target=view.attend, args=(socket.socket(fileno=ranks),), daemon=True).start()
    server = Server(socket.socket(fileno=page), view, token)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    select.select([ended], [], [])
    os._exit(0)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
