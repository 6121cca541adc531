"""`gondwana run --live`: what is listened to, the state of two ranks, and the page in a browser."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support import browser
from support.jobs import left_behind

PROGRAM = """
import time
import gondwana as gw
T = gw.from_function(lambda x, y: x + 10.0 * y, (40, 30))
with gw.ProgressBar(gw.world, "a long work", 10**9) as bar:
    for step in range(10**9):
        bar.show(step)
        gw.live(T=T, T_eff="12.5 GB/s")
        if step == 1000:
            time.sleep(1e6) if gw.world.rank == 0 else gw.world.barrier()
"""


@pytest.fixture(scope="module")
def view(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a job of two ranks of which one waits for the other, which sleeps."""
    program = tmp_path_factory.mktemp("live") / "program.py"
    program.write_text(PROGRAM)
    words = [
        sys.executable,
        "-P",
        "-m",
        "gondwana.cli.main",
        "run",
        "-n",
        "2",
        "--time-limit",
        "200",
        "--live",
        str(program),
    ]
    with subprocess.Popen(words, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as job:
        assert job.stderr is not None
        line = next(line for line in job.stderr if "live view at" in line)
        yield line.split()[-1]
        job.send_signal(signal.SIGTERM)
        job.stderr.read()
        job.wait(60)
    port = re.findall(r":(\d+)/", line)[0]
    serving = [int(pid) for pid in os.listdir("/proc") if pid.isdecimal() and is_view(int(pid), port)]
    assert not left_behind(serving)


def is_view(pid: int, port: str) -> bool:
    try:
        return b"gondwana.liveview" in Path(f"/proc/{pid}/cmdline").read_bytes() and port in listened_by(pid)
    except OSError:
        return False


def listened_by(pid: int) -> list[str]:
    """The ports at which a process listens, all of which must be loopback ones."""
    inodes = {os.readlink(file)[8:-1] for file in Path(f"/proc/{pid}/fd").iterdir() if "socket" in os.readlink(file)}
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    places = [row[1].split(":") for row in rows if row[3] == "0A" and row[9] in inodes]
    assert {address for address, _ in places} <= {"0100007F"}
    return [str(int(port, 16)) for _, port in places]


def state_of(address: str) -> dict[str, Any]:
    with urllib.request.urlopen(address.replace("/?", "/state?"), timeout=20) as answer:
        found: dict[str, Any] = json.load(answer)
        return found


def test_the_ranks_tell_what_they_do(view: str) -> None:
    end = time.monotonic() + 100
    while time.monotonic() < end:
        state = state_of(view)
        if "waits in a barrier" in state["roll_call"] and len(state["ranks"]) == 2:
            break
        time.sleep(0.5)
    ranks = state["ranks"]
    assert re.search(
        r"rank 0 in <module> \(program\.py:10\); rank 1 in <module> .* waits in a barrier", state["roll_call"]
    )
    steps = ranks["0"]["steps"]
    assert (steps["label"], steps["done"], steps["total"]) == ("a long work", 1000, 10**9)
    assert steps["rate"] > 0
    assert ranks["0"]["values"]["T_eff"] == "12.5 GB/s"
    assert "steps" not in ranks["1"]
    parts = [rank["values"]["T"] for rank in ranks.values()]
    assert [part["at"] for part in parts] == [[0, 0], [20, 0]]
    assert all(part["shape"] == [20, 30] and part["size"] == [40, 30] for part in parts)
    assert all(rank["memory"] > 1e6 for rank in ranks.values())
    port = re.findall(r":(\d+)/", view)[0]
    assert any(is_view(int(pid), port) for pid in os.listdir("/proc") if pid.isdecimal())


@browser.needed
def test_the_page_shows_it_without_an_error(view: str, tmp_path: Path) -> None:
    shown = browser.browse(view, tmp_path, width=390)
    for text in ("a long work", "2 ranks", "1000 of 1000000000", "12.5 GB/s", "T: 0 (dark) to 329 (bright)", "40 x 30"):
        assert text in shown
    assert "program.py:10" in shown
    assert shown.count("<canvas") == 1


IN_A_NOTEBOOK = """
import json, urllib.request
import gondwana as gw
from gondwana.runtime import terminal
terminal.in_notebook = lambda: True
view = gw.live()
state = {"ranks": {}}
while "row" not in state["ranks"].get("0", {}).get("values", {}):
    gw.live(row=[1, 2, 3])
    with urllib.request.urlopen(view.address.replace("/?", "/state?")) as answer:
        state = json.load(answer)
assert gw.live() is view
assert f'<iframe src="{view.address}"' in view._repr_html_()
print(view, state["ranks"]["0"]["values"])
"""


def test_in_a_notebook_a_view_of_its_own_process_starts() -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OMPI_COMM")}
    done = subprocess.run(
        [sys.executable, "-c", IN_A_NOTEBOOK], capture_output=True, text=True, timeout=100, env=environment
    )
    assert re.fullmatch(
        r"live view at http://127\.0\.0\.1:\d+/\?token=[\w-]{32} \{'row': '\[1, 2, 3\]'\}\n", done.stdout
    ), done.stderr
