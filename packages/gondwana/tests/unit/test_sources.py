"""Which sources machine code is made of: what an edit of the library compiles anew, and what it does not."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

import pytest

import gondwana
from gondwana.compiler import definitions, sources
from support import jobs

FOLDER = Path(gondwana.__file__).parent

PROGRAM = """
import gondwana as gw

@gw.foreach
def double(p, a):
    a[p] = 2.0 * a[p]

@gw.jit
def total(threads, x):
    return threads.sum(x)

a = gw.Array.full(gw.RectDomain(0, 4), 3.0)
double(a.domain, a)
assert (a[2], gw.parallel(total, 1.5, threads=2)) == (6.0, 3.0)
done = gw.compilation()
print(done.compiled, done.loaded)
"""


class Copy:
    """A copy of the library, and a program that compiles a kernel, a team of threads and two helpers with it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.copytree(FOLDER, folder / "gondwana", ignore=shutil.ignore_patterns("__pycache__"))

    def edit(self, name: str, old: str, new: str) -> None:
        file = self.folder / "gondwana" / name
        text, count = re.subn(old, new, file.read_text(), count=1, flags=re.MULTILINE)
        assert count == 1
        jobs.rewrite(file, text)

    def run(self) -> tuple[int, int]:
        """How many functions a process has compiled, and loaded."""
        variables = {"PYTHONPATH": str(self.folder), "GONDWANA_CACHE_DIR": str(self.folder / "cache")}
        outcome = jobs.run_command([sys.executable, "-c", PROGRAM], cwd=self.folder, variables=variables)
        assert outcome.status == 0, str(outcome)
        compiled, loaded = outcome.stdout.split()
        return int(compiled), int(loaded)


def test_an_edit_compiles_what_depends_on_it(tmp_path: Path) -> None:
    copy = Copy(tmp_path)
    assert copy.run() == (4, 0)
    copy.edit("compiler/codegen.py", r'^"""', '"""Other words. ')
    copy.edit("kernels/cpu/sweeps.py", r'^    """', '    """Other words. ')
    assert copy.run() == (0, 4)
    copy.edit(
        "kernels/cpu/sweeps.py", r"^(from __future__.*)$", r"\1  # a comment\n\n# another one, on a line of its own"
    )
    copy.edit("kernels/cpu/launch.py", r"^_SMALL = 4096$", "_SMALL = 4095  # compiled code knows nothing of it")
    copy.edit("kernels/cpu/sweeps.py", r"^_LINES = 4$", "_LINES = 5  # for fused pairs")
    assert copy.run() == (0, 4)
    copy.edit("kernels/cpu/launch.py", r"^_AXES = 4$", "_AXES = 5  # moves the arguments of kernels")
    assert copy.run() == (1, 3)
    copy.edit("compiler/multithreading/pool_native.py", r"^_SPINS_BEFORE_YIELD = 2000$", "_SPINS_BEFORE_YIELD = 2001")
    assert copy.run() == (1, 3)  # the helper that starts the threads
    copy.edit("compiler/codegen.py", r"^_UNRESOLVED = .*$", '_UNRESOLVED = ".numba.unresolved$$"')
    assert copy.run() == (4, 0)  # what compiles is part of all
    assert copy.run() == (0, 4)


def test_an_installed_library_is_one_definition(tmp_path: Path) -> None:
    """An upgrade compiles all anew, and a first start reads no syntax."""
    copy = Copy(tmp_path / "site-packages")
    assert copy.run() == (4, 0)
    assert not (copy.folder / "cache" / "sources").exists() or not any((copy.folder / "cache" / "sources").iterdir())
    assert copy.run() == (0, 4)
    copy.edit("kernels/cpu/sweeps.py", r'^    """', '    """Other words. ')
    assert copy.run() == (4, 0)


def named(texts: dict[str, str], *roots: str) -> set[str]:
    """The definitions to which dotted names lead in a package of these modules, after its top folder."""
    files = {FOLDER / f"{name}.py": text.encode() for name, text in ({"__init__": ""} | texts).items()}
    graph = sources.Graph(files)
    return {
        f"{name.removeprefix('gondwana.')}.{bound}"
        for root in roots
        for name, bounds in graph.reached(f"gondwana.{root}" if root != sources.OVERLOADS else root)
        for bound in bounds
    }


def digest(text: str, root: str) -> str:
    return sources.Graph({FOLDER / "__init__.py": b"", FOLDER / "a.py": text.encode()}).digest(root)


