"""Compilation of a function that a team of threads calls: arguments from one block, errors in a line of each thread."""

from __future__ import annotations

import types as pytypes

from gondwana.compiler.cache import ObjectCode
from gondwana.compiler.call import result_names, storer
from gondwana.compiler.codegen import compile_entry, guarded, typed
from gondwana.compiler.inlining import inlined
from gondwana.compiler.memory_order import load_word
from gondwana.compiler.multithreading.pool import LINE
from gondwana.compiler.multithreading.team import HEADER_WORDS, SLOTS, STATUS, THREADS
from gondwana.compiler.multithreading.team_overloads import TEAM, leave, make_team
from gondwana.compiler.types.arguments import WORD, Spec
from gondwana.compiler.types.unpack import Typing, loader

_MEMORY = 3 * WORD


def compile_team_call(
    function: pytypes.FunctionType, specs: tuple[Spec, ...], precision: str, *, reassociate: bool
) -> ObjectCode:
    """Machine code for the call of `function` by each thread of a team, with arguments of these specs. Local.

    Raises:
        KernelError: the function does not type, or returns what cannot be handed to Python.
    """
    typing = Typing(precision)
    kinds = tuple(typing.type_of(spec) for spec in specs)
    twin, result = typed(function, (TEAM, *kinds), reassociate=reassociate)
    names = result_names(function, result)
    load = loader(specs, kinds, HEADER_WORDS * WORD)
    store = storer(result)

    @inlined
    def run(line: int, block: int, memory: int, thread: int, threads: int) -> int:
        team = make_team(memory, thread, threads, load_word(memory + SLOTS))
        value = twin(team, *load(block))
        if thread == 0:
            store(block, value)
        return 0

    def entry(block: int, thread: int, threads: int) -> int:
        memory = load_word(block + _MEMORY)
        guarded(run, memory + THREADS + thread * LINE + STATUS, (block, memory, thread, threads))
        leave(memory, thread)
        return 0

    return compile_entry(entry, 3, {"results": names})
