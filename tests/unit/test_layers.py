"""The shape of the package: imports point downward only, heavy packages have one home, every test is collected."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import jobs

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "gondwana"
LAYERS = (
    "domains",
    "world",
    "cuda",
    "jit",
    "memory",
    "arrays",
    "kernels",
    "tasks",
    "io",
    "analysis",
    "bench",
    "apps",
    "cli",
)
HOMES = {"mpi4py": ("world",), "adios2": ("io/adios.py",), "cuda": ("cuda/bindings.py", "bench/nvrtc.py")}
MODULES = sorted(SOURCE.rglob("*.py"))


def imports(file: Path) -> Iterator[tuple[str, int]]:
    """The modules that a file imports anywhere, also inside functions and for types only."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}:{node.lineno}: imports are absolute"
            yield from ((f"{node.module}.{alias.name}", node.lineno) for alias in node.names)


def layer(module: str) -> str:
    """The layer of a module of ours by its dotted name, "" for the package itself."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and (SOURCE / parts[1]).is_dir() else ""


def own_layer(file: Path) -> str:
    parts = file.relative_to(SOURCE).parts
    return parts[0] if len(parts) > 1 else ""


@pytest.mark.parametrize("file", MODULES, ids=lambda file: str(file.relative_to(SOURCE)))
def test_imports_point_downward(file: Path) -> None:
    own = own_layer(file)
    allowed = LAYERS[: LAYERS.index(own) + 1] if own in LAYERS else LAYERS if own in ("", "testing") else ()
    for module, line in imports(file):
        if not module.startswith("gondwana."):
            assert module != "gondwana" or own in ("apps", "cli", "bench"), f"{file}:{line} imports the whole package"
            continue
        if module == "gondwana.errors" or module.startswith("gondwana.errors."):
            continue
        assert own != "" or file.name == "__init__.py", f"{file}:{line}: only layers below all stand beside the layers"
        found = layer(module)
        assert found != "testing" or own == "testing", f"{file}:{line} imports gondwana.testing"
        assert not found or found in allowed or found == own, f"{file}:{line}: {own or 'gondwana'} imports {module}"


@pytest.mark.parametrize("package", sorted(HOMES))
def test_heavy_packages_have_one_home(package: str) -> None:
    for file in MODULES:
        place = file.relative_to(SOURCE).as_posix()
        if not place.startswith(HOMES[package]):
            assert package not in {module.partition(".")[0] for module, _ in imports(file)}, file


def test_every_layer_is_known() -> None:
    folders = {path.name for path in SOURCE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert folders <= {*LAYERS, "testing"}
    assert {path.name for path in SOURCE.glob("*.py")} <= {"__init__.py", "__main__.py", "errors.py"}


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
    source = "import gondwana; print(sorted(n for n in vars(gondwana) if n[0] != '_'))"
    outcome = jobs.run_command([sys.executable, "-c", source])
    names = set(ast.literal_eval(outcome.stdout))
    assert names >= {
        "Array", "Domain", "GlobalArray", "Point", "RectDomain", "Team", "X", "Y", "Z", "empty", "exchange", "foreach",
        "from_numpy", "full", "jit", "random", "reduce", "set_threads", "threads", "world", "zeros", "zeros_like",
    }  # fmt: skip
