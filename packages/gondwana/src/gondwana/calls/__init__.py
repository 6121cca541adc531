"""Calls on other ranks: remote procedure calls, active messages, distributed objects, and their transport.

From top to bottom: `remote_calls` and `dist_object` are for users, as is `active_messages` with compiled `handlers`;
`endpoints` sends and serves requests and replies, encoded by `wire` (`names`, `by_value`); the `mailbox` moves messages
through the rings of the `inbox` (`sync.rings` has their layout), which `sync.delivery` carries between nodes, and long
ones to other nodes by `payloads`. `brief_calls` does all of it by machine code for short calls.
"""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from gondwana.runtime import later as _later

if _TYPE_CHECKING:
    from gondwana.calls.active_messages.message import ActiveMessage as ActiveMessage
    from gondwana.calls.dist_object import DistObject as DistObject
    from gondwana.calls.remote_calls import (
        discharge as discharge,
        progress_thread as progress_thread,
        quiesce as quiesce,
        rpc as rpc,
        rpc_ff as rpc_ff,
        try_rpc as try_rpc,
        try_rpc_ff as try_rpc_ff,
    )

__getattr__, __dir__ = _later.later(
    __name__,
    {
        "gondwana.calls.active_messages.message": "ActiveMessage",
        "gondwana.calls.dist_object": "DistObject",
        "gondwana.calls.remote_calls": "discharge progress_thread quiesce rpc rpc_ff try_rpc try_rpc_ff",
    },
)
