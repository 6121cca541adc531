"""Packages of Debian and Ubuntu, fetched by apt and unpacked into a folder: nothing is installed on this machine."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from support import jobs
from support.cluster.hosts import CannotBuildError

KEPT = jobs.ROOT / ".pytest_cache" / "packages"
"""The folder in which they are kept for the next time."""


def unpacked(names: Sequence[str]) -> Path:
    """Return a folder with the files of these packages and of missing ones that they need.

    Raises:
        CannotBuildError: the packages cannot be had here.
    """
    folder = KEPT / hashlib.sha256(" ".join(names).encode()).hexdigest()[:12]
    if folder.is_dir():
        return folder
    for tool in ("apt-get", "dpkg"):
        if shutil.which(tool) is None:
            raise CannotBuildError(f"{' and '.join(names)} come by apt, and there is no {tool}")
    KEPT.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=KEPT) as made:
        fetched, files = Path(made, "fetched"), Path(made, "files")
        (fetched / "partial").mkdir(parents=True)
        files.mkdir()
        if _apt("install", *names, into=fetched).returncode:
            _apt("update", into=fetched)
            done = _apt("install", *names, into=fetched)
            if done.returncode:
                last = done.stderr.strip().splitlines()[-1:]
                raise CannotBuildError(f"apt-get does not bring {' and '.join(names)}: {''.join(last)}")
        for package in sorted(fetched.glob("*.deb")):
            subprocess.run(["dpkg", "--extract", package, files], check=True, capture_output=True, timeout=60)
        _merge(files)
        os.rename(files, folder)
    return folder


def _merge(files: Path) -> None:
    """Give files the places at which this machine has them: its /bin, /sbin and /lib may be links into /usr."""
    files.chmod(0o755)
    for name in ("bin", "sbin", "lib", "lib64"):
        here, root = files / name, Path("/", name)
        if here.is_dir() and root.is_symlink():
            shutil.copytree(here, files / root.resolve().relative_to("/"), symlinks=True, dirs_exist_ok=True)
            shutil.rmtree(here)


def _apt(act: str, *names: str, into: Path) -> subprocess.CompletedProcess[str]:
    words = ["apt-get", "-q", "-y", "-o", f"Dir::Cache::archives={into}", "-o", "APT::Sandbox::User=root"]
    words += ["-o", "Debug::NoLocking=true", act]
    if names:
        words += ["--download-only", "--no-install-recommends", *names]
    variables = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"}
    return subprocess.run(words, capture_output=True, text=True, timeout=120, env=variables)