TEXT = '''
"""A module."""

from numba import njit

RATE = 2.0
"""A constant."""
OTHER = 3.0

@njit
def helper(x: float) -> float:
    """Help."""
    return RATE * x

def entry(x):
    return helper(x)
'''


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ('"""Help."""', '"""Do not help."""', True),
        ('    """Help."""\n', "", True),
        ('"""A constant."""\n', "", True),
        ("(x: float) -> float", "(x)", True),
        ("RATE = 2.0", "\n\nRATE = 2.0  # a comment", True),
        ("OTHER = 3.0", "OTHER = 4.0\n\ndef unused():\n    return OTHER\n", True),
        ("RATE = 2.0", "RATE = 3.0", False),
        ("RATE * x", "x * RATE", False),
        ("from numba import njit", "from numba import jit as njit", False),
        ("@njit", "@njit(fastmath=True)", False),
        ("def entry(x)", "def entry(x=1)", False),
        ("def entry(x)", "def change():\n    global RATE\n    RATE = 1.0\n\ndef entry(x)", False),
    ],
)
def test_what_an_edit_of_a_module_means(old: str, new: str, same: bool) -> None:
    assert old in TEXT
    before, after = (digest(text, "gondwana.a.entry") for text in (TEXT, TEXT.replace(old, new)))
    assert (before == after) is same


def test_names_are_followed_through_modules() -> None:
    texts = {
        "a": "from gondwana import b, c\nimport gondwana.d\nfrom gondwana.e import renamed\n"
        "def first(x): return b.second(x)\n"
        "def local(b): return b.third(b)\n"
        "def whole(): return getattr(c, 'x')\n"
        "def late():\n    from gondwana.c import one\n    return one\n"
        "def dotted(): return gondwana.d.last.attribute\n"
        "def exported(x: c.one) -> renamed: return renamed",
        "b": "def second(x): return second(x)\ndef third(x): return 0",
        "c": "one = 1\ntwo = 2",
        "d": "last = 3\nother = 4",
        "e": "from gondwana.d import other as renamed",
    }
    assert named(texts, "a.first") == {"a.first", "b.second"}
    assert named(texts, "a.local") == {"a.local"}
    assert named(texts, "a.whole") == {"a.whole", "c.one", "c.two"}
    assert named(texts, "a.late") == {"a.late", "c.one"}
    assert named(texts, "a.dotted") == {"a.dotted", "d.last"}
    assert named(texts, "a.exported") == {"a.exported", "d.other"}


def test_what_an_import_registers_is_part_of_what_it_serves() -> None:
    texts = {
        "a": "from numba import njit\nfrom gondwana import b\nfrom gondwana import c  # registers\n"
        "from gondwana import d\nfrom gondwana import e\n"
        "@njit\ndef entry(x): return b.helper(x)\ndef other(): return d.light(), e.heavy()",
        "b": "from gondwana import f\nKNOWN = []\ndef helper(x): return KNOWN\n@f.enters\ndef entered(): return 0",
        "c": "from numba.extending import overload\nfrom gondwana import b, d\n"
        "@overload(d.light)\ndef overloaded(): return b.KNOWN",
        "d": "import os\ndef light(): return 1\nos.register_at_fork(before=light)",
        "e": "from numba.extending import lower_builtin\n@lower_builtin(int)\ndef lowered(): return 0\n"
        "def heavy(): return 0",
        "f": "def enters(x): return x",
        "x_overloads": "from gondwana import f\nf.enters(0)\n@f.enters\ndef also(): return 0\ndef not_this(): return 0",
    }
    assert named(texts, "a.entry") == {"a.entry", "b.helper", "b.KNOWN", "c.overloaded", "e.lowered"}
    assert named(texts, "d.light") == {"d.light"}
    assert named(texts, "a.entry", "f.enters") >= {"f.enters"}
    assert "x_overloads.not_this" not in named(texts, sources.OVERLOADS)


def test_sources_that_cannot_be_followed_are_refused() -> None:
    for line in ("from .b import c", "from gondwana.b import *"):
        with pytest.raises(NotImplementedError, match="absolute imports of names"):
            definitions.module("gondwana.a", line.encode(), package=False)


