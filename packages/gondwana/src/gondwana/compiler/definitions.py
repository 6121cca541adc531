"""Definitions: the statements at the top level of a module, and the names that each of them refers to.

Loaded only to find those. Nothing is imported or run: sources are read as syntax trees. Docstrings, comments and places
are left out, so that two sources with equal definitions have equal digests. What the syntax does not tell is
overestimated: names that a function may shadow, all methods of a class, all of a module that is passed on as a value.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

COMPILERS = ("numba", "llvmlite")
"""Packages that make machine code: statements of a module that imports them may register something there."""

_PURE = frozenset(
    {
        "property",
        "classmethod",
        "staticmethod",
        "abc.abstractmethod",
        "contextlib.contextmanager",
        "dataclasses.dataclass",
        "functools.cache",
        "functools.cached_property",
        "functools.lru_cache",
        "functools.total_ordering",
        "functools.wraps",
        "typing.final",
        "typing.overload",
        "typing.runtime_checkable",
        "numba.extending.intrinsic",
        "numba.njit",
        "gondwana.compiler.inlining.called",
        "gondwana.compiler.inlining.inlined",
        "gondwana.kernels.cuda.compiler.device_function",
        "gondwana.runtime.later.ComputedOnce",
        "gondwana.runtime.tracing.traced",
    }
)
"""Decorators that only make another object of the decorated one."""

_LAUNCHING = frozenset(
    {
        "gondwana.compiler.function.jit",
        *(f"{home}.{name}" for home in ("gondwana", "gondwana.kernels") for name in ("foreach", "reduce", "jit")),
    }
)
"""Decorators of functions to be compiled: they say how, but their own code is not run to compile."""

_KEYED = frozenset({"numba.extending.overload"})
"""Decorators that take a function as a key, which is not run when code is compiled."""

_INERT = frozenset({"atexit.register", "os.register_at_fork"})
"""Functions that keep their arguments for moments at which nothing is compiled."""


class Definition(NamedTuple):
    """A statement of the top level of a module.

    Attributes:
        names: the names that it binds.
        digest: digest of its syntax, and of the meanings of its names.
        refers: dotted names of the objects that it refers to: `package.module.name.attribute`.
        effect: dotted names of the functions by which its execution may change something other than its names, "" for
            any function; empty if there are none.
    """

    names: tuple[str, ...]
    digest: str
    refers: tuple[str, ...]
    effect: tuple[str, ...]


class Module(NamedTuple):
    """The contents of a module.

    Attributes:
        definitions: its definitions, in order.
        imported: dotted names by the names under which they are imported.
        unused: dotted names that are imported only for the effect of the import.
        compiles: whether it imports one of `COMPILERS`.
    """

    definitions: list[Definition]
    imported: dict[str, str]
    unused: list[str]
    compiles: bool


def module(name: str, source: bytes, *, package: bool) -> Module:
    """Return the definitions of a module. Local.

    Args:
        name: its dotted name.
        source: its text.
        package: whether it is the `__init__` of a package, which re-exports what it imports.
    """
    statements = [part for part in ast.parse(source).body if not _is_string(part) and not _is_for_types(part)]
    imported: dict[str, str] = {}
    for part in statements:
        for found in _outside_functions(part):
            if isinstance(found, ast.Import | ast.ImportFrom):
                imported |= _imported(found)
    sets_globals = re.search(rb"^\s+global ", source, re.MULTILINE) is not None
    parts = [(part, _bound(part, sets_globals=sets_globals)) for part in statements]
    compiles = any(_top(target) in COMPILERS for target in imported.values())
    reader = _Reader(name, set[str]().union(*(bound for _, bound in parts)), imported, compiles=compiles)
    definitions = [reader.read(*part) for part in parts if not isinstance(part[0], ast.Import | ast.ImportFrom)]
    unused = () if package else imported.keys() - reader.used
    return Module(definitions, imported, sorted(imported[alias] for alias in unused), compiles)


class _Reader:
    """Reads the statements of one module.

    Attributes:
        used: names of imports that any statement refers to.
    """

    def __init__(self, name: str, own: set[str], imported: dict[str, str], *, compiles: bool) -> None:
        self._name, self._own, self._imported, self._compiles = name, own, imported, compiles
        self.used: set[str] = set()

    def read(self, part: ast.stmt, bound: set[str]) -> Definition:
        """Return a statement as a definition."""
        found = _References(self._run_by)
        found.visit(part)
        self.used |= {chain[0] for chain in found.chains} | found.annotations
        refers = sorted({dotted for chain in found.chains for dotted in self._meanings(chain, found.imported)})
        effect = self._effect(part)
        digest = hashlib.sha256("\0".join((_bare(part), *refers)).encode()).hexdigest()
        inside = [name for name in refers if _top(name) == _top(self._name)]
        return Definition(tuple(sorted(bound)), digest, tuple(inside), effect)

    def _meanings(self, chain: tuple[str, ...], local: dict[str, str]) -> Iterator[str]:
        """The dotted names that a chain of attributes may stand for."""
        first, rest = chain[0], chain[1:]
        for known in (local, self._imported):
            if first in known:
                yield ".".join((known[first], *rest))
        if first in self._own:
            yield ".".join((self._name, *chain))

    def _effect(self, part: ast.stmt) -> tuple[str, ...]:
        match part:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                run = [name for decorator in part.decorator_list for name in self._functions(decorator)]
                return self._effective(set(run) - _PURE - _LAUNCHING)
            case ast.Assign(targets=targets) if all(isinstance(t, ast.Name | ast.Tuple | ast.List) for t in targets):
                return ("",) if self._compiles and _calls(part) else ()
            case ast.AnnAssign(target=ast.Name()):
                return ("",) if self._compiles and _calls(part) else ()
            case ast.Expr(value=ast.Call() as call):
                return self._effective(self._functions(call) - _INERT)
        return ("",)

    def _effective(self, run: set[str]) -> tuple[str, ...]:
        """The functions that may have an effect: in a module that makes machine code, or outside the package, all."""
        if run and (self._compiles or any(_top(name) != _top(self._name) for name in run)):
            return ("",)
        return tuple(sorted(run))

    def _functions(self, node: ast.expr) -> set[str]:
        """The dotted names of called functions: a decorator, or the function that makes it."""
        chain = _chain(node.func if isinstance(node, ast.Call) else node)
        return (set(self._meanings(chain, {})) or {".".join(chain)}) if chain else {""}

    def _run_by(self, decorator: ast.expr) -> list[ast.AST]:
        """The parts of a decorator that matter when code is compiled."""
        if not isinstance(decorator, ast.Call):
            return [] if self._functions(decorator) & _LAUNCHING else [decorator]
        if self._functions(decorator) & _LAUNCHING:
            return [*decorator.args, *decorator.keywords]
        first = 1 if self._functions(decorator) & _KEYED else 0
        return [decorator.func, *decorator.args[first:], *decorator.keywords]


class _References(ast.NodeVisitor):
    """Finds the names that a statement refers to, with their attributes, and its own imports.

    Annotations do not count: no module evaluates its own.
    """

    def __init__(self, run_by: Callable[[ast.expr], list[ast.AST]]) -> None:
        self._run_by = run_by
        self.chains: set[tuple[str, ...]] = set()
        self.annotations: set[str] = set()
        self.imported: dict[str, str] = {}
        self._local: set[str] = set()

    def visit_Name(self, node: ast.Name) -> None:
        self._add((node.id,))

    def visit_Attribute(self, node: ast.Attribute) -> None:
        chain = _chain(node)
        if chain:
            self._add(chain)
        else:
            self.generic_visit(node)

    def visit_Import(self, node: ast.Import) -> None:
        self.imported |= _imported(node)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        self.imported |= _imported(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self._annotate(node.annotation)
        self._visit([node.target, node.value])

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        arguments = node.args
        self._annotate(node.returns)
        for argument in ast.walk(arguments):
            self._annotate(argument.annotation if isinstance(argument, ast.arg) else None)
        for decorator in node.decorator_list:
            self._visit(self._run_by(decorator))
        self._visit([*arguments.defaults, *arguments.kw_defaults])
        before = self._local
        self._local = before | _locals(node)
        self._visit(node.body)
        self._local = before

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815

    def _add(self, chain: tuple[str, ...]) -> None:
        if chain[0] not in self._local:
            self.chains.add(chain)

    def _annotate(self, node: ast.expr | None) -> None:
        if node is not None:
            self.annotations |= {found.id for found in ast.walk(node) if isinstance(found, ast.Name)}

    def _visit(self, nodes: Iterable[ast.AST | None]) -> None:
        for node in nodes:
            if node is not None:
                self.visit(node)


_UNREAD = {ast.FunctionDef: "returns", ast.AsyncFunctionDef: "returns", ast.arg: "annotation"}
"""Attributes of syntax trees that hold the annotations of functions."""


def _bare(part: object) -> str:
    """The text of a syntax tree, without docstrings, also those of attributes, and without annotations of functions."""
    if isinstance(part, list):
        return "[" + ",".join([_bare(item) for item in part if not _is_string(item)]) + "]"
    if not isinstance(part, ast.AST):
        return repr(part)
    kind: Any = type(part)
    return f"{kind.__name__}({','.join([_bare(getattr(part, name, None)) for name in _fields(kind)])})"


@functools.cache
def _fields(kind: type[ast.AST]) -> tuple[str, ...]:
    """The fields that count; whether a name is read or written follows from its place."""
    return tuple(name for name in kind._fields if name not in ("ctx", "type_comment", _UNREAD.get(kind)))


def _locals(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """Names that are local to the function."""
    given = function.args
    names = {a.arg for a in (*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg) if a}
    outer: set[str] = set()
    todo: list[ast.AST] = list(function.body)
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Global):
            outer |= set(node.names)
        if not isinstance(node, _SCOPES):
            todo += ast.iter_child_nodes(node)
    return names - outer


_SCOPES = (
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.ClassDef,
    ast.Lambda,
    ast.ListComp,
    ast.SetComp,
    ast.DictComp,
    ast.GeneratorExp,
)


def _bound(part: ast.stmt, *, sets_globals: bool) -> set[str]:
    """The names of the module that a statement binds, or may bind when a function in it runs."""
    match part:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            names = {name}
        case ast.Import() | ast.ImportFrom():
            names = set()
        case _:
            names = {
                node.id if isinstance(node, ast.Name) else node.name
                for node in _outside_functions(part)
                if isinstance(node, ast.FunctionDef | ast.ClassDef)
                or (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store | ast.Del))
            }
    if not sets_globals:
        return names
    return names | {name for node in ast.walk(part) if isinstance(node, ast.Global) for name in node.names}


def _outside_functions(part: ast.AST) -> Iterator[ast.AST]:
    """A statement and its parts that are executed with it, outside of functions and classes."""
    yield part
    if not isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
        for child in ast.iter_child_nodes(part):
            yield from _outside_functions(child)


def _imported(node: ast.Import | ast.ImportFrom) -> dict[str, str]:
    """Dotted names by the names that an import binds."""
    if isinstance(node, ast.ImportFrom):
        if node.level or any(alias.name == "*" for alias in node.names):
            raise NotImplementedError(f"line {node.lineno}: write absolute imports of names")
        return {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    return {a.asname: a.name for a in node.names if a.asname} | {
        _top(a.name): _top(a.name) for a in node.names if not a.asname
    }


def _chain(node: ast.expr) -> tuple[str, ...]:
    """The names of `a.b.c`, empty if the first one is not a name."""
    names = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return (node.id, *reversed(names)) if isinstance(node, ast.Name) else ()


def _calls(part: ast.AST) -> bool:
    return any(isinstance(node, ast.Call) for node in ast.walk(part))


def _is_string(part: object) -> bool:
    return isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant) and isinstance(part.value.value, str)


def _is_for_types(part: ast.stmt) -> bool:
    """Whether a statement is for type checkers only."""
    return isinstance(part, ast.If) and _chain(part.test)[-1:] in (("TYPE_CHECKING",), ("_TYPE_CHECKING",))


def _top(name: str) -> str:
    return name.partition(".")[0]


def as_values(found: Module) -> Any:
    """Return a module as values of JSON. Local."""
    return tuple(found)


def from_values(values: Any) -> Module:
    """Return a module from values of JSON. Local."""
    definitions, imported, unused, compiles = values
    rows = [
        Definition(tuple(names), digest, tuple(refers), tuple(effect)) for names, digest, refers, effect in definitions
    ]
    return Module(rows, imported, unused, compiles)
