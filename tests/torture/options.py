"""Malformed settings, options, names of files and variables: each runs or is refused in one line."""

from __future__ import annotations

import json
import os
import random
import shutil
import stat
import string
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.datasets import make_dataset
from support.trials import GONDWANA, Judged, Trials, judge

LIMIT = 60
"""Seconds of `--time-limit` for what may run; ended there, it has run."""

DIGITS = "9" * 5000
TEXTS = (
    "", " ", "0", "-0", "1", "-1", "2", "3", "16", "²", "\u0663", "1_0", "+5", "5.0", "1e3", "0x10", "nan", "inf",
    "-inf", DIGITS, "99999999999999999999", "2147483648", "x" * 300, "y" * 5000, "a,b", ",", "1,", "1,2", "1x2", "null",
    "true", "False", "[]", "[1,1,1]", "{}", '"', "'", "`", "$HOME", "%s", "{0}", "=", "--", "-", "--help", "-n", "a\nb",
    "\t", "\x1b[31mred", "\udcff", "é", "\u200b", ".", "..", "./x", "new/", "none/x", "file", "file/x", "folder",
    "empty", "dangling", "loop", "fifo", "full", "null-device", "socket", "gs.bp", "gs.bp/md.idx", "hpcg.dat",
    "ok.json",
)  # fmt: skip
SETTINGS = {
    "L": 16, "steps": 3, "plotgap": 1, "F": 0.04, "k": 0.06, "dt": 0.2, "Du": 0.05, "Dv": 0.1, "noise": 0.01,
    "output": "out.bp", "checkpoint": True, "checkpoint_freq": 2, "checkpoint_output": "ck.bp", "restart": False,
    "restart_input": "ck.bp", "adios_config": "", "adios_span": False, "adios_memory_selection": False,
    "mesh_type": "image", "precision": "Float64", "backend": "CPU", "preset": "adios2", "boundary": "periodic",
    "seed_width": 4, "seed": 1, "dims": None, "device": "host", "fuse_steps": 1, "write_initial": True,
    "async_write": True, "checkpoint_keep": 1, "stop_after_seconds": 2, "overwrite": True, "schema_version": 1,
}  # fmt: skip
DAVS = {
    "Tminimum": 2.0, "FineCoolingFactor1": 0.8, "FineCoolingFactor2": 0.8, "InitialCoolingFactor1": 0.8,
    "InitialCoolingFactor2": 0.8, "SigmaMethod": 3, "SigmaVectorParameters": [5.98e-4, 2.35], "UseSponge": True,
    "SpongeFactor1": 12.0, "ClusterFile": "out.txt", "DistanceMatrixFile": "", "InputFileType": 0, "Restart": False,
    "CheckpointFile": "", "TargetNcentPerPoint": 8, "MaxNcentTotal": 100, "Replicate": 2, "SelectedInputLabel": 2,
}  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 3, 16, 17, 0.5, -0.5, 1e-300, 1e300, 2**31 - 1, 2**31, 2**63, 2**64, 10**400, 1.5,
    [], [1, 1, 1], [2, 1, 1], [0, 1, 1], [1, 1], [[1]], {}, {"L": 16}, "fixed", "alternating", "Float32", "Float16",
    "cuda", "CUDA", "dirichlet", "auto", *TEXTS,
)  # fmt: skip
NO_PROGRAMS = ("file", "hpcg.dat", "ok.json", "fifo", "full", "null-device", "socket", "gs.bp/md.idx")
"""Files that Python itself would take for a program, and report in its own words, or wait for."""

