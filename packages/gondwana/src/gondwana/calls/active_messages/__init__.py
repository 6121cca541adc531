"""Active messages: compiled functions that messages run, on a node and between nodes.

`message` is for users; `handlers` are the functions of this rank and what has arrived for them. On a node messages go
through the rings of `calls.rings`, between nodes through `far_rings`.
"""

from gondwana.calls.active_messages.message import ActiveMessage as ActiveMessage
