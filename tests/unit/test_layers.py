"""The shape of the package: imports point downward only, heavy packages have one home, every test is collected."""

from __future__ import annotations

import ast
import importlib
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import jobs

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "gondwana"
# From the ground up: a room imports from itself and from rooms before it. CONTRIBUTING.md has the same table.
ROOMS = (
    "errors",
    "inputs",
    "domains",
    "runtime",
    "teams",
    "compiler",
    "simd",
    "gpu",
    "futures",
    "memory",
    "sync",
    "calls",
    "transfer",
    "kernels",
    "arrays",
    "tasks",
    "io",
    "results",
    "traces",
    "report",
    "apps",
    "model",
    "bench",
    "cli",
    "testing",
)
PUBLIC = ("gondwana.errors", "gondwana.inputs", "gondwana.io", "gondwana.results", "gondwana.simd", "gondwana.apps")
"""What applications import beside the package itself."""
HOMES = {"mpi4py": ("teams",), "adios2": ("io/adios.py",), "cuda": ("gpu/bindings.py", "bench/gpu/nvrtc.py")}
MODULES = sorted(SOURCE.rglob("*.py"))


def imports(file: Path) -> Iterator[tuple[str, int]]:
    """The modules that a file imports anywhere, also inside functions and for types only."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}:{node.lineno}: imports are absolute"
            yield from ((f"{node.module}.{alias.name}", node.lineno) for alias in node.names)


def room(module: str) -> str:
    """The room of a module of ours by its dotted name, "" for the package itself."""
    name = module.split(".")[1] if "." in module else ""
    return name if (SOURCE / name).is_dir() or (SOURCE / f"{name}.py").is_file() else ""


def own_room(file: Path) -> str:
    name = file.relative_to(SOURCE).parts[0].removesuffix(".py")
    return "" if name == "__init__" else name


@pytest.mark.parametrize("file", MODULES, ids=lambda file: str(file.relative_to(SOURCE)))
def test_imports_point_downward(file: Path) -> None:
    own = own_room(file)
    allowed = ROOMS[: ROOMS.index(own) + 1] if own else ROOMS
    for module, line in imports(file):
        if not module.startswith("gondwana."):
            assert module != "gondwana" or own in ("apps", "bench", "cli", "testing"), f"{file}:{line}: whole package"
            continue
        found = room(module)
        assert not found or found in allowed, f"{file}:{line}: {own or 'gondwana'} imports {module}"


@pytest.mark.parametrize(
    "file", sorted((SOURCE / "apps").rglob("*.py")), ids=lambda file: str(file.relative_to(SOURCE))
)
def test_applications_stand_on_the_public_api(file: Path) -> None:
    for module, line in imports(file):
        inside = module.startswith("gondwana.") and not f"{module}.".startswith(tuple(f"{name}." for name in PUBLIC))
        assert not inside, f"{file}:{line}: {module} is not public: applications use gw.* and {', '.join(PUBLIC)}"


@pytest.mark.parametrize("package", sorted(HOMES))
def test_heavy_packages_have_one_home(package: str) -> None:
    for file in MODULES:
        place = file.relative_to(SOURCE).as_posix()
        if not place.startswith(HOMES[package]):
            assert package not in {module.partition(".")[0] for module, _ in imports(file)}, file


def test_every_room_is_known() -> None:
    folders = {path.name for path in SOURCE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    modules = {path.stem for path in SOURCE.glob("*.py")} - {"__init__"}
    assert not folders & modules
    assert folders | modules <= set(ROOMS)


@pytest.mark.parametrize(
    "file",
    [file for file in MODULES if file.name == "__init__.py"],
    ids=lambda file: str(file.parent.relative_to(SOURCE)),
)
def test_no_module_is_hidden_by_a_public_name(file: Path) -> None:
    """`import gondwana.a.b as c` gives a module, whatever the package `a` offers by name."""
    package = importlib.import_module(".".join(("gondwana", *file.parent.relative_to(SOURCE).parts)))
    names = [path.stem for path in file.parent.glob("[!_]*.py")] + [
        path.parent.name for path in file.parent.glob("*/__init__.py")
    ]
    for name in names:
        found = getattr(package, name, None)
        assert found is None or isinstance(found, types.ModuleType), f"{package.__name__}.{name} is hidden by {found!r}"


def test_modules_are_of_readable_size() -> None:
    long = {str(file): n for file in MODULES if (n := len(file.read_text(encoding="utf-8").splitlines())) > 500}
    assert not long


def test_every_test_file_is_collected() -> None:
    folders = ("unit", "property", "parallel", "docs", "gpu")
    files = sorted(path for path in (ROOT / "tests").rglob("test_*.py"))
    assert all(path.relative_to(ROOT / "tests").parts[0] in folders for path in files)
    names = [path.name for path in files]
    assert len(names) == len(set(names)), "two test files with one name cannot be collected together"
    for path in (ROOT / "tests").rglob("*.py"):
        holds_tests = any(
            isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
            for node in ast.parse(path.read_text(encoding="utf-8")).body
        )
        assert not holds_tests or path.name.startswith("test_"), f"{path} has tests, but a name that is not collected"


def test_the_public_names_are_there() -> None:
    source = "import gondwana; print(sorted(n for n in dir(gondwana) if n[0] != '_'))"
    outcome = jobs.run_command([sys.executable, "-c", source])
    names = set(ast.literal_eval(outcome.stdout))
    assert names >= {
        "Array", "Domain", "GlobalArray", "Point", "RectDomain", "Team", "X", "Y", "Z", "empty", "exchange", "foreach",
        "from_numpy", "full", "jit", "random", "reduce", "set_threads", "threads", "world", "zeros", "zeros_like",
    }  # fmt: skip
