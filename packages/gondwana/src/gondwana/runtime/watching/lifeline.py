"""The lifeline: a rank ends with the process that has started it, whatever the rank is doing then.

The kernel does it, since the rank cannot: it may not have begun, run compiled code that holds the interpreter, or wait
inside MPI for a process that is gone. Launchers end their ranks as well, as long as they live. Importing this module
arms it, which must come before everything else.
"""

from __future__ import annotations

import _thread
import os
import select
import signal

from gondwana.runtime import launcher
from gondwana.runtime.supervisor import end_with_parent

_OUTPUTS = (1, 2)


def arm() -> None:
    """Have the kernel kill this process when its launcher's process on this host ends. Local.

    If another process stands between, such as a shell, or the launcher is unknown, this process ends itself when its
    output has no reader any more, unless compiled code holds the interpreter then. Without a launcher nothing is done.
    """
    if launcher.enter() is None:
        return
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # Hydra passes on what its supervisor has blocked
    parent = os.getppid()
    started_by_launcher = launcher.name_of(parent) in launcher.DAEMONS
    if started_by_launcher:
        end_with_parent(signal.SIGKILL)
    # The launcher may have ended before: it was the only reader of this process's output.
    if (started_by_launcher and os.getppid() != parent) or all(map(_nobody_reads, _OUTPUTS)):
        os._exit(1)
    if not started_by_launcher:
        _thread.start_new_thread(_end_with_readers, ())


def _end_with_readers() -> None:
    """Wait until this process's output has no reader, and end it."""
    for descriptor in _OUTPUTS:
        poll = select.poll()
        poll.register(descriptor, 0)
        if any(event & select.POLLNVAL for _, event in poll.poll()):
            return  # the program has closed it
    os._exit(1)


def _nobody_reads(descriptor: int) -> bool:
    """Return whether a descriptor is a pipe or a terminal whose other end is closed."""
    poll = select.poll()
    poll.register(descriptor, 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))


arm()
