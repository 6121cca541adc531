"""Active messages: compiled functions that messages run, on a node and between nodes.

`message` is for users; `handlers` are the functions of this rank and what has arrived for them. Messages go through the
rings of `calls.inbox`, as remote calls do.
"""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from gondwana.runtime import later as _later

if _TYPE_CHECKING:
    from gondwana.calls.active_messages.message import ActiveMessage as ActiveMessage

__getattr__, __dir__ = _later.later(
    __name__,
    {
        "gondwana.calls.active_messages.message": "ActiveMessage",
    },
)
