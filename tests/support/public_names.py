"""Print the public names with their signatures, and the commands with their options.

Public is what `gondwana` has, and what the pages of `docs/api` document. Annotations are as in the sources; nothing
depends on the version of Python or on where it is installed.
"""

from __future__ import annotations

import contextlib
import enum
import importlib
import inspect
import io
import os
import re
import sys
import types
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ForwardRef
from unittest import mock

import gondwana

PAGES = next(folder for folder in Path(__file__).parents if (folder / "docs" / "api").is_dir()) / "docs" / "api"

OPERATORS = (
    *("add", "radd", "iadd", "sub", "rsub", "isub", "mul", "rmul", "imul", "matmul", "truediv", "rtruediv", "itruediv"),
    *(
        "floordiv",
        "rfloordiv",
        "mod",
        "rmod",
        "pow",
        "rpow",
        "neg",
        "pos",
        "abs",
        "invert",
        "and",
        "rand",
        "iand",
        "or",
    ),
    *("ror", "ior", "xor", "rxor", "lshift", "rshift", "eq", "ne", "lt", "le", "gt", "ge", "bool", "int", "float"),
    *("index", "len", "getitem", "setitem", "delitem", "contains", "iter", "next", "call", "enter", "exit", "await"),
    *("array", "buffer", "dlpack", "dlpack_device", "array_interface", "cuda_array_interface", "hash", "reduce"),
)
"""Special methods that users reach by syntax or other libraries by protocol, without underscores."""

DIRECTIVE = re.compile(
    r"^\.\. (autofunction|autoclass|autoexception|automodule|module|currentmodule):: (\S+?)(?:\(.*)?$"
)
OPTION = re.compile(r"^   :(members|exclude-members):(.*)$")


def text() -> str:
    """All of it."""
    return "\n\n".join(["\n".join(_names_of_the_package()), *_names_of_pages(), *_commands()]) + "\n"


# -- names -----------------------------------------------------------------------------------------------------------


def _names_of_the_package() -> Iterator[str]:
    documented = {name: options for name, options in _documented() if name.startswith("gondwana.")}
    for name in sorted(dir(gondwana)):
        if not name.startswith("_") and not isinstance(found := getattr(gondwana, name), types.ModuleType):
            full = f"gondwana.{name}"
            yield from described(full, found, documented.get(full, {}))


def _names_of_pages() -> Iterator[str]:
    for name, options in sorted(_documented(), key=lambda one: one[0]):
        module, _, rest = name.rpartition(".")
        if module != "gondwana":
            yield "\n".join(described(name, getattr(_object(module), rest), options))


def _documented() -> Iterator[tuple[str, dict[str, list[str]]]]:
    """The names that the pages document, and which members of each they list or leave out."""
    for page in sorted(PAGES.glob("*.rst")):
        lines, module = page.read_text(encoding="utf-8").splitlines(), ""
        for number, line in enumerate(lines):
            if not (match := DIRECTIVE.match(line)):
                continue
            kind, name = match.groups()
            options = dict(_options(lines[number + 1 :]))
            if kind in ("module", "currentmodule"):
                module = name
            elif kind == "automodule":
                own = options.get("members") or _own_names(importlib.import_module(name))
                yield from ((f"{name}.{member}", {}) for member in own)
            else:
                yield (name if name.startswith("gondwana") else f"{module}.{name}"), options


def _options(lines: list[str]) -> Iterator[tuple[str, list[str]]]:
    for line in lines:
        if not line.startswith("   :"):
            return
        if match := OPTION.match(line):
            yield match[1], re.findall(r"\w+", match[2])


def _own_names(module: types.ModuleType) -> list[str]:
    found = vars(module).items()
    return [name for name, value in found if name[0] != "_" and getattr(value, "__module__", "") == module.__name__]


