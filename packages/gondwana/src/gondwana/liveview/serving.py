"""How a live view starts: the sockets at which it listens, and its process, which ends with that of the job."""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import sys

from gondwana.runtime.watching.sockets import listener_for_ranks


def start(*, several_hosts: bool) -> tuple[str, str]:
    """Start the process of a live view, which lasts as long as the calling one. Local.

    Args:
        several_hosts: whether rank 0 may be on another host.

    Returns:
        The address of the page, with its token, and the value of `live.VARIABLE` for the ranks.
    """
    ranks, addresses = listener_for_ranks(several_hosts=several_hosts)
    with socket.create_server(("127.0.0.1", 0)) as page, ranks:
        secret, token = secrets.token_hex(32), secrets.token_urlsafe(24)
        descriptors = page.fileno(), ranks.fileno()
        subprocess.run(
            [sys.executable, "-P", "-m", "gondwana.liveview", *map(str, descriptors), str(os.getpid())],
            input=f"{secret} {token}\n".encode(),  # not on the command line, which others can read
            pass_fds=descriptors,
            stdout=subprocess.DEVNULL,
            check=True,
        )
        return f"http://127.0.0.1:{page.getsockname()[1]}/?token={token}", f"{secret} {addresses}"
