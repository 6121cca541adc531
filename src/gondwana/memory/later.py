"""Operations that take their time: they happen after some looks of this rank for work."""

from __future__ import annotations

from collections.abc import Callable

from gondwana.memory.futures import Future, Promise
from gondwana.world import interruptions, progress


class _Late:
    __slots__ = ("act", "looks", "promise")

    def __init__(self, looks: int, act: Callable[[], None]) -> None:
        self.looks = looks
        self.act = act
        self.promise: Promise[None] = Promise()


_waiting: list[_Late] = []


def after(looks: int, act: Callable[[], None]) -> Future[None]:
    """Have `act()` run inside internal progress, after `looks` looks. Local; does not wait.

    Args:
        looks: 0 or more; calls for two numbers happen in any order.
        act: moves data; runs no user code.

    Returns:
        The future of its end, or of its error.
    """
    late = _Late(looks, act)
    _waiting.append(late)
    return late.promise.future


def _look() -> bool:
    if not _waiting:
        return False
    looked_at = list(_waiting)
    for late in looked_at:
        late.looks -= 1
    # Another thread may add to the list meanwhile.
    del _waiting[: len(looked_at)]
    _waiting.extend(late for late in looked_at if late.looks >= 0)
    due = [late for late in looked_at if late.looks < 0]
    for late in due:
        try:
            late.act()
        except Exception as error:
            interruptions.let_pass(error)
            late.promise.set_exception(error)
        else:
            late.promise.set_result(None)
    return bool(due)


progress.register(_look)