VARIABLES = (
    "GONDWANA_THREADS", "GONDWANA_TIME_LIMIT", "GONDWANA_RANKS_PER_NODE", "GONDWANA_MPI", "GONDWANA_COPY_PATH",
    "GONDWANA_DEBUG_COPY", "GONDWANA_INTERPRET", "GONDWANA_CACHE_DIR", "CC", "NPB_TIMER_FLAG", "PMI_RANK",
    "SLURM_PROCID", "COLUMNS",
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A command line to try in a folder that was made for it."""

    words: Sequence[str]
    variables: Mapping[str, str] = field(default_factory=dict)


def main(minutes: float, seed: int) -> Mapping[str, int]:
    trials = Trials(__name__, minutes, seed)
    with tempfile.TemporaryDirectory() as root:
        dataset = make_dataset(Path(root) / "gs.bp", steps=2)
        for number, rng in enumerate(trials):
            # Two levels down, so that ".." is a folder of this part, too.
            folder = Path(root) / str(number) / "try"
            kinds = furnish(folder, dataset)
            case = make(rng, folder)
            outcome = judge([*GONDWANA, *case.words], timeout=3 * LIMIT, cwd=folder, variables=case.variables)
            changed = [name for name, kind in kinds.items() if kind != kind_of(folder / name)]
            trials.record("wrong" if changed else verdict_of(outcome), f"{outcome}  {case.variables} {changed}")
            shutil.rmtree(folder.parent)
    return trials.counts


def verdict_of(outcome: Judged) -> str:
    """A refusal is one line and nothing else; what reaches its time limit has run."""
    if outcome.status == 124 and "the time limit of" in outcome.stderr:
        return "ran"
    several = outcome.stderr.count("\n") > 1 and "MPI_ABORT" not in outcome.stderr
    return "unclear" if outcome.verdict == "refused" and several else outcome.verdict


def furnish(folder: Path, dataset: Path) -> dict[str, int]:
    """Fill a folder with files of all kinds, and return the kinds of those that no run may change."""
    folder.mkdir(parents=True)
    (folder / "file").write_text("a file\n")
    (folder / "folder").mkdir()
    (folder / "empty").touch()
    (folder / "dangling").symlink_to("nowhere")
    (folder / "loop").symlink_to("loop")
    os.mkfifo(folder / "fifo")
    os.mknod(folder / "socket", 0o600 | stat.S_IFSOCK)
    for name, minor in (("full", 7), ("null-device", 3)):
        if os.geteuid() == 0:
            os.mknod(folder / name, 0o666 | stat.S_IFCHR, os.makedev(1, minor))
        else:
            (folder / name).symlink_to("/dev/" + name.partition("-")[0])
    shutil.copytree(dataset, folder / "gs.bp")
    (folder / "hpcg.dat").write_text("HPCG\nbenchmark\n16 16 16\n0\n")
    (folder / "ok.json").write_text(json.dumps(SETTINGS))
    special = ("folder", "dangling", "loop", "fifo", "socket", "full", "null-device")
    return {name: kind_of(folder / name) for name in special}


def kind_of(path: Path) -> int:
    """The type of a file, links not followed; 0: it is gone."""
    return stat.S_IFMT(path.lstat().st_mode) if os.path.lexists(path) else 0


def make(rng: random.Random, folder: Path) -> Case:
    """Make a command line; files that it names are written to the folder."""
    case = rng.choice(MAKERS)(rng, folder)
    if rng.random() < 0.1:
        return Case(case.words, {rng.choice(VARIABLES): text(rng)})
    return case


def text(rng: random.Random) -> str:
    """A text as nobody should give it; no NUL, which no argument can hold."""
    if rng.random() < 0.8:
        return rng.choice(TEXTS)
    return "".join(rng.choice(string.printable + "é²\u0663\u2028") for _ in range(rng.randrange(1, 40)))


def either(rng: random.Random, *legal: str) -> str:
    return rng.choice(legal) if rng.random() < 0.5 else text(rng)


def options(rng: random.Random, legal: Mapping[str, Sequence[str]], most: int = 3) -> list[str]:
    """Some options with values of which about half are legal, and now and then something else."""
    words = []
    for name in rng.sample(sorted(legal), min(most, rng.randrange(len(legal) + 1))):
        words += [name, either(rng, *legal[name])] if legal[name] else [name]
    if rng.random() < 0.1:
        words.insert(rng.randrange(len(words) + 1), text(rng))
    return words


def launched(rng: random.Random, *words: str) -> list[str]:
    """`gondwana run` with legal options for the application that follows."""
    ranks = ["-n", "2"] if rng.random() < 0.1 else []
    return ["run", *ranks, "-t", "1", "--time-limit", str(LIMIT), *words]


def json_option(rng: random.Random) -> list[str]:
    return ["--json", either(rng, "new.json", "full", "fifo", "dangling", "null-device")] if rng.random() < 0.3 else []


def gray_scott(rng: random.Random, folder: Path) -> Case:
    keys: dict[str, Any] = dict(SETTINGS)
    for key in rng.sample(sorted(keys), rng.randrange(4)):
        keys[key] = rng.choice(VALUES)
    if rng.random() < 0.2:
        keys[text(rng)] = rng.choice(VALUES)
    content = json.dumps(keys, ensure_ascii=rng.random() < 0.5).encode(errors="surrogatepass")
    if rng.random() < 0.4:
        content = damaged(rng, content)
    (folder / "s.json").write_bytes(content)
    sets = [f"--set={either(rng, *SETTINGS)}={text(rng)}" for _ in range(rng.randrange(3))]
    file = "s.json" if rng.random() < 0.9 else text(rng)
    return Case(launched(rng, "gray-scott", file, *sets, *json_option(rng)))


def damaged(rng: random.Random, content: bytes) -> bytes:
    """A text with an error that a hand, a disk or a vandal makes."""
    place = rng.randrange(len(content))
    other = rng.randrange(len(content))
    return rng.choice((
        content[:place],
        content[:place] + content[other:],
        content[:place] + bytes([rng.randrange(256)]) + content[place + 1 :],
        content + content,
        content.replace(b'"', b"'"),
        content.replace(b"}", b",}"),
        b"[" * 100_000,
        b'{"L":' * 50_000,
        b"\xff\xfe" + content.decode(errors="replace").encode("utf-16-le"),
        b"\0" * 100,
        b"",
        b'{"L": ' + b"9" * 5000 + b"}",
        b" " * (1 << 21),
    ))  # fmt: skip


def npb(rng: random.Random, folder: Path) -> Case:
    name = rng.choice(("npb-cg", "npb-mg", "npb-ft"))
    legal = {"--class": ("S",), "--variant": ("overlap", "blocking"), "--side": ("4", "8"), "--grid": ("1x1", "2x1")}
    return Case(launched(rng, name, *options(rng, legal, 2), *json_option(rng)))


def hpcg(rng: random.Random, folder: Path) -> Case:
    if rng.random() < 0.5:
        numbers = [either(rng, "16", "24") for _ in range(3)]
        lines = [
            "HPCG",
            "benchmark",
            " ".join(numbers),
            either(rng, "0", "-5"),
            *(text(rng) for _ in range(rng.randrange(3))),
        ]
        content = "\n".join(lines).encode(errors="surrogateescape")
        (folder / "hpcg.dat").write_bytes(damaged(rng, content) if rng.random() < 0.3 else content)
        return Case(launched(rng, "hpcg", "--rt", "0", *json_option(rng)))
    size = {f"--n{side}": ("16",) for side in "xyz"}
    rest = {"--pz": ("1",), "--zl": ("16",), "--zu": ("16",), "--npx": ("1",), "--npy": ("1",), "--npz": ("1",)}
    words = options(rng, {**size, **rest, "--file": ("hpcg.dat",)}, 4)
    bare = [either(rng, "16", "3") for _ in range(rng.randrange(3))] if rng.random() < 0.3 else []
    return Case(launched(rng, "hpcg", "--rt", "0", *words, *bare, *json_option(rng)))


def davs(rng: random.Random, folder: Path) -> Case:
    keys = dict(DAVS)
    for key in rng.sample(sorted(keys), rng.randrange(3)):
        keys[key] = rng.choice(VALUES)
    lines = [f"{key} = {json.dumps(value)}" for key, value in keys.items()]
    content = "\n".join(lines).encode(errors="surrogatepass")
    (folder / "s.toml").write_bytes(damaged(rng, content) if rng.random() < 0.4 else content)
    peaks = "\n".join(f"{i}\t{500.0 + 1e-3 * (i // 8)}\t{10.0 * (i // 8)}\t2" for i in range(64)).encode()
    (folder / "peaks.txt").write_bytes(damaged(rng, peaks) if rng.random() < 0.4 else peaks)
    legal = {"--seed": ("1",), "--write-points": ("new.txt",), "--pictures": (".",)}
    sets = [f"--set={either(rng, *DAVS)}={text(rng)}" for _ in range(rng.randrange(3))]
    file = "s.toml" if rng.random() < 0.9 else text(rng)
    words = [
        "--preset",
        either(rng, "tiny"),
        "--points",
        either(rng, "peaks.txt"),
        *options(rng, legal, 2),
        *sets,
        *json_option(rng),
    ]
    return Case(launched(rng, "davs", file, *words))


def run(rng: random.Random, folder: Path) -> Case:
    (folder / "program.py").write_text("import gondwana as gw\nprint(gw.world.rank, gw.threads())\n")
    legal = {
        "-n": ("1", "2"), "-t": ("1", "2"), "--device": ("host", "cuda"), "--time-limit": ("30", "9.5"),
        "--ranks-per-node": ("1", "2"), "--bind": ("core", "socket", "numa", "none"),
        "--timing": (), "--dry-run": (), "--oversubscribe": (),
    }  # fmt: skip
    target = either(rng, "program.py", "program.py", "hpcg", "gray-scott", "npb-cg", "gray-scot")
    if target in NO_PROGRAMS:
        target = "folder"
    return Case(["run", *options(rng, legal), target, *(text(rng) for _ in range(rng.randrange(2)))])


def inputs(rng: random.Random, folder: Path) -> Case:
    """Commands that read files, with FIFOs, devices, folders, huge and damaged files among these."""
    for name, size in (("huge", 1 << 40), ("large", 2 << 20)):
        (folder / name).touch()
        os.truncate(folder / name, size)
    legal = json.dumps({"app": "heat", "ranks": 1}).encode()
    (folder / "result.json").write_bytes(damaged(rng, legal) if rng.random() < 0.7 else legal)
    odd = (
        "fifo",
        "full",
        "null-device",
        "socket",
        "folder",
        "huge",
        "large",
        "dangling",
        "loop",
        "empty",
        "result.json",
    )
    file = rng.choice(odd) if rng.random() < 0.8 else text(rng)
    (folder / "it.npy").symlink_to(file if file and len(file) < 200 and "/" not in file else "fifo")
    sets = [f"--set=DistanceMatrixFile={file}"]
    words = rng.choice((
        ["report", file, "-o", "page.html"],
        ["otf2", file, "-o", "archive"],
        ["model", "fit", file, "-o", "machine.json"],
        ["model", "fit", "result.json", "--record", file, "-o", "machine.json"],
        ["model", "check", "result.json", "--machine", file],
        ["model", "predict", "--app", "heat", "--size", "8x8x8", "--ranks", "1,2", "--machine", file],
        launched(rng, "gray-scott", file),
        launched(rng, "hpcg", "--rt", "0", "--file", file),
        launched(rng, "pwc", *sets),
        launched(rng, "pwc", "--set=DistanceMatrixFile=it.npy"),
        launched(rng, "pwc", file),
        launched(rng, "davs", "--preset", "tiny", "--points", file),
        launched(rng, "--trace", file, "npb-cg", "--class", "S"),
    ))  # fmt: skip
    return Case(words)


def ls(rng: random.Random, folder: Path) -> Case:
    words = options(rng, {"-l": (), "-D": (), "--long": (), "--verify": ()})
    return Case(["ls", *words, either(rng, "gs.bp", "gs.bp")])


def plot(rng: random.Random, folder: Path) -> Case:
    legal = {
        "--out": ("pictures", "new/pictures"), "-v": ("U", "V"), "--steps": ("10", "first", "all", "10,20"),
        "--plane": ("xy", "yz"), "--index": ("0", "2"), "--no-montage": (), "--bins": ("10",),
    }  # fmt: skip
    return Case(["plot", either(rng, "gs.bp", "gs.bp"), *options(rng, legal)])


def bench(rng: random.Random, folder: Path) -> Case:
    """Most are refused: what may run is as small as a benchmark can be."""
    small = ["--repeat", "1", "--batch", "0.0001"]
    name, legal = rng.choice((
        ("stencil", {"--sizes": ("8",), "--kernels": ("copy",), "--dtypes": ("float32",), "--threads": ("1",)}),
        ("exchange", {"--sizes": ("8",), "--fields": ("1",)}),
        ("rma", {"--sizes": ("8",)}),
        ("npb", {"--against": ("folder",), "--classes": ("S",), "-n": ("1",), "--benchmarks": ("mg",)}),
        ("hpcg", {"--against": ("file",), "--sizes": ("16",), "-n": ("1",), "--rt": ("0",), "--mpirun": ("mpirun",)}),
        ("gpu", {"--sizes": ("64",), "--panels": ("copy",), "--budget": ("1",)}),
        ("kinds", {"--sizes": ("8",), "--windows": ("1",), "--volume": ("64",)}),
        ("tasks", {"--cases": ("peek",), "-n": ("1", "2"), "--batch": ("0.0001",)}),
        ("pools", {"--cases": ("in batches",), "--tasks": ("100",)}),
    ))  # fmt: skip
    required = {
        "stencil": ["--sizes", "8", "--kernels", "copy"], "exchange": ["--sizes", "8"], "rma": ["--sizes", "8"],
        "tasks": ["--cases", "peek"], "pools": ["--cases", "in batches", "--tasks", "100", "--repeat", "1"],
        "hpcg": ["--sizes", "16", "-n", "1", "--rt", "0"], "npb": ["--classes", "S", "-n", "1"],
    }  # fmt: skip
    timing = small if name in ("stencil", "exchange", "rma", "tasks") else []
    words = [*timing, *required.get(name, []), *options(rng, legal, 2), *json_option(rng)]
    return Case(["bench", *(words if rng.random() < 0.02 else [name, *words])])


MAKERS: tuple[Callable[[random.Random, Path], Case], ...] = (
    gray_scott, gray_scott, gray_scott, npb, npb, hpcg, hpcg, davs, davs, run, run, ls, plot, plot, bench,
    inputs, inputs, inputs,
)  # fmt: skip
