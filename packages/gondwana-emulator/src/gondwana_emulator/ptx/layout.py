"""The interface of the translated code and the loop that runs it: words of 64 bits in two tables.

The launch table has one copy; each thread has a frame, which keeps its live values while it waits.
"""

from __future__ import annotations

# Words of the launch table.
PARAMETERS = 0
SHARED = 1
SHARED_END = 2
ROWS = 3
ROW_COUNT = 4
BLOCK_SIZE = 5
GRID_SIZE = 8
BLOCK = 11
DYNAMIC_SHARED = 14
FAULT_SITE = 15
FAULT_ADDRESS = 16
SYMBOLS = 17
FAULT_THREAD = 18
HINTS = 20
"""From here on: for each access to memory of the device, the row of its allocation that was found last."""

ROW_WORDS = 3
"""A row describes an allocation: its start, its bytes, and the difference to its real address."""

# Words of a frame.
RESUME = 0
THREAD = 1
NUMBER = 4
REQUEST = 5
MEMBERS = 6
VALUE = 7
LANE = 8
CLAMP = 9
RESULT = 10
HOLDS = 11
SAVED = 12

# Results of a thread.
DONE = 0
BARRIER = 1
WARP = 2
FAULT = 3
STUCK = 4
"""Result of the loop for the grid: the threads of a block are in a deadlock."""

# Requests of threads that wait in a warp or at a barrier.
(
    SYNC, UP, DOWN, BUTTERFLY, INDEX, ALL, ANY, UNIFORM, BALLOT, MATCH_ANY, MATCH_ALL, ADD, MIN, MAX, SIGNED_MIN,
    SIGNED_MAX, AND, OR, XOR, COUNT,
) = range(20)  # fmt: skip

# Addresses. Nothing is mapped there, so that addresses of the device are of no use outside of it.
SHARED_START = 1024
"""As on devices since Hopper: the first bytes belong to the system."""
LOCAL_START = 16
SHARED_WINDOW = 0x3100_0000_0000_0000
LOCAL_WINDOW = 0x3200_0000_0000_0000
WINDOW = 1 << 32
