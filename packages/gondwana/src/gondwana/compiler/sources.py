"""Digests of the parts of the library's own sources that go into machine code, for the names of the object cache.

A digest covers the definition that makes the code, all definitions that it refers to, directly or not, and what the
modules of these register with the compiler at import. Which overloads a user's function needs is not known before it
is compiled: it is assumed to need those of all modules `*_overloads` (`OVERLOADS`).

All sources are read at each start, which takes some milliseconds. If they equal those of an earlier start, its digests
are used: they are kept beside the machine code. Else the definitions are found in the syntax trees
(`gondwana.compiler.definitions`), once for each text of a module. Nothing relies on the times of files. If the library
was installed, and not as editable, all sources count as one definition: to read the syntax of all would take a third of
the time of a first start.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gondwana.runtime.cache_folder import cache_folder, keep, locked, read

if TYPE_CHECKING:
    from gondwana.compiler.definitions import Module

OVERLOADS = "*_overloads"
"""Stands for all names that code of users may use, among the arguments of `digest`."""

_FOLDER = Path(__file__).parents[1]
_PACKAGE = _FOLDER.name
_IS_EDITED = _FOLDER.parent.name not in ("site-packages", "dist-packages")
"""Whether the sources may be edited; those that an installer has put there change together, and seldom."""
_CHUNK = 1 << 16


def digest(*roots: str) -> str:
    """Return a digest of definitions and of all that they refer to. Local.

    Args:
        roots: dotted names of definitions, `gondwana.compiler.codegen.compile_entry` for instance, or `OVERLOADS`. A
            name outside of the package is ignored.
    """
    library = _library()
    return hashlib.sha256("\0".join(map(library.digest, roots)).encode()).hexdigest()


@functools.cache
def _library() -> _Library:
    return _Library()


class _Library:
    """The sources at the time of the first question in this process, and the digests of their definitions."""

    def __init__(self) -> None:
        self._signature = _signature()
        folder = cache_folder("sources") if _IS_EDITED else None
        name = hashlib.sha256(f"{_FOLDER} {sys.version}".encode()).hexdigest()
        self._file = None if folder is None else folder / f"{name}.json"
        self._digests: dict[str, str] = self._kept()
        self._graph: Graph | None = None

    def digest(self, root: str) -> str:
        """Return the digest of one name."""
        if not _IS_EDITED:
            return self._signature
        found = self._digests.get(root)
        if found is None:
            with nullcontext() if self._file is None else locked(self._file):
                self._digests = self._kept() | self._digests
                found = self._digests.get(root) or self._find(root)
        return found

    def _find(self, root: str) -> str:
        if self._graph is None:
            found = texts()
            if not found or _signature(found) != self._signature:
                # There are none, or they were edited since: the results of this process are of no use to others.
                return os.urandom(32).hex()
            self._graph = Graph(found)
            self._graph.load(self._beside())
        digest = self._digests[root] = self._graph.digest(root)
        if self._file is not None:
            keep(self._file, _sealed({"signature": self._signature, "digests": self._digests}))
            self._graph.keep(self._beside())
        return digest

    def _kept(self) -> dict[str, str]:
        """The digests that an earlier process has found in the same sources."""
        record = None if self._file is None else _opened(self._file)
        return record["digests"] if record is not None and record["signature"] == self._signature else {}

    def _beside(self) -> Path | None:
        return None if self._file is None else self._file.with_suffix(".definitions.json")


def texts() -> dict[Path, bytes]:
    """Return all sources. Local."""
    return {Path(path): _text(path) for path in _files(str(_FOLDER))}


def _signature(found: dict[Path, bytes] | None = None) -> str:
    """A digest of all sources, as they were found or as they are now."""
    whole = hashlib.sha256(sys.version.encode())
    for path in _files(str(_FOLDER)) if found is None else found:
        text = _text(str(path)) if found is None else found[Path(path)]
        whole.update(f"\0{path}\0{len(text)}\0".encode())
        whole.update(text)
    return whole.hexdigest()


def _files(folder: str) -> Iterator[str]:
    """The sources in a folder, in an order that is always the same."""
    try:
        with os.scandir(folder) as found:
            entries = sorted(found, key=lambda entry: entry.name)
    except OSError:  # an archive
        return
    for entry in entries:
        if entry.name.endswith(".py"):
            yield entry.path
        elif entry.name.isidentifier() and entry.name != "__pycache__" and entry.is_dir():
            yield from _files(entry.path)


def _text(path: str) -> bytes:
    """The content of a file: with a buffer that nearly always suffices, in a sixth of the time of `read_bytes`."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        parts = [os.read(descriptor, _CHUNK)]
        while len(parts[-1]) == _CHUNK:
            parts.append(os.read(descriptor, _CHUNK))
    finally:
        os.close(descriptor)
    return b"".join(parts)


def _sealed(values: Any) -> bytes:
    """Values of JSON after their digest."""
    content = json.dumps(values).encode()
    return hashlib.sha256(content).hexdigest().encode() + content


def _opened(file: Path) -> Any:
    """The values in a file of `_sealed`, None if it is missing or damaged."""
    data = read(file) or b""
    return json.loads(data[64:]) if hashlib.sha256(data[64:]).hexdigest().encode() == data[:64] else None