def _object(name: str) -> Any:
    """The module or class of a dotted name."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        module, _, rest = name.rpartition(".")
        return getattr(_object(module), rest)


def described(name: str, found: Any, options: Mapping[str, list[str]] = {}) -> Iterator[str]:
    """The lines of a name."""
    if isinstance(found, type):
        bases = ", ".join(base.__name__ for base in found.__bases__ if base is not object)
        yield f"class {name}{f'({bases})' if bases else ''}"
        yield from (f"    {line}" for line in _members(found, options))
    elif inspect.isroutine(function := getattr(found, "py_func", found)):
        yield f"{name}{_signature(function)}"
    else:
        yield f"{name}: {type(found).__name__}"


def _members(cls: type, options: Mapping[str, list[str]]) -> Iterator[str]:
    if issubclass(cls, enum.Enum):
        yield from (f"{member.name} = {member.value!r}" for member in cls)
    elif _is_ours(_home(cls, "__init__")) or _is_ours(_home(cls, "__new__")):
        yield f"{cls.__name__}{_signature(cls)}"
    homes = [home for home in cls.__mro__ if _is_ours(home)]
    public = {name for home in homes for name in (*vars(home), *inspect.get_annotations(home)) if name[0] != "_"}
    names = options.get("members") or public - set(options.get("exclude-members", ()))
    for name in sorted(names):
        if not (issubclass(cls, enum.Enum) and name in cls.__members__):
            yield _member(cls, name)
    operators = [
        name for name in OPERATORS if _is_ours(home := _home(cls, f"__{name}__")) and vars(home)[f"__{name}__"]
    ]
    if operators:
        yield f"operators: {' '.join(sorted(operators))}"


def _member(cls: type, name: str) -> str:
    try:
        found = inspect.getattr_static(cls, name)
    except AttributeError:
        found = None
    if isinstance(found, staticmethod | classmethod):
        return f"{type(found).__name__} {name}{_signature(getattr(cls, name))}"
    if inspect.isfunction(inspect.unwrap(found)):
        return f"{name}{_signature(found, 1)}"
    getter = getattr(found, "fget", None) or getattr(found, "func", None) or getattr(found, "function", None)
    if getter is not None:
        returned = _annotation(inspect.get_annotations(getter).get("return"))
        return f"{name}: {returned} (property)"
    given = next((own[name] for home in cls.__mro__ if name in (own := inspect.get_annotations(home))), None)
    if given is None and isinstance(found, types.MemberDescriptorType):
        return name  # of a class that says in its docstring what it is
    return f"{name}: {type(found).__name__ if given is None else _annotation(given)}"


def _home(cls: type, name: str) -> type:
    """The class from which another has a method."""
    return next((home for home in cls.__mro__ if name in vars(home)), object)


def _is_ours(cls: type) -> bool:
    return cls.__module__.startswith("gondwana")


# -- signatures ------------------------------------------------------------------------------------------------------


def _signature(function: Any, bound: int = 0) -> str:
    signature = inspect.signature(function)
    given = list(signature.parameters.values())[bound:]
    words, kinds = [], [parameter.kind for parameter in given]
    for number, parameter in enumerate(given):
        if parameter.kind == parameter.KEYWORD_ONLY and not set(kinds[:number]) & {
            parameter.KEYWORD_ONLY,
            parameter.VAR_POSITIONAL,
        }:
            words.append("*")
        words.append(_parameter(parameter))
        if parameter.kind == parameter.POSITIONAL_ONLY and parameter.POSITIONAL_ONLY not in kinds[number + 1 :]:
            words.append("/")
    returned = "" if isinstance(function, type) else f" -> {_annotation(signature.return_annotation)}"
    return f"({', '.join(words)}){returned}"


def _parameter(parameter: inspect.Parameter) -> str:
    stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    word = stars + parameter.name
    if parameter.annotation is not parameter.empty:
        word += f": {_annotation(parameter.annotation)}"
    return word if parameter.default is parameter.empty else f"{word} = {_default(parameter.default)}"


def _annotation(annotation: Any) -> str:
    """As it is in the source."""
    if annotation in (None, inspect.Signature.empty):
        return "None" if annotation is None else "Any"
    if isinstance(annotation, ForwardRef):
        return annotation.__forward_arg__
    given = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return re.sub(r"ForwardRef\('(\w+)'\)", r"\1", given)


def _default(value: Any) -> str:
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    if value == sys.executable:
        return "sys.executable"
    if value is None or isinstance(value, bool | int | float | complex | str | bytes):
        return repr(value)
    if isinstance(value, tuple):
        return f"({', '.join(map(_default, value))}{',' * (len(value) == 1)})"
    if isinstance(value, type | types.FunctionType | types.BuiltinFunctionType):
        return value.__name__
    names = (name for name in sorted(dir(gondwana)) if getattr(gondwana, name) is value)
    return next(names, "<factory>" if repr(value) == "<factory>" else f"<{type(value).__name__}>")


# -- commands --------------------------------------------------------------------------------------------------------


def _commands(*words: str) -> Iterator[str]:
    """The arguments and options in the help of a command, and of those below it."""
    usage, sections = _help(*words)
    options = [option(line) for heading, line in sections if line.startswith("-")]
    yield "\n".join([f"$ {usage}", *(f"    {option}" for option in sorted(options))])
    for heading, line in sorted(sections, key=lambda one: one[1]):
        if not line.startswith("-") and "argument" not in heading.lower():
            yield from _commands(*words, line.split()[0])


def _help(*words: str) -> tuple[str, list[tuple[str, str]]]:
    """The usage, and the first line of each entry below the heading of its section."""
    from gondwana.cli.main import main

    printed = io.StringIO()
    with (
        mock.patch.object(sys, "argv", ["gondwana", *words, "--help"]),
        mock.patch.dict(os.environ, COLUMNS="80"),
        contextlib.redirect_stdout(printed),
    ):
        try:
            main()
        except SystemExit as end:
            if end.code:
                raise
    heading, entries = "", []
    usage, _, rest = printed.getvalue().strip().partition("\n\n")
    for line in rest.splitlines():
        if line.rstrip().endswith(":") and line[0] != " ":
            heading = line
        elif heading and re.match(r"  \S", line):
            entries.append((heading, line.strip()))
    arguments = " ".join(usage.split()).partition(" ".join(("gondwana", *words)))[2]
    names = [name for name in re.findall(r"\w+", arguments) if name not in ("OPTIONS", "COMMAND", "ARGS")]
    return " ".join(("gondwana", *words, *map(str.upper, names))), entries


def option(line: str) -> str:
    """The spellings of an option and its argument, without description and types."""
    given = re.split(r"\s{2,}", line)[0]
    spellings = re.findall(r"(?<![\w-])--?[\w-]+", given)
    follows = re.sub(r"(?<![\w-])--?[\w-]+|,(?=\s|$)|[/<>]", " ", given).split()
    return " ".join([*spellings, *(word for word in dict.fromkeys(follows) if "|" in word or word.isupper())])


if __name__ == "__main__":
    print(text(), end="")
