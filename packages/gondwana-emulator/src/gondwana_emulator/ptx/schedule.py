"""The loop that runs the threads of a grid, compiled; threads that wait are called again when their wait is over."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from gondwana_emulator.ptx import layout as at

_READY = -1
_WARP = 32


@intrinsic  # type: ignore[untyped-decorator]
def _run(typingctx: Any, function: Any, launch: Any, frame: Any) -> Any:
    """Call the translated kernel for a thread."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        word = ir.IntType(64)
        kind = ir.FunctionType(word, [word, word])
        return builder.call(builder.inttoptr(args[0], kind.as_pointer()), args[1:])

    return types.int64(types.int64, types.int64, types.int64), codegen


def _run_grid(function: int, launch: Any, frames: Any, blocks: Any, threads: Any, shared: Any) -> int:
    """Run blocks one after the other.

    Args:
        function: address of the translated kernel.
        launch: the launch table.
        frames: frames of the threads of a block, one a row, which contain the threads' places in the block.
        blocks: numbers of the blocks, in the order in which they run.
        threads: numbers of the threads, in the order in which they run.
        shared: the shared memory of a block.

    Returns:
        DONE, FAULT or STUCK; the launch table has the place.
    """
    state = np.empty(threads.size, np.int64)
    table = launch.ctypes.data
    first, stride = frames.ctypes.data, frames.strides[0]
    width, height = launch[at.GRID_SIZE], launch[at.GRID_SIZE + 1]
    for block in blocks:
        launch[at.BLOCK] = block % width
        launch[at.BLOCK + 1] = block // width % height
        launch[at.BLOCK + 2] = block // (width * height)
        frames[:, at.RESUME] = 0
        state[:] = _READY
        shared[:] = 0xDB
        while True:
            left = 0
            for thread in threads:
                if state[thread] == _READY:
                    state[thread] = _run(function, table, first + thread * stride)
                    if state[thread] == at.FAULT:
                        launch[at.FAULT_THREAD] = thread
                        return at.FAULT
                left += state[thread] != at.DONE
            if left == 0:
                break
            if not _release_warps(state, frames) and not _release_block(state, frames):
                launch[at.FAULT_THREAD] = np.argmax(state != at.DONE)
                return at.STUCK
    return at.DONE


def _release_block(state: Any, frames: Any) -> bool:
    """Resume the threads of a barrier at which all have arrived."""
    first = -1
    waiting, living, holding = 0, 0, 0
    for thread in range(state.size):
        living += state[thread] != at.DONE
        if state[thread] != at.BARRIER:
            continue
        if first < 0:
            first = thread
        if frames[thread, at.MEMBERS] == frames[first, at.MEMBERS]:
            waiting += 1
            holding += frames[thread, at.VALUE]
    if first < 0 or waiting < (frames[first, at.CLAMP] or living):
        return False
    barrier, request = frames[first, at.MEMBERS], frames[first, at.REQUEST]
    result = holding
    if request == at.ALL:
        result = holding == waiting
    elif request == at.ANY:
        result = holding > 0
    for thread in range(state.size):
        if state[thread] == at.BARRIER and frames[thread, at.MEMBERS] == barrier:
            frames[thread, at.RESULT] = result
            state[thread] = _READY
    return True


def _release_warps(state: Any, frames: Any) -> bool:
    """Resume the threads of a warp whose live members have all arrived at one instruction."""
    released = False
    for start in range(0, state.size, _WARP):
        end = min(start + _WARP, state.size)
        for thread in range(start, end):
            if state[thread] != at.WARP:
                continue
            members = frames[thread, at.MEMBERS] | (1 << (thread - start))
            present, complete = 0, True
            for other in range(start, end):
                if members >> (other - start) & 1 and state[other] != at.DONE:
                    same = state[other] == at.WARP and frames[other, at.RESUME] == frames[thread, at.RESUME]
                    complete = complete and same
                    present |= 1 << (other - start)
            if complete:
                _answer(frames[start:end], present, frames[thread, at.REQUEST])
                for other in range(start, end):
                    if present >> (other - start) & 1:
                        state[other] = _READY
                released = True
    return released


def _answer(warp: Any, present: int, request: int) -> None:
    """Write the results of a request for the lanes that are present."""
    for lane in range(warp.shape[0]):
        if present >> lane & 1:
            if request <= at.INDEX:
                _shuffle(warp, present, lane, request)
            else:
                _combine(warp, present, lane, request)


def _shuffle(warp: Any, present: int, lane: int, request: int) -> None:
    distance, clamp = warp[lane, at.LANE] & 31, warp[lane, at.CLAMP] & 31
    segment = warp[lane, at.CLAMP] >> 8 & 31
    low = lane & segment
    high = low | (clamp & ~segment)
    source = lane + distance
    if request == at.UP:
        source = lane - distance
    elif request == at.BUTTERFLY:
        source = lane ^ distance
    elif request == at.INDEX:
        source = low | (distance & ~segment)
    holds = source >= high if request == at.UP else source <= high
    if not holds:
        source = lane
    warp[lane, at.HOLDS] = holds
    if request != at.SYNC:
        # The value of a lane that takes no part is undefined: garbage.
        warp[lane, at.RESULT] = warp[source, at.VALUE] if present >> source & 1 else 0xDBDBDBDB


def _combine(warp: Any, present: int, lane: int, request: int) -> None:
    result, count, same = warp[lane, at.VALUE], 0, 0
    for other in range(warp.shape[0]):
        if not present >> other & 1:
            continue
        value = warp[other, at.VALUE]
        count += 1
        if value == warp[lane, at.VALUE]:
            same |= 1 << other
        if other != lane:
            if request == at.ADD:
                result += value
            elif request == at.MIN or request == at.SIGNED_MIN:
                result = min(result, value)
            elif request == at.MAX or request == at.SIGNED_MAX:
                result = max(result, value)
            elif request == at.AND:
                result &= value
            elif request == at.OR:
                result |= value
            elif request == at.XOR:
                result ^= value
    holding = same if warp[lane, at.VALUE] else present & ~same
    if request == at.BALLOT:
        result = holding
    elif request == at.ALL:
        result = holding == present
    elif request == at.ANY:
        result = holding != 0
    elif request == at.UNIFORM or request == at.MATCH_ALL:
        result = same == present
    elif request == at.MATCH_ANY:
        result = same
    warp[lane, at.HOLDS] = same == present
    if request == at.MATCH_ALL:
        result = present if same == present else 0
    warp[lane, at.RESULT] = result


_compiled = numba.njit(cache=True, error_model="numpy")
_shuffle, _combine = _compiled(_shuffle), _compiled(_combine)
_answer = _compiled(_answer)
_release_block, _release_warps = _compiled(_release_block), _compiled(_release_warps)
run_grid = numba.njit(cache=True, error_model="numpy", nogil=True)(_run_grid)
