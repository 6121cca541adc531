"""The shape of the packages: imports point downward only, heavy packages have one home, every test is collected."""

from __future__ import annotations

import ast
import functools
import importlib
import re
import sys
import types
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from gondwana.results import code_lines
from support import jobs

ROOT = Path(__file__).parents[2]
PACKAGES = {
    # Which of the others a package imports, and how many lines of code it may have; the goals are 33,000, 8,200, 9,500
    # and 2,900. Of the lines of the library 3,800 are the verbs for own problems: arithmetic, walls, particles, cells,
    # transforms, solvers, files.
    "gondwana": ((), 48_497),
    "gondwana-apps": (("gondwana",), 8_543),
    "gondwana-bench": (("gondwana", "gondwana_apps"), 10_792),
    "gondwana-emulator": (("gondwana",), 2_904),
}
SOURCES = {name: ROOT / "packages" / name / "src" / name.replace("-", "_") for name in PACKAGES}
SOURCE = SOURCES["gondwana"]
# From the ground up: a room imports from itself and from rooms before it. CONTRIBUTING.md has the same table.
ROOMS = (
    "moved",
    "errors",
    "inputs",
    "notebook",
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
    "solvers",
    "fft",
    "tasks",
    "io",
    "results",
    "traces",
    "races",
    "liveview",
    "cli",
    "testing",
)
HOMES = {
    "mpi4py": ("gondwana/teams",),
    "adios2": ("gondwana/io/adios.py",),
    "h5py": ("gondwana/io/files/hdf5_files.py",),
    "zarr": ("gondwana/io/files/zarr_files.py",),
    "otf2": ("gondwana_bench/cli/otf2.py",),
    "cuda": ("gondwana/gpu/bindings.py", "gondwana_bench/gpu/nvrtc.py"),
}
MODULES = sorted(SOURCE.rglob("*.py"))
ALL_MODULES = sorted(file for source in SOURCES.values() for file in source.rglob("*.py"))


def name_of(file: Path) -> str:
    """The path of a module from the folder that holds its package."""
    return file.as_posix().partition("/src/")[2]


@functools.cache
def public() -> dict[str, set[str]]:
    """The public modules, and their public names, none of which stands for all: the list is in the documentation."""
    page = (ROOT / "docs" / "api" / "index.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(gondwana[\w.]*)` \| (.*) \|$", page, re.MULTILINE)
    return {module: set(re.findall(r"`(\w+)`", names)) for module, names in rows}


@functools.cache
def parsed(file: Path) -> ast.Module:
    """The syntax of a file."""
    return ast.parse(file.read_text(encoding="utf-8"))


@functools.cache
def imports(file: Path) -> list[tuple[str, int]]:
    """The modules that a file imports anywhere, also inside functions and for types only."""
    found = []
    for node in ast.walk(parsed(file)):
        if isinstance(node, ast.Import):
            found += [(alias.name, node.lineno) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}:{node.lineno}: imports are absolute"
            found += [(f"{node.module}.{alias.name}", node.lineno) for alias in node.names]
    return found


def room(module: str) -> str:
    """The room of a module of ours by its dotted name, "" for the package itself."""
    name = module.split(".")[1] if "." in module else ""
    return name if (SOURCE / name).is_dir() or (SOURCE / f"{name}.py").is_file() else ""


def own_room(file: Path) -> str:
    name = file.relative_to(SOURCE).parts[0].removesuffix(".py")
    return "" if name == "__init__" else name


