"""The order of what a program does not determine: recorded in a log of each rank, and repeated by a later run.

Undetermined are the arrival of calls, replies and active messages, the wake-ups of tasks, the items that a rank gets of
channels that several use, the senders of messages from any rank, and which waits end by their time limit. Each is an
event: its step, its kind and a value. The step counts the calls of the program in which something may arrive. When the
order is repeated, an event does not happen before its step nor before the events in front of it, and a call does not
end before the events of its step have happened. So what the program sees between its calls is the same again.

Whether a process does either is decided when it imports this package, by the environment variables GONDWANA_RECORD and
GONDWANA_REPLAY. Without them decorators return what they decorate, so that programs pay nothing.
"""

from gondwana.runtime.ordering.event_log import (
    AT as AT,
    CALLBACK as CALLBACK,
    CLOSE as CLOSE,
    ENVELOPE as ENVELOPE,
    EVENT as EVENT,
    EVENTS as EVENTS,
    FULL as FULL,
    HEAD as HEAD,
    KIND_SHIFT as KIND_SHIFT,
    LOOSE as LOOSE,
    PEEK as PEEK,
    PUT as PUT,
    RECORD as RECORD,
    REPLAY as REPLAY,
    REPLAYED as REPLAYED,
    ROOM as ROOM,
    STEP as STEP,
    SUFFIX as SUFFIX,
    SUSPEND as SUSPEND,
    TAKE as TAKE,
    TIMEOUT as TIMEOUT,
    TIMER as TIMER,
    TURN as TURN,
    WAKE as WAKE,
    WORD as WORD,
    YIELD as YIELD,
    Log as Log,
    log as log,
    problem as problem,
    repeats as repeats,
)
from gondwana.runtime.ordering.steps import (
    caught_up as caught_up,
    counted as counted,
    each_counted as each_counted,
    plain as plain,
    stepping as stepping,
    uncounted as uncounted,
)
