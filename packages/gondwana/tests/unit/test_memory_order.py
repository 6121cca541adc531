"""What ranks share is ordered: in the sources of machine code, and in what LLVM makes of them for aarch64."""

from __future__ import annotations

import importlib
import inspect
import multiprocessing
import pickle
import random
import re
import types
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import cloudpickle
import numba
import numpy as np
import numpy.typing as npt
import pytest
from llvmlite import binding
from test_native_helpers import FOLDER, helpers

from gondwana.compiler import codegen, memory_order
from gondwana.compiler.inlining import Compiler
from gondwana.compiler.multithreading import pool_native
from gondwana.runtime import idle
from gondwana.sync import rings, rings_native, signals_native
from gondwana.tasks import item_rings, item_rings_native
from gondwana.transfer.collectives import on_node, on_node_native
from gondwana.transfer.plans import host_native
from gondwana.transfer.plans.host import Head
from support.memory_model import Memory, as_python

Words = npt.NDArray[np.int64]
ROUNDS = 60


def words(count: int) -> Words:
    """Words that start where a line of a cache does."""
    memory = np.zeros(count + 8, np.int64)
    return memory[-(memory.ctypes.data // 8) % 8 :][:count]


def at(array: Words, word: int = 0) -> int:
    return array.ctypes.data + 8 * word


def pass_messages(memory: Memory) -> None:
    """Two ranks write to each other's rings: brief messages, long ones in parts, and what makes them wrap around."""
    native, capacity, ranks = as_python(rings_native, memory), 512, 2
    ring = rings.LINE + capacity
    inboxes = [words((rings.LINE + ranks * rings.QUEUES * ring) // 8) for _ in range(ranks)]
    states = [words(rings.state_words(ranks)) for _ in range(ranks)]
    buffers = [words(rings.SMALL_BYTES // 8) for _ in range(ranks)]

    def address(reader: int, queue: int, writer: int) -> int:
        return at(inboxes[reader]) + rings.LINE + (writer * rings.QUEUES + queue) * ring

    for own, state in enumerate(states):
        state[[rings.PEERS, rings.NEAR]], state[rings.BUFFER] = ranks, at(buffers[own])
        for queue in range(rings.QUEUES):
            for peer in range(ranks):
                block = rings.in_block(queue, peer, ranks)
                state[[block + rings.RING, block + rings.CAPACITY]] = address(own, queue, peer), capacity
                block = rings.out_block(queue, peer, ranks)
                state[[block + rings.RING, block + rings.CAPACITY]] = address(peer, queue, own), capacity
                state[block + rings.BELL] = at(inboxes[peer]) + rings.BELL_AT
    rng, sent, came = random.Random(1), [[], []], [[], []]
    wanted: list[Words | None] = [None, None]
    kept: list[Words] = []  # so that no address is used twice

    def receive(own: int) -> None:
        memory.rank, state = own, at(states[own])
        memory.exchange(at(inboxes[own]) + rings.BELL_AT, 1)
        while (event := native.take(state, rings.CALL)) != rings.NOTHING:
            peer, number, length = (int(states[own][word]) for word in (rings.PEER, rings.NUMBER, rings.LENGTH))
            if event == rings.WANTED:
                wanted[own] = words(length // 8)
                kept.append(wanted[own])
                native.provide(state, rings.CALL, peer, at(wanted[own]), length)
            else:
                source = buffers[own] if event == rings.SMALL else wanted[own]
                came[own].append((number, source[: length // 8].tolist()))

    for number in range(1, ROUNDS):
        own = rng.randrange(ranks)
        data, parts = words(rng.choice([1, 3, 7, 25, 100])), words(2)
        kept += [data, parts]
        data[:] = number
        parts[:] = at(data), data.nbytes
        sent[1 - own].append((number, data.tolist()))
        done = 0
        while done < data.nbytes:
            memory.rank = own
            block = at(states[own], rings.out_block(rings.CALL, 1 - own, ranks))
            done = native.push_parts(block, 0, number, at(parts), 1, data.nbytes, done)
            if done < data.nbytes or rng.random() < 0.5:
                receive(1 - own)
    for own in range(ranks):
        receive(own)
    assert came == sent


def send_signals(memory: Memory) -> None:
    """A rank writes and signals; the other waits and reads, and signals back."""
    native, lines, data = as_python(signals_native, memory), words(2 * signals_native.CHANNEL // 8), words(1)
    for number in range(ROUNDS):
        for own in range(2):
            memory.rank = own
            if number or own:
                assert native.take_soon(at(lines) + own * signals_native.CHANNEL, 1, 1) == 1
                assert memory.load_word(at(data)) == 2 * number + own
            memory.write(at(data), 2 * number + own + 1)
            native.add(at(lines) + (1 - own) * signals_native.CHANNEL, 1)


def meet(memory: Memory) -> None:
    """Three ranks take part in collectives through shared memory, and write what they contribute the next time."""
    native, ranks = as_python(on_node_native, memory), 3
    area = words((on_node.HEAD + 2 * ranks * on_node.SLOT) // 8)
    blocks, own, results = [words(16) for _ in range(ranks)], words(8 * ranks), words(8 * ranks)
    givers, takers = words(ranks), words(ranks)
    rng = random.Random(2)
    for rank, block in enumerate(blocks):
        block[:3] = at(area), rank, ranks
        givers[rank], takers[rank] = at(own, 8 * rank), at(results, 8 * rank)
    for number in range(ROUNDS):
        root, is_bcast = number % ranks, number % 2 == 0
        what = (on_node.BCAST if is_bcast else on_node.ALLREDUCE) << on_node.KIND | 8
        waiting = list(range(ranks))
        started: set[int] = set()
        while waiting:
            rank = memory.rank = rng.choice(waiting)
            if rank not in started:
                memory.write(at(own, 8 * rank), 10 * number + rank)
                started.add(rank)
            source = at(givers, rank) if rank == root or not is_bcast else 0
            how = -1 - root if is_bcast else on_node.NUMPY
            n = native.advance(at(blocks[rank]), what, source, at(takers, rank) if is_bcast else 0, how, 1)
            if n == on_node.LATE:
                continue
            assert n > 0
            if is_bcast and rank != root:
                assert memory.load_word(at(results, 8 * rank)) == 10 * number + root
            if not is_bcast:  # what NumPy combines
                parts = [memory.load_word(native.slot(at(area), other, n) + on_node.WORD) for other in range(ranks)]
                assert parts == [10 * number + other for other in range(ranks)]
            waiting.remove(rank)


def hand_over(memory: Memory) -> None:
    """Two ranks put items into rings of two slots and two take them, and some say that they may sleep."""
    native, rng = as_python(item_rings_native, memory), random.Random(3)
    for unbuffered in (0, 1):
        slots, stride = 2, 64
        ring, bells, data, outs = words((item_rings.RING.slots + slots * stride) // 8), words(5), words(8), words(16)
        where = words(4 * 8)
        bells[:] = 4, *[at(where, 8 * rank) for rank in range(4)]
        ring[[item_rings.RING.capacity // 8, item_rings.RING.stride // 8, item_rings.RING.unbuffered // 8]] = (
            slots,
            stride,
            unbuffered,
        )
        ring[item_rings.RING.slots // 8 :: stride // 8] = item_rings.STEP.all * np.arange(slots)
        put, taken = [], []
        for number in range(4 * ROUNDS):
            rank = memory.rank = rng.randrange(4)
            memory.exchange(int(bells[1 + rank]), 1)
            if rank < 2:
                memory.write(at(data, rank), number)
                if native.push_soon(at(ring), at(data, rank), 8, at(bells), 1, 1 << rank) >= 0:
                    put.append(number)
            elif native.pull_soon(at(ring), at(outs, 4 * rank), at(bells), 1, 1 << rank) >= 0:
                taken.append(memory.load_word(at(outs, 4 * rank + 1)))
        assert taken == put[: len(taken)]
        assert len(put) - len(taken) <= slots
        assert len(taken) > ROUNDS // 2


def exchange_ghosts(memory: Memory) -> None:
    """Two ranks write into each other's ghosts by a plan, and compute with them between the rounds."""
    native = as_python(host_native, memory)
    flags, rows, cells = words(64), words(1), words(16)
    plans, links = [words(len(host_native.HEAD)) for _ in range(2)], [words(len(host_native.LINK)) for _ in range(2)]
    native.execute_rows = lambda table, first, last: (
        last > first and memory.move_bytes(at(cells, 8 * (1 - memory.rank) + 1), at(cells, 8 * memory.rank), 8)
    )
    for own in range(2):
        head = Head(links=1, links_at=at(links[own]), rows_at=at(rows), own=0, messages=0, received=0, messages_at=0)
        plans[own][: len(head)] = head
        enter, ready = ([at(flags, 16 * which + 8 * rank) for rank in (1 - own, own)] for which in (0, 1))
        links[own][:] = *enter, *ready, 0, 1, 0
    rng = random.Random(4)
    for number in range(ROUNDS):
        waiting = [0, 1]
        for own in rng.sample(waiting, 2):
            memory.rank = own
            memory.write(at(cells, 8 * own), 10 * number + own)
            native.advance(at(plans[own]), 0)
        while waiting:
            own = memory.rank = rng.choice(waiting)
            if native.advance(at(plans[own]), 1) == 1:
                assert memory.load_word(at(cells, 8 * own + 1)) == 10 * number + 1 - own
                waiting.remove(own)


def test_a_bell_is_armed_before_what_it_announces_is_looked_for() -> None:
    if idle._SYS_FUTEX < 0:
        pytest.skip("no bells on this processor")
    bell, word, seen = idle._Bell(), words(1), []
    bell.word, bell.address = word.data, at(word)

    def look() -> bool:
        seen.append(int(word[0]))
        word[0] = 0  # another rank rings: there is no sleep any more
        return len(seen) == 1

    for _ in range(2):
        bell.sleep(0.9, look)
        assert word[0] == 0
    assert seen == [1, 1]


PROTOCOLS = [pass_messages, send_signals, meet, hand_over, exchange_ghosts]


@pytest.mark.parametrize("run", PROTOCOLS)
def test_what_ranks_share_is_ordered(run: Callable[[Memory], None]) -> None:
    memory = Memory(4)
    run(memory)
    assert memory.found() == []


@pytest.mark.parametrize(
    ("run", "left_out"),
    [
        *[(run, "load_acquire") for run in PROTOCOLS],
        *[(run, "store_release") for run in (meet, pass_messages, exchange_ghosts)],
        *[(run, "atomic_store") for run in (pass_messages, hand_over)],
    ],
)
def test_an_order_that_is_left_out_is_found(run: Callable[[Memory], None], left_out: str) -> None:
    memory = Memory(4, plain=[left_out])
    run(memory)
    assert memory.found()


# -- machine code for aarch64 ----------------------------------------------------------------------------------------

TRIPLE = "aarch64-unknown-linux-gnu"
PROCESSORS = ("generic", "neoverse-v1")
"""The first aarch64, and one that has instructions which read, modify and write, and weaker acquiring loads."""

PRIMITIVES: dict[str, tuple[str, str]] = {
    "load_acquire": ("ldar", "ldapr"),
    "store_release": ("stlr", "stlr"),
    "atomic_load": ("ldar", "ldar"),
    "atomic_store": ("stlr", "stlr"),
    "fetch_add_word": ("ldaxr stlxr", "ldaddal"),
    "compare_exchange": ("ldaxr stlxr", "casal"),
    "exchange": ("ldaxr stlxr", "swpal"),
    "fetch_add": ("ldaxr stlxr", "ldaddal"),
    "fetch_sub": ("ldaxr stlxr", "ldaddal"),
    "fetch_mul": ("ldr ldaxr stlxr", "ldr casal"),
    "fetch_min": ("ldaxr stlxr", "ldsminal"),
    "fetch_max": ("ldaxr stlxr", "ldsmaxal"),
    "fetch_bit_and": ("ldaxr stlxr", "ldclral"),
    "fetch_bit_or": ("ldaxr stlxr", "ldsetal"),
    "fetch_bit_xor": ("ldaxr stlxr", "ldeoral"),
}
"""What `memory_order` has for words that ranks share, and the instructions that access memory, for each processor."""

OTHERS = {
    "INT", "bits_of", "call_at", "current_core", "declare", "futex_wait", "futex_wake", "intrinsic", "is_word",
    "leave_core", "load_word", "move_bytes", "partial", "pause", "sched_yield", "value_of",
}  # fmt: skip
"""What else is defined there: it has no order, or is of another module."""

EXAMPLES = {
    "gondwana.calls.active_messages.message_native": "serve_messages",
    "gondwana.calls.brief_calls_native": "send_call",
    "gondwana.compiler.multithreading.pool_native": "run",
    "gondwana.compiler.reports.touching_native": "touch",
    "gondwana.races.shadow_native": "sweep",
    "gondwana.sync.atomics_native": "int32",
    "gondwana.sync.delivery_native": "poll",
    "gondwana.sync.rings_native": "push_one",
    "gondwana.sync.signals_native": "take_soon",
    "gondwana.tasks.item_rings_native": "push",
    "gondwana.transfer.collectives.on_node_native": "meet",
    "gondwana.transfer.host_copies_native": "number",
    "gondwana.transfer.collectives.migration_native": "move_apart",
    "gondwana.transfer.plans.host_native": "advance",
}
"""One helper of each module of machine code that has an order."""

EMITTED = {
    "compiler/memory_order.py",
    "kernels/cpu/build.py",  # the first point that raises
    "memory/pointer_overloads.py",  # elements that programs put and get
}
"""Files that have LLVM's atomic instructions for the processor."""


@pytest.fixture(scope="module")
def for_arm() -> Iterator[Callable[[Any, int, str], tuple[str, str]]]:
    """A function that compiles one of integers for a processor, to LLVM's instructions and to assembly.

    In a process in which nothing has been compiled for this processor: LLVM ends one that has its instructions to emit.
    """
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), for_other_processors) as pool:
        yield lambda function, *how: pool.submit(compiled, cloudpickle.dumps(function), *how).result()


def for_other_processors() -> None:
    """Prepare a process."""
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    memory_order._PAUSE = ""  # to check it would need a parser of the assembly
    setattr(pool_native, "platform", types.SimpleNamespace(machine=lambda: "aarch64"))  # noqa: B010


def compiled(function: bytes, arguments: int, processor: str) -> tuple[str, str]:
    """Compile a pickled function."""
    signature = codegen._signature(arguments)
    library = numba.cfunc(signature, error_model="numpy", pipeline_class=Compiler)(pickle.loads(function))._library
    machine = binding.Target.from_triple(TRIPLE).create_target_machine(cpu=processor, opt=3)
    text = re.sub(r'"target-(cpu|features)"="[^"]*"', "", library.get_llvm_str())
    text = re.sub(r"^target triple = .*", f'target triple = "{TRIPLE}"', text, flags=re.MULTILINE)
    layout = f'target datalayout = "{machine.target_data}"'
    module = binding.parse_assembly(re.sub(r"^target datalayout = .*", layout, text, flags=re.MULTILINE))
    builder = binding.create_pass_builder(machine, binding.create_pipeline_tuning_options(speed_level=2))
    builder.getModulePassManager().run(module, builder)
    return str(module), machine.emit_assembly(module)


def accesses(assembly: str) -> list[str]:
    """The instructions that access memory other than the stack, in order."""
    found = re.findall(r"^\t((?:ld|st|cas|swp)\w*)\t(.*\[(?!sp).*)$", assembly, re.MULTILINE)
    return [name for name, _ in found]


def test_all_primitives_are_known() -> None:
    names = {name for name, value in vars(memory_order).items() if callable(value) and not name.startswith("_")}
    assert names - {"Any", "Callable"} == PRIMITIVES.keys() | OTHERS


@pytest.mark.parametrize("processor", PROCESSORS)
@pytest.mark.parametrize("name", PRIMITIVES)
def test_a_primitive_is_ordered_on_aarch64(for_arm: Callable[..., tuple[str, str]], name: str, processor: str) -> None:
    primitive, zero = getattr(memory_order, name), np.int64(0)
    if name in ("load_acquire", "atomic_load"):
        given = (zero,) if name == "atomic_load" else ()
        _, assembly = for_arm(lambda a, b, c: primitive(a, *given), 3, processor)
    elif name == "compare_exchange":
        _, assembly = for_arm(lambda a, b, c: primitive(a, b, c), 3, processor)
    elif name in ("store_release", "atomic_store"):

        def store(a: int, b: int, c: int) -> int:
            primitive(a, b)
            return 0

        _, assembly = for_arm(store, 3, processor)
    else:
        _, assembly = for_arm(lambda a, b, c: primitive(a, b), 3, processor)
    found = [access for access in accesses(assembly) if access != "str"]  # that of the result
    assert " ".join(found) == PRIMITIVES[name][PROCESSORS.index(processor)]


def test_no_other_file_has_atomic_instructions() -> None:
    pattern = r"\b(load_atomic|store_atomic|atomic_rmw|cmpxchg|fence)\("
    files = (file for file in FOLDER.rglob("*.py") if "cuda" not in file.parts)
    assert {file.relative_to(FOLDER).as_posix() for file in files if re.search(pattern, file.read_text())} == EMITTED


def test_there_is_an_example_of_each_module() -> None:
    modules = {module for module, _, _ in helpers()}
    ordered = {name for name in modules if PRIMITIVES.keys() & vars(importlib.import_module(name)).keys()}
    assert ordered <= EXAMPLES.keys()


@pytest.mark.parametrize(("module", "name"), EXAMPLES.items())
def test_machine_code_is_ordered_on_aarch64(for_arm: Callable[..., tuple[str, str]], module: str, name: str) -> None:
    function = getattr(importlib.import_module(module), name)
    [arguments] = {count for home, helper, count in helpers() if (home, helper) == (module, name)} or {
        len(inspect.signature(function).parameters)
    }
    llvm, assembly = for_arm(function, arguments, PROCESSORS[0])
    expected = {
        r"load atomic .* (acquire|seq_cst)": r"ldar",
        r"store atomic .* (release|seq_cst)": r"stlr",
        r"(atomicrmw|cmpxchg) .* seq_cst": r"ldaxr",
        r"(atomicrmw|cmpxchg) .* (release|seq_cst) ": r"stlxr",
    }
    needed = {instruction for pattern, instruction in expected.items() if re.search(pattern, llvm)}
    assert needed
    assert needed <= set(accesses(assembly))
