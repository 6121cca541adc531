"""Two ranks on two hosts: network namespaces of this machine, made for the job."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import time
from pathlib import Path

import pytest

from support import jobs, two_hosts

pytestmark = pytest.mark.parallel

PROGRAM = Path(__file__).parent / "programs" / "two_host_checks.py"


@functools.cache
def reports() -> dict[str, list[str]]:
    outcome = two_hosts.run_two_hosts(PROGRAM, "--ranks", "2", timeout=100)
    assert outcome.status == 0, str(outcome)
    lines = [json.loads(line) for line in outcome.stdout.splitlines() if line.startswith('{"check"')]
    return {line["check"]: line["problems"] for line in lines}


@pytest.mark.parametrize("name", jobs.check_names(PROGRAM))
def test_two_hosts(name: str) -> None:
    problems = reports()[name]
    assert not problems, "\n".join(problems)


def spaces() -> list[str]:
    return subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout.split()


def test_the_hosts_go_even_if_the_job_hangs() -> None:
    if (reason := two_hosts.missing()) is not None:
        pytest.skip(reason)
    program = "import time; from gondwana.world import world; world.barrier(); time.sleep(600)"
    started = time.monotonic()
    with pytest.raises(AssertionError, match="still running"):
        two_hosts.run_two_hosts(program, timeout=5, variables={"GONDWANA_TIME_LIMIT": "300"})
    assert time.monotonic() - started < 30
    assert not [name for name in spaces() if f"-{os.getpid()}" in name]
