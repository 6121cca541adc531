"""Requests of MPI whose wait does not come to its end."""

from __future__ import annotations

import gc
import weakref

import pytest

import gondwana as gw
from gondwana.runtime import progress
from gondwana.teams.request import Request, complete


class Handle:
    """A request of MPI that refers to its buffers, as mpi4py's do."""

    def __init__(self, error: type[BaseException] | None) -> None:
        self.error, self.polls = error, 0

    def Test(self) -> bool:  # noqa: N802 - mpi4py's name
        self.polls += 1
        if self.polls > 100 and self.error is not None:
            raise self.error
        return self.error is None


def test_an_interrupted_operation_keeps_its_buffers() -> None:
    handle = Handle(KeyboardInterrupt)
    kept = weakref.ref(handle)
    with pytest.raises(KeyboardInterrupt):
        complete(handle, lambda: None)
    del handle
    gc.collect()
    assert kept() is not None


def test_requests_that_are_complete_are_not_kept() -> None:
    handle = Handle(None)
    kept = weakref.ref(handle)
    complete(handle, lambda: None)
    del handle
    gc.collect()
    assert kept() is None


def test_a_wait_in_a_callback_can_be_repeated() -> None:
    handle = Handle(KeyboardInterrupt)
    request = Request(handle)
    with progress.callback(), pytest.raises(gw.ProgressError):
        request.wait()
    handle.error = None
    request.wait()
    assert request.test()
