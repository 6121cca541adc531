"""Whether an application finds the GPUs that its settings ask for."""

from __future__ import annotations

import os

import gondwana as gw
from gondwana.errors import UsageError


def lacking() -> str:
    """Return the reason why this process has no GPU, "" if it has one. Local."""
    try:
        return "" if gw.device_count() else "no device is visible"
    except UsageError as error:
        return str(error)


def will_be_used(device: str, instead: str) -> bool:
    """Return, before any rank starts, whether a run will use GPUs, as far as this machine shows. Local.

    Args:
        device: device of the settings: "host", "cuda", or "auto" for a GPU if there is one.
        instead: alternatives to "cuda", for the message.

    Raises:
        UsageError: the run must use GPUs and there are none.
    """
    if device == "host" or _ranks_are_elsewhere():
        return device == "cuda"
    reason = lacking()
    if reason and device == "cuda":
        raise UsageError(f'device: "cuda" cannot be had: {reason}; or set device to {instead}')
    return not reason


def _ranks_are_elsewhere() -> bool:
    """Whether this process only launches ranks that a scheduler will put on other nodes, maybe unlike this one."""
    return "SLURM_JOB_ID" in os.environ and gw.launched_by() is None
