"""Special registers: where a thread is, and what time it is."""

from __future__ import annotations

from gondwana_emulator.ptx import layout
from gondwana_emulator.ptx.writer import Writer

PROCESSORS = 4
"""Multiprocessors of the emulated device."""

_LANE = "and i64 {n}, 31"
_MASKS = {
    "%lanemask_eq": ("shl i64 1, {lane}",),
    "%lanemask_lt": ("shl i64 1, {lane}", "sub i64 {v}, 1"),
    "%lanemask_le": ("shl i64 2, {lane}", "sub i64 {v}, 1"),
    "%lanemask_gt": ("shl i64 2, {lane}", "sub i64 4294967296, {v}"),
    "%lanemask_ge": ("shl i64 1, {lane}", "sub i64 4294967296, {v}"),
}
_AXES = {
    "%tid": ("%T", layout.THREAD),
    "%ntid": ("%L", layout.BLOCK_SIZE),
    "%ctaid": ("%L", layout.BLOCK),
    "%nctaid": ("%L", layout.GRID_SIZE),
}
_CONSTANTS = {"%nsmid": PROCESSORS, "%gridid": 1}


def read_special(code: Writer, name: str) -> str:
    """Return a special register as an integer of 64 bits.

    Raises:
        LookupError: it is unknown.
    """
    base, _, axis = name.partition(".")
    if base in _AXES and axis in ("x", "y", "z"):
        table, first = _AXES[base]
        return _word(code, table, first + "xyz".index(axis))
    if name in _CONSTANTS:
        return str(_CONSTANTS[name])
    if name in ("%clock", "%clock64", "%globaltimer", "%globaltimer_lo"):
        return code.call("llvm.readcyclecounter", "i64")
    if name == "%smid":
        return code.value(f"urem i64 {_word(code, '%L', layout.BLOCK)}, {PROCESSORS}")
    if name == "%dynamic_smem_size":
        return _word(code, "%L", layout.DYNAMIC_SHARED)
    if name == "%nwarpid":
        return _warps(code)
    number = _word(code, "%T", layout.NUMBER)
    lane = code.value(_LANE.format(n=number))
    if name == "%laneid":
        return lane
    if name == "%warpid":
        return code.value(f"lshr i64 {number}, 5")
    if name not in _MASKS:
        raise LookupError(f"this machine does not know the register {name}")
    value = ""
    for step in _MASKS[name]:
        value = code.value(step.format(lane=lane, v=value))
    return value


def _word(code: Writer, table: str, number: int) -> str:
    return code.value(f"load i64, ptr {code.value(f'getelementptr i64, ptr {table}, i64 {number}')}")


def _warps(code: Writer) -> str:
    x, y, z = (_word(code, "%L", layout.BLOCK_SIZE + axis) for axis in range(3))
    threads = code.value(f"mul i64 {code.value(f'mul i64 {x}, {y}')}, {z}")
    return code.value(f"lshr i64 {code.value(f'add i64 {threads}, 31')}, 5")