@pytest.mark.parametrize("own", ["", *ROOMS])
def test_imports_point_downward(own: str) -> None:
    allowed = ROOMS[: ROOMS.index(own) + 1] if own else ROOMS
    wrong = []
    for file in (file for file in MODULES if own_room(file) == own):
        for module, line in imports(file):
            if module == "gondwana" and own not in ("cli", "testing"):
                wrong.append(f"{file}:{line}: whole package")
            elif module.startswith("gondwana.") and room(module) and room(module) not in allowed:
                wrong.append(f"{file}:{line}: {own or 'gondwana'} imports {module}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("own", PACKAGES)
def test_packages_import_those_below_them(own: str) -> None:
    legal = [own.replace("-", "_"), *PACKAGES[own][0]]
    wrong = [
        f"{file}:{line}: {own} imports {module}"
        for file in SOURCES[own].rglob("*.py")
        for module, line in imports(file)
        if module.startswith("gondwana") and module.partition(".")[0] not in legal
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("package", ["gondwana-apps", "gondwana-bench"])
def test_applications_and_benchmarks_stand_on_the_public_interface(package: str) -> None:
    wrong = []
    for file in SOURCES[package].rglob("*.py"):
        for module, line in imports(file):
            if module.partition(".")[0] == "gondwana" and module not in public():
                home, _, name = module.rpartition(".")
                if home not in public() or is_module(module) or name not in (public()[home] or {name.lstrip("_")}):
                    wrong.append(f"{file}:{line}: {module} is not public: docs/api/index.md lists what is")
        wrong += [f"{file}: {name} is not public" for name in attributes_of_modules(file)]
    assert not wrong, "\n".join(wrong)


def attributes_of_modules(file: Path) -> Iterator[str]:
    """What a file takes from public modules by `module.name` that is not among their public names."""
    tree = parsed(file)
    modules = {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if public().get(f"{node.module}.{alias.name}")
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
            module = modules[node.value.id]
            if node.attr not in public()[module]:
                yield f"{module}.{node.attr}"


def test_public_names_are_there() -> None:
    for module, names in public().items():
        found = importlib.import_module(module)
        assert [name for name in names if not hasattr(found, name)] == [], module


def is_module(name: str) -> bool:
    """Whether a dotted name is that of a module of the library."""
    place = SOURCE.parent.joinpath(*name.split("."))
    return place.is_dir() or place.with_suffix(".py").is_file()


@pytest.mark.parametrize("package", sorted(PACKAGES))
def test_the_budget_of_code_lines_is_kept(package: str) -> None:
    files = SOURCES[package].rglob("*.py")
    assert sum(len(code_lines(file.read_text(encoding="utf-8"))) for file in files) <= PACKAGES[package][1]


def test_the_library_has_few_files() -> None:
    assert len(MODULES) <= 420


@pytest.mark.parametrize("package", sorted(PACKAGES))
def test_no_folder_has_more_than_sixteen_modules(package: str) -> None:
    modules = Counter(file.parent for file in SOURCES[package].rglob("[!_]*.py"))
    assert {name_of(folder): count for folder, count in modules.items() if count > 16} == {}


@pytest.mark.parametrize("package", sorted(HOMES))
def test_heavy_packages_have_one_home(package: str) -> None:
    for file in ALL_MODULES:
        if not name_of(file).startswith(HOMES[package]):
            assert package not in {module.partition(".")[0] for module, _ in imports(file)}, file


def test_every_room_is_known() -> None:
    folders = {path.name for path in SOURCE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    modules = {path.stem for path in SOURCE.glob("*.py")} - {"__init__"}
    assert not folders & modules
    assert folders | modules <= set(ROOMS)


@pytest.mark.parametrize(
    "file",
    [file for file in ALL_MODULES if file.name == "__init__.py"],
    ids=lambda file: name_of(file.parent),
)
def test_no_module_is_hidden_by_a_public_name(file: Path) -> None:
    """`import gondwana.a.b as c` gives a module, whatever the package `a` offers by name."""
    package = importlib.import_module(name_of(file.parent).replace("/", "."))
    names = [path.stem for path in file.parent.glob("[!_]*.py")] + [
        path.parent.name for path in file.parent.glob("*/__init__.py")
    ]
    for name in names:
        found = getattr(package, name, None)
        assert found is None or isinstance(found, types.ModuleType), f"{package.__name__}.{name} is hidden by {found!r}"


def test_modules_are_of_readable_size() -> None:
    long = {str(file): n for file in ALL_MODULES if (n := len(file.read_text(encoding="utf-8").splitlines())) > 500}
    assert not long


def test_every_test_file_is_collected() -> None:
    folders = {
        *(
            f"packages/{package}/tests/{kind}"
            for package in PACKAGES
            for kind in ("unit", "property", "parallel", "gpu")
        ),
        *("tests/docs", "tests/repository"),
    }
    trees = [*(ROOT / "packages").glob("*/tests"), ROOT / "tests"]
    files = sorted(path for tree in trees for path in tree.rglob("test_*.py"))
    assert all(path.parent.relative_to(ROOT).as_posix() in folders for path in files)
    names = [path.name for path in files]
    assert len(names) == len(set(names)), "two test files with one name cannot be collected together"
    for path in (path for tree in trees for path in tree.rglob("*.py")):
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
