"""The programs in which candidates run, one for each, so that none disturbs another's processes."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from gondwana.errors import UsageError
from gondwana_bench.disturbance import busy_family
from gondwana_bench.processes import Command, StartNative, our_command

_MODULE = "gondwana_bench.pools.candidates"
_PATIENCE, _ENDING = 300.0, 20.0
"""Seconds that a program has for an answer, and to end."""


def command(name: str, words: Sequence[str], workers: int, native: StartNative) -> Command:
    """Return the command and the variables that start a candidate. Local.

    Args:
        name: name of the candidate.
        words: arguments of its program.
        workers: number of ranks that work, if it is a job.
        native: starts programs of MPI.
    """
    if name == "ours in a job":
        # By its path: `gondwana run -m` looks in the current folder first.
        program = str(Path(__file__).with_name("candidates.py"))
        return Command(our_command(workers + 1, "--oversubscribe", program, *words), os.environ)
    if name == "MPIPoolExecutor":
        return native(workers + 1, [sys.executable, "-P", "-m", "mpi4py.futures", "-m", _MODULE, *words])
    return Command([sys.executable, "-P", "-m", _MODULE, *words], os.environ)


class Program(contextlib.ExitStack):
    """A candidate that runs and answers requests until it is closed. Local; blocks until it has made its pool.

    Args:
        name: name of the candidate.
        workers: number of workers of its pool.
        native: starts programs of MPI.
        purpose: "use" its pool, or "starts" of pools.

    Raises:
        UsageError: it could not be started, or has ended.

    Attributes:
        start: seconds from the command until every worker has run a task, and of processors meanwhile.
    """

    def __init__(self, name: str, workers: int, native: StartNative, purpose: str = "use") -> None:
        self._name = name
        super().__init__()
        try:
            with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listener:
                path = str(Path(folder) / "requests")
                listener.bind(path)
                listener.listen()
                start = time.perf_counter()
                self._start(*command(name, [name, str(workers), path, purpose], workers, native))
                self._connection = self.enter_context(self._accept(listener))
            self._answers = self.enter_context(self._connection.makefile())
            if purpose == "use":
                self.ask("call", 1)
            self.start = time.perf_counter() - start, busy_family(self._process.pid)
        except BaseException:
            self.close()
            raise

    def ask(self, what: str, n: int) -> tuple[float, float]:
        """Have it perform something; return the seconds that it says, and those of all its processors. Local; blocks.

        Raises:
            UsageError: it has ended, or did not answer in time.
        """
        before = busy_family(self._process.pid)
        try:
            self._connection.sendall(json.dumps([what, n]).encode() + b"\n")
            answer = self._answers.readline()
        except OSError:
            answer = ""
        if not answer:
            raise self._failed()
        return float(json.loads(answer)), busy_family(self._process.pid) - before

    def _start(self, argv: Sequence[str], variables: Mapping[str, str]) -> None:
        self._errors = self.enter_context(tempfile.TemporaryFile("w+"))  # noqa: SIM115 - closed with the stack
        self._process = subprocess.Popen(
            argv, env=dict(variables), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self._errors
        )
        self.callback(self._end)

    def _accept(self, listener: socket.socket) -> socket.socket:
        end = time.monotonic() + _PATIENCE
        listener.settimeout(0.1)
        while self._process.poll() is None and time.monotonic() < end:
            try:
                connection, _ = listener.accept()
            except TimeoutError:
                continue
            connection.settimeout(_PATIENCE)
            return connection
        raise self._failed()

    def _failed(self) -> UsageError:
        self._end()
        self._errors.seek(0)
        lines = self._errors.read().strip("\0 \n").splitlines()
        # Launchers have the last word.
        reason = next((line for line in reversed(lines) if "rror: " in line), lines[-1] if lines else "it said nothing")
        return UsageError(f"{self._name} does not answer: {reason}")

    def _end(self) -> None:
        try:
            self._process.wait(_ENDING)
        except subprocess.TimeoutExpired:
            self._process.terminate()
            self._process.wait()
