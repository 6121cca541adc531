"""Barriers, shuffles and votes: a thread stores its request in its frame, returns, and is called again later."""

from __future__ import annotations

from gondwana_emulator.ptx import layout
from gondwana_emulator.ptx.instructions.table import Statement
from gondwana_emulator.ptx.syntax import Pair

_SHUFFLES = {"up": layout.UP, "down": layout.DOWN, "bfly": layout.BUTTERFLY, "idx": layout.INDEX}
_VOTES = {"all": layout.ALL, "any": layout.ANY, "uni": layout.UNIFORM, "ballot": layout.BALLOT}
_BARRIERS = {"popc": layout.COUNT, "and": layout.ALL, "or": layout.ANY}
_MATCHES = {"any": layout.MATCH_ANY, "all": layout.MATCH_ALL}
_SUMS = {"add": layout.ADD, "and": layout.AND, "or": layout.OR, "xor": layout.XOR}


def wait(statement: Statement) -> tuple[int, str]:
    """Write the request of an instruction at which threads wait.

    Returns:
        Value that the thread returns to the loop, and type of the result ("" without one).
    """
    return _REQUESTS.get(statement.opcode, _barrier)(statement)


def answer(statement: Statement, kind: str) -> None:
    """Write the result into the registers."""
    if not kind:
        return
    context, code = statement.context, statement.code
    result, target = context.word("%T", layout.RESULT), statement.operand(0)
    width = 1 if kind == "pred" else int(kind[1:])
    context.put(target, kind, code.resize(result, 64, width))
    if isinstance(target, Pair):
        context.put(target.second, "pred", code.resize(context.word("%T", layout.HOLDS), 64, 1))


def _request(statement: Statement, request: int, **words: str) -> None:
    statement.context.set_word("%T", layout.REQUEST, str(request))
    for name, value in words.items():
        statement.context.set_word("%T", getattr(layout, name), value)


def _word(statement: Statement, number: int, kind: str = "b32") -> str:
    width = 1 if kind == "pred" else int(kind[1:])
    return statement.code.resize(statement.get(number, kind), width, 64, signed=kind[0] == "s")


def _shuffle(statement: Statement) -> tuple[int, str]:
    statement.flag("sync")
    request = _SHUFFLES[statement.choice(tuple(_SHUFFLES))]
    statement.kind()
    value, lane, clamp, members = (_word(statement, number) for number in (1, 2, 3, 4))
    _request(statement, request, VALUE=value, LANE=lane, CLAMP=clamp, MEMBERS=members)
    return layout.WARP, "b32"


def _vote(statement: Statement) -> tuple[int, str]:
    statement.flag("sync")
    request = _VOTES[statement.choice(tuple(_VOTES))]
    kind = statement.kind()
    _request(statement, request, VALUE=_word(statement, 1, "pred"), MEMBERS=_word(statement, 2))
    return layout.WARP, kind


def _match(statement: Statement) -> tuple[int, str]:
    statement.flag("sync")
    request = _MATCHES[statement.choice(tuple(_MATCHES))]
    kind = statement.kind()
    _request(statement, request, VALUE=_word(statement, 1, kind), MEMBERS=_word(statement, 2))
    return layout.WARP, "b32"


def _reduce(statement: Statement) -> tuple[int, str]:
    statement.flag("sync")
    name = statement.choice((*_SUMS, "min", "max"))
    kind = statement.kind()
    signed = "SIGNED_" if kind[0] == "s" else ""
    request = _SUMS[name] if name in _SUMS else int(getattr(layout, signed + name.upper()))
    _request(statement, request, VALUE=_word(statement, 1, kind), MEMBERS=_word(statement, 2))
    return layout.WARP, kind


def _barrier(statement: Statement) -> tuple[int, str]:
    """`MEMBERS` is the number of the barrier, `CLAMP` the number of its threads (0: all of the block)."""
    statement.flag("cta", "sync", "aligned")
    if statement.flag("warp"):
        _request(statement, layout.SYNC, MEMBERS=_word(statement, 0))
        return layout.WARP, ""
    if not statement.flag("red"):
        count = _word(statement, 1) if len(statement.instruction.operands) > 1 else "0"
        _request(statement, layout.SYNC, MEMBERS=_word(statement, 0), CLAMP=count)
        return layout.BARRIER, ""
    request = _BARRIERS[statement.choice(tuple(_BARRIERS))]
    kind = statement.kind()
    last = len(statement.instruction.operands) - 1
    count = _word(statement, 2) if last == 3 else "0"
    value = _word(statement, last, "pred")
    _request(statement, request, MEMBERS=_word(statement, 1), CLAMP=count, VALUE=value)
    return layout.BARRIER, kind


_REQUESTS = {"shfl": _shuffle, "vote": _vote, "match": _match, "redux": _reduce}