_Node = tuple[str, int]
"""A module and the number of a definition in it; -1 stands for the effects of importing the module."""


class Graph:
    """The definitions of the package, and the references between them."""

    def __init__(self, texts: dict[Path, bytes]) -> None:
        self._texts: dict[str, tuple[bytes, bool]] = {}
        for path, text in texts.items():
            parts = path.relative_to(_FOLDER.parent).with_suffix("").parts
            package = parts[-1] == "__init__"
            self._texts[".".join(parts[:-1] if package else parts)] = text, package
        self._modules: dict[str, Module] = {}
        self._binding: dict[str, dict[str, list[int]]] = {}
        self._known: dict[str, tuple[str, Any]] = {}
        self._new = False

    def load(self, file: Path | None) -> None:
        """Take over the definitions that an earlier process has found in modules with the same texts."""
        self._known = (None if file is None else _opened(file)) or {}

    def keep(self, file: Path | None) -> None:
        """Keep the definitions found, if some are new."""
        from gondwana.compiler.definitions import as_values

        if file is not None and self._new:
            found = {name: (self._name_of(name), as_values(module)) for name, module in self._modules.items()}
            keep(file, _sealed(self._known | found))
            self._new = False

    def digest(self, root: str) -> str:
        """Return a digest of all definitions that a root leads to."""
        of_modules: dict[str, list[int]] = defaultdict(list)
        for name, number in sorted(self._closure(root)):  # definitions in their order: it may matter to the compiler
            of_modules[name] += [number] if number >= 0 else []
        parts = {
            name: [self._module(name).definitions[i].digest for i in numbers] for name, numbers in of_modules.items()
        }
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    def reached(self, root: str) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Return the modules and names of the definitions that a root leads to."""
        for name, number in self._closure(root):
            if number >= 0:
                yield name, self._module(name).definitions[number].names

    def _closure(self, root: str) -> set[_Node]:
        """All definitions that a root leads to."""
        todo, seen, effects = list(self._root(root)), set[_Node](), set[_Node]()
        while todo:
            while todo:
                node = todo.pop()
                if node not in seen:
                    seen.add(node)
                    todo += self._next(node)
                    effects |= self._effects(node)
            todo = [effect for effect in effects - seen if self._matters(effect, seen)]
        return seen

    def _root(self, root: str) -> Iterator[_Node]:
        if root != OVERLOADS:
            yield from self._meaning(root)
            return
        yield from ((name, -1) for name in self._texts if name.endswith(OVERLOADS[1:]))

    def _next(self, node: _Node) -> Iterator[_Node]:
        """The definitions that a node refers to."""
        name, number = node
        module = self._module(name)
        if number >= 0:
            yield name, -1
            for dotted in module.definitions[number].refers:
                yield from self._meaning(dotted)
            return
        for dotted in module.unused:
            yield from ((other, -1) for other, _ in self._meaning(dotted))
        executed = {other for dotted in module.imported.values() for other, _ in self._meaning(dotted)}
        yield from ((other, -1) for other in executed if self._module(other).compiles)

    def _effects(self, node: _Node) -> set[_Node]:
        """The effects of importing a module besides defining names."""
        name, number = node
        definitions = self._module(name).definitions if number < 0 else ()
        return {(name, number) for number, definition in enumerate(definitions) if definition.effect}

    def _matters(self, effect: _Node, seen: set[_Node]) -> bool:
        """Whether an effect may change a module that was reached."""
        name, number = effect
        for function in self._module(name).definitions[number].effect:
            if not function or any((home, -1) in seen for home, _ in self._meaning(function)):
                return True
        return False

    def _meaning(self, dotted: str) -> Iterator[_Node]:
        """The definitions that a dotted name stands for; all of a module if that is not known."""
        first, *rest = dotted.split(".")
        if first != _PACKAGE:
            return
        name = first
        for place, part in enumerate(rest):
            module, inner = self._module(name), f"{name}.{part}"
            bound, target = self._binding[name].get(part, ()), module.imported.get(part)
            yield from ((name, number) for number in bound)
            if target is not None and target != inner:
                yield from self._meaning(".".join((target, *rest[place + 1 :])))
            if bound or (target is not None and target != inner):
                return
            if inner not in self._texts:
                break
            name = inner
        yield name, -1
        yield from ((name, number) for number in range(len(self._module(name).definitions)))

    def _module(self, name: str) -> Module:
        if name not in self._modules:
            self._modules[name] = found = self._found(name)
            binding: dict[str, list[int]] = defaultdict(list)
            for number, definition in enumerate(found.definitions):
                for bound in definition.names:
                    binding[bound].append(number)
            self._binding[name] = dict(binding)
        return self._modules[name]

    def _found(self, name: str) -> Module:
        from gondwana.compiler import definitions

        known = self._known.get(name)
        if known is not None and known[0] == self._name_of(name):
            return definitions.from_values(known[1])
        self._new = True
        text, package = self._texts[name]
        return definitions.module(name, text, package=package)

    def _name_of(self, name: str) -> str:
        """A digest of the text of a module."""
        text, package = self._texts[name]
        return hashlib.sha256(text + bytes([package])).hexdigest()