EVERYTHING = """
import json, sys
from pathlib import Path
import numpy as np
import gondwana
import gondwana as gw
from gondwana.compiler import cache, linker, sources
from gondwana.compiler.native import Native

FOLDER = str(Path(gondwana.__file__).parent)
asked, unknown, outside = [], [], []
linker.import_numba()
from numba.core import event

class Compiled(event.Listener):
    def __init__(self):
        self.found = set()
    def on_start(self, happened):
        self.found.add(happened.data["dispatcher"].py_func.__code__)
    def on_end(self, happened):
        pass

def imports(frame):
    while frame is not None and frame.f_code is not watched_code:
        if frame.f_code.co_name == "<module>":
            return True
        frame = frame.f_back
    return False

def watched(build):
    listener = Compiled()
    def note(frame, happened, argument):
        code = frame.f_code
        if happened == "call" and code.co_filename.startswith(FOLDER) and code not in listener.found:
            if not imports(frame):
                listener.found.add(code)
    event.register("numba:compile", listener)
    sys.setprofile(note)
    try:
        return build(), listener.found
    finally:
        sys.setprofile(None)
        event.unregister("numba:compile", listener)
watched_code = watched.__code__

digest, get = sources.digest, cache.get
def digest_noted(*roots):
    asked.extend(roots)
    return digest(*roots)

def get_noted(name, build, kind="objects"):
    roots = set(asked)
    asked.clear()
    def build_watched():
        built, found = watched(build)
        asked.clear()
        known = {f"{home}.{bound}" for root in roots for home, names in graph.reached(root) for bound in names}
        unknown.extend(roots - known - {sources.OVERLOADS})
        for code in found:
            if code.co_filename.startswith(FOLDER):
                path = Path(code.co_filename).relative_to(Path(FOLDER).parent).with_suffix("")
                home = ".".join(path.parts).removesuffix(".__init__")
                if f"{home}.{code.co_qualname.partition('.')[0]}" not in known:
                    outside.append(f"{home}.{code.co_qualname}")
        return built
    return get(name, build_watched, kind)

graph = sources.Graph(sources.texts())
sources.digest, cache.get = digest_noted, get_noted

BOX = gw.RectDomain((0, 0, 0), (8, 8, 8))
a, b, between = gw.Array.zeros(BOX), gw.Array.full(BOX, 1.0), gw.Intermediate()

@gw.jit
def helper(x):
    return 2.0 * x

@gw.foreach
def kernel(p, a, b):
    a[p] = helper(b[p]) + b[p + gw.X] + gw.random(1, p, 2)

@gw.foreach
def grow(p, out, a):
    out[p] = a[p - gw.X] + a[p + gw.X]

@gw.reduce(op="fsum")
def total(p, a):
    return a[p]

@gw.jit
def norm(threads, x):
    return threads.sum(x[threads.index])

@gw.jit
def talk(team, x):
    gw.allreduce(team, x)
    print("sum", x[0])
    return gw.clock()

def handler(source, box, x):
    box[0] += x

kernel(BOX.shrink(1), a, b)
total(BOX, a)
gw.fused(BOX.shrink(2), (grow, between, a), (grow, b, between))
gw.parallel(norm, np.ones(2), threads=2)
talk(gw.world, np.ones(2))
gw.ActiveMessage(handler, ["float64"], [np.zeros(2)])
Native("gondwana.sync.signals_native", "take_soon", 3).code()
kind = gw.cuda(0)
da, db = gw.from_numpy(np.ones(BOX.shape), kind=kind), gw.zeros(BOX.shape, kind=kind)
grow(da.owned.shrink(1), db, da)
gw.fused(da.owned.shrink(2), (grow, between, da), (grow, db, between))
print(json.dumps({"compiled": gw.compilation().compiled, "unknown": unknown, "outside": sorted(set(outside))}))
"""

PASSING_ON = r"\.<locals>\.(build|compile_now|build_with_numba)$|kernels\.cuda\.launch\.compiler_needed$"
"""Functions that only hand arguments to what makes the code, or its errors back."""
AT_ALL_TIMES = (
    r"gondwana\.(runtime|testing)\.|gondwana\.__getattr__$|\.__annotate__$|"
    r"gondwana\.compiler\.(linker\.import_numba|cache\.)|\.__repr__(\.|$)|"
    r"gondwana\.compiler\.(function\.described|types\.arguments\.brief)"
)
"""What compiled code does not depend on, though it runs meanwhile: interruptions, the emulated driver, the cache, and
texts, which Numba makes of all that it meets."""
OF_OTHERS = r"gondwana\.kernels\.cpu\.intermediates\.\w+\.generic$"
"""What Numba asks because this process has compiled something else before: it refuses types that are not its own."""


def test_all_that_runs_to_compile_is_part_of_the_name(tmp_path: Path) -> None:
    """Functions of the library that run while something is compiled, or are compiled with it, are in its closure."""
    pytest.importorskip("numba_cuda")
    variables = {"GONDWANA_CACHE_DIR": str(tmp_path), "GONDWANA_CUDA": "emulated"}
    outcome = jobs.run_command([sys.executable, "-c", EVERYTHING], variables=variables, timeout=200)
    assert outcome.status == 0, str(outcome)
    found = json.loads(outcome.stdout.splitlines()[-1])
    assert found["compiled"] >= 12
    assert found["unknown"] == []
    apart = re.compile("|".join((PASSING_ON, AT_ALL_TIMES, OF_OTHERS, r"<lambda>$")))  # those have no names to look for
    assert [name for name in found["outside"] if not apart.search(name)] == []


def test_overloads_are_where_they_are_looked_for() -> None:
    """Compiled code of users may name what modules `*_overloads` register: `sources.OVERLOADS`."""
    for file in FOLDER.rglob("*.py"):
        for module in re.findall(r'^\s*extend\("([\w.]+)"\)', file.read_text(), re.MULTILINE):
            assert module.endswith(sources.OVERLOADS[1:]), module
