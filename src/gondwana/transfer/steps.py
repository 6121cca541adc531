"""Work in steps: a generator that yields the futures it waits for, and goes on inside progress when they are ready."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from gondwana.futures import Future, Promise
from gondwana.runtime import interruptions

Steps = Generator[Future[Any], Any, None]


def run(steps: Steps) -> Future[None]:
    """Start work and return the future of its end. Local; does not wait.

    What is ready at once is not waited for. An error of a future is raised where it was yielded.
    """
    promise: Promise[None] = Promise()

    def go_on(done: Future[Any] | None) -> None:
        try:
            while True:
                done = _resume(steps, done)
                if not done.done():
                    done.add_done_callback(go_on)
                    return
        except StopIteration:
            promise.set_result(None)
        except Exception as error:
            interruptions.let_pass(error)
            promise.set_exception(error)

    go_on(None)
    return promise.future


def _resume(steps: Steps, done: Future[Any] | None) -> Future[Any]:
    """Go on with what the future gave, if it is not the start; return the next future."""
    if done is None:
        return next(steps)
    error = done.exception()
    return steps.send(done.result()) if error is None else steps.throw(error)
