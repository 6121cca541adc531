"""Machine code of ranks as Python, with loads and stores that are checked against the memory model of LLVM.

The sources of machine code are Python functions of addresses. Here they are run as such, by several ranks in turns in
one thread, and functions that note each access replace those of `compiler.memory_order`. A plain access
to a word that another rank accesses, too, has to be ordered: by a release and an acquire of some word, directly or
through other ranks. Where it is not, a processor that keeps fewer orders than x86 (aarch64) may show the word as it was
before, even if it never happens here. And a sequentially consistent load of a shared word, which looks whether
somebody sleeps, has to follow a store of this rank that is sequentially consistent as well: no processor keeps the
order of others.
"""

from __future__ import annotations

import ctypes
import sys
import types
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from gondwana.compiler import memory_order

WORD = 8
Clock = list[int]


@dataclass
class _Word:
    """The accesses to a word.

    Attributes:
        writes: clock of the last write of each rank, and whether that was plain.
        reads: clock of the last read of each rank, and whether that was plain.
        released: writes that the last releases of the word have made visible.
    """

    writes: dict[int, tuple[int, bool]] = field(default_factory=dict)
    reads: dict[int, tuple[int, bool]] = field(default_factory=dict)
    released: Clock = field(default_factory=list)


class Memory:
    """Replaces `compiler.memory_order`, for machine code of ranks that run in turns: `rank` is whose turn it is.

    Args:
        ranks: number of ranks.
        plain: names of functions of this class whose order is left out, to see that this is found.

    Attributes:
        faults: accesses that are not ordered.
    """

    def __init__(self, ranks: int, plain: Iterable[str] = ()) -> None:
        self.rank = 0
        self.faults: set[str] = set()
        self._plain = frozenset(plain)
        self._now = [[int(other == rank) for other in range(ranks)] for rank in range(ranks)]
        self._words: dict[int, _Word] = {}
        self._stores: list[set[int]] = [set() for _ in range(ranks)]  # since the last one that is consistent
        self._looks: list[tuple[set[int], int, str]] = []

    # -- operations of machine code --------------------------------------------------------------------------------

    def load_word(self, address: int) -> int:
        self._access(address, write=False, plain=True)
        return ctypes.c_int64.from_address(address).value

    def load_acquire(self, address: int) -> int:
        self._access(address, write=False, plain="load_acquire" in self._plain)
        return ctypes.c_int64.from_address(address).value

    def store_release(self, address: int, value: int) -> None:
        self._store(address, value, "store_release", consistent=False)

    def atomic_load(self, address: int, like: int) -> int:
        self._looks.append((set(self._stores[self.rank]), address, _caller()))
        self._access(address, write=False, plain=False)
        return ctypes.c_int64.from_address(address).value

    def atomic_store(self, address: int, value: int) -> None:
        self._store(address, value, "atomic_store", consistent=True)

    def exchange(self, address: int, value: int) -> int:
        return self._update(address, lambda old: value)

    def compare_exchange(self, address: int, expected: int, value: int) -> int:
        return self._update(address, lambda old: value if old == expected else old)

    def fetch_add(self, address: int, value: int) -> int:
        return self._update(address, lambda old: old + value)

    fetch_add_word = fetch_add

    def fetch_bit_or(self, address: int, value: int) -> int:
        return self._update(address, lambda old: old | value)

    def fetch_bit_and(self, address: int, value: int) -> int:
        return self._update(address, lambda old: old & value)

    def move_bytes(self, target: int, source: int, count: int) -> None:
        for address in range(source, source + count, WORD):
            self._access(address, write=False, plain=True)
        for address in range(target, target + count, WORD):
            self._access(address, write=True, plain=True)
        ctypes.memmove(target, source, count)

    def pause(self) -> None: ...

    def sched_yield(self) -> None: ...

    def futex_wake(self, address: int, count: int) -> None: ...

    # -- operations of a test --------------------------------------------------------------------------------------

    def write(self, address: int, value: int) -> None:
        """Write a word as the program of a rank does."""
        self._access(address, write=True, plain=True)
        ctypes.c_int64.from_address(address).value = value

    def found(self) -> list[str]:
        """Return the faults, and the stores that may pass a later load."""
        shared = {address for address, word in self._words.items() if len(word.reads.keys() | word.writes.keys()) > 1}
        passed = {where for stores, address, where in self._looks if address in shared and stores & shared}
        return sorted(self.faults | {f"{where}: a store before may be seen after this load" for where in passed})

    # -- the model -------------------------------------------------------------------------------------------------

    def _store(self, address: int, value: int, name: str, *, consistent: bool) -> None:
        self._access(address, write=True, plain=name in self._plain)
        if consistent and name not in self._plain:
            self._stores[self.rank].clear()
        else:
            self._stores[self.rank].add(address)
        ctypes.c_int64.from_address(address).value = value

    def _update(self, address: int, change: Callable[[int], int]) -> int:
        old = ctypes.c_int64.from_address(address).value
        self._access(address, write=False, plain=False)
        self._access(address, write=True, plain=False, kept=True)
        self._stores[self.rank].clear()
        ctypes.c_int64.from_address(address).value = change(old)
        return old

    def _access(self, address: int, *, write: bool, plain: bool, kept: bool = False) -> None:
        address &= -WORD
        word, now = self._words.setdefault(address, _Word()), self._now[self.rank]
        before = [word.writes, word.reads] if write else [word.writes]
        for rank, (time, was_plain) in ((rank, entry) for entries in before for rank, entry in entries.items()):
            if rank != self.rank and (plain or was_plain) and time > now[rank]:
                self.faults.add(f"{_caller()}: this access and one of another rank have no order")
        (word.writes if write else word.reads)[self.rank] = now[self.rank], plain
        if plain:
            return
        if write:
            word.released = _later(word.released, now) if kept else list(now)
            now[self.rank] += 1
        else:
            now[:] = _later(word.released, now)


def _later(released: Clock, now: Clock) -> Clock:
    return [max(pair) for pair in zip(released, now, strict=True)] if released else list(now)


def _caller() -> str:
    """The function of machine code that makes an access, and its line."""
    frame = sys._getframe(1)
    while frame.f_code.co_filename == __file__:
        assert frame.f_back is not None
        frame = frame.f_back
    return f"{frame.f_globals['__name__']}.{frame.f_code.co_name}, line {frame.f_lineno}"


def as_python(module: types.ModuleType, memory: Memory, made: dict[str, Any] | None = None) -> Any:
    """Return the functions of a module of machine code, and of those that it imports, as Python that uses `memory`."""
    made = {} if made is None else made
    if module.__name__ not in made:
        names = types.SimpleNamespace(__name__=module.__name__)
        made[module.__name__] = names
        for name, value in vars(module).items():
            function = getattr(value, "py_func", value)
            if getattr(memory_order, name, None) is value and hasattr(memory, name):
                setattr(names, name, getattr(memory, name))
            elif isinstance(function, types.FunctionType) and function.__module__ == module.__name__:
                parts = name, function.__defaults__, function.__closure__
                setattr(names, name, types.FunctionType(function.__code__, vars(names), *parts))
            elif hasattr(value, "py_func"):
                home = as_python(sys.modules[function.__module__], memory, made)
                # Calls of MPI are made one by one: nothing that is modelled calls them.
                setattr(names, name, getattr(home, function.__name__, None))
            elif not name.startswith("__"):
                setattr(names, name, value)
        vars(names)["__builtins__"] = __builtins__
    return made[module.__name__]
