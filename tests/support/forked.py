"""Programs that compile, in copies of one process that has Numba's compiler ready: most of what a short one takes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from support import jobs

_SERVER = """
import gc, json, os, runpy, sys
import numba
from gondwana.compiler import linker, sources
from gondwana.compiler.types.arguments import import_extensions

linker.import_numba()
import_extensions()
numba.cfunc("int64(int64)")(lambda n: n)  # looks up what Numba knows
sources.digest(sources.OVERLOADS)
gc.freeze()
print("ready", flush=True)
for line in sys.stdin:
    program, folder, variables = json.loads(line)
    child = os.fork()
    if child == 0:
        for number, name in enumerate((os.devnull, f"{folder}/stdout", f"{folder}/stderr")):
            os.dup2(os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC), number)
        os.chdir(folder)
        os.environ.update(variables)
        sys.path.insert(0, folder)
        sys.argv = [program]
        runpy.run_path(program, run_name="__main__")
        sys.exit()
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class Forked:
    """Runs programs in copies of a process, one after the other."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def run(self, program: str, folder: Path, variables: Mapping[str, str]) -> jobs.Outcome:
        """Run a program in its folder, with these variables of the environment."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([program, str(folder), dict(variables)]) + "\n")
        self._process.stdin.flush()
        status = int(self._process.stdout.readline())
        return jobs.Outcome(status, (folder / "stdout").read_text(), (folder / "stderr").read_text())


@contextmanager
def forked() -> Iterator[Forked]:
    """Start the process, and end it afterwards."""
    words = [sys.executable, "-c", _SERVER]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(words, text=True, env=jobs.clean_environment(), **pipes) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        try:
            yield Forked(process)
        finally:
            process.kill()
