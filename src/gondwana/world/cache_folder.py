"""Where a user's processes on this machine keep what the next ones find again."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

import platformdirs


def cache_folder(name: str) -> Path | None:
    """Return a folder that this user owns and can write to, made if need be; None if there is none to be had. Local.

    `GONDWANA_CACHE_DIR` says where it is, else it is in the user's cache folder, else in the one for temporary files.

    Args:
        name: what is kept in it.
    """
    named = os.environ.get("GONDWANA_CACHE_DIR")
    private = Path(tempfile.gettempdir()) / f"gondwana-{os.getuid()}"
    for root in [Path(named)] if named else [platformdirs.user_cache_path("gondwana"), private]:
        path = root / name
        with contextlib.suppress(OSError):
            path.mkdir(parents=True, exist_ok=True, mode=0o700)
            if os.access(path, os.W_OK) and path.stat().st_uid == os.getuid():
                return path
    return None
