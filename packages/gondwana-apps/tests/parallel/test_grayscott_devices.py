"""Gray-Scott on GPUs, emulated ones: the bits of the host, on any number of ranks and with two steps a sweep.

The results of the host, by an independent implementation, are judged elsewhere.
"""

from __future__ import annotations

import functools
import json
import sys
from pathlib import Path

import pytest

from gondwana import results
from gondwana.io.dataset import Dataset
from support import jobs

pytestmark = pytest.mark.parallel

PROGRAM = Path(__file__).parent / "programs" / "grayscott_bits.py"
GPU = {"GONDWANA_CUDA": "emulated"}
RATES = {"F": 0.02, "k": 0.048, "dt": 1.0, "Du": 0.2, "Dv": 0.1, "seed": 42, "output": None}

# What is computed, and in which portions: pairs and single steps in turns.
RUNS = {
    "noisy": (["L=16", "noise=0.1"], "3+2"),
    "uneven": (["L=17", "noise=0.1"], "4"),
    "single": (["L=16", "precision=Float32", "noise=0.1"], "3"),
    "replayed": (["L=16"], "4+40+1+33"),
    "dirichlet": (["L=16", "preset=dirichlet"], "2"),
    "grayscott-jl": (["L=17", "preset=grayscott-jl", "noise=0.1"], "3"),
}
PLACES = {
    "host": ["device=host", "fuse_steps=1"],
    "host, fused": ["device=host", "fuse_steps=2"],
    "gpu": ["device=cuda", "fuse_steps=1"],
    "gpu, fused": ["device=cuda", "fuse_steps=2"],
}
# Ranks, their grid if it is not to be the best one, and what they run. Each shape of a box is compiled for itself.
JOBS: dict[str, tuple[int, list[int] | None, tuple[str, ...]]] = {
    "1": (1, None, ("noisy", "uneven", "replayed")),
    "1, more runs": (1, None, ("single", "dirichlet", "grayscott-jl")),
    "2": (2, None, ("noisy", "uneven")),
    "2, more runs": (2, None, ("single", "dirichlet", "grayscott-jl")),
    "3": (3, None, ("uneven",)),
    "4": (4, [2, 2, 1], ("noisy",)),
    "4 thin": (4, [4, 1, 1], ("noisy",)),
    "2 on 2 GPUs": (2, None, ("noisy",)),
    "2 on 2 nodes": (2, None, ("noisy",)),
}
AT_EACH_PUSH = "1", "2 on 2 nodes"
VARIABLES = {"2 on 2 GPUs": {"GONDWANA_EMULATED_DEVICES": "2"}, "2 on 2 nodes": {"GONDWANA_RANKS_PER_NODE": "1"}}


def places_of(name: str) -> list[str]:
    """Two steps in a sweep need a periodic boundary."""
    return [place for place in PLACES if "fused" not in place or name in ("noisy", "uneven", "single", "replayed")]


@functools.cache
def settings_file(folder: Path) -> Path:
    path = folder / "base.json"
    path.write_text(json.dumps(RATES))
    return path


@jobs.once
def bits(job: str, folder: Path) -> dict[str, str]:
    """The bits of all runs in all places, from one job."""
    ranks, dims, names = JOBS[job]
    cases = [
        f"{name}/{place.replace(' ', '_')}:{';'.join([*keys, *PLACES[place], f'dims={json.dumps(dims)}'])}:{portions}"
        for name, (keys, portions) in RUNS.items()
        if name in names
        for place in places_of(name)
    ]
    variables = {**GPU, **VARIABLES.get(job, {})}
    outcome = jobs.run_ranks(ranks, PROGRAM, str(settings_file(folder)), *cases, timeout=280, variables=variables)
    assert outcome.status == 0, str(outcome)
    lines = [line.split() for line in outcome.stdout.splitlines() if line.startswith("case ")]
    return {name.replace("_", " "): digest for _, name, _, digest in lines}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("gray-scott")


@pytest.mark.parametrize(
    ("name", "job"),
    [
        pytest.param(name, job, marks=() if job in AT_EACH_PUSH else pytest.mark.more)
        for job, (_, _, names) in JOBS.items()
        for name in names
    ],
)
def test_the_bits_do_not_depend_on_the_place(name: str, job: str, folder: Path) -> None:
    found = bits(job, folder)
    expected = bits("1" if name in JOBS["1"][2] else "1, more runs", folder)[f"{name}/host"]
    assert {place: found[f"{name}/{place}"] for place in places_of(name)} == dict.fromkeys(places_of(name), expected)


def try_both():
    """Replaces the measurement by one that decides for two steps at once."""
    import gondwana as gw
    from gondwana_apps.grayscott import fusing
    from gondwana_apps.grayscott.settings import resolve
    from gondwana_apps.grayscott.simulation import Simulation

    def is_faster(pair, single, *, key, device):
        single(), pair(), gw.synchronize()
        print("measured", *key, device.name if device else "host", flush=True)
        return True

    fusing._is_worth_a_try = lambda settings, team, device: True
    gw.is_faster = is_faster
    for noise, device in ((0.0, "cuda"), (0.1, "cuda"), (0.0, "host")):
        run = Simulation(resolve({"L": 16, "noise": noise, "output": None, "device": device}), gw.world)
        print("chosen", run.fuse_steps, run.u.ghost, flush=True)
    run = Simulation(resolve({"L": 16, "output": None, "device": "cuda", "preset": "dirichlet"}), gw.world)
    print("chosen", run.fuse_steps, run.u.ghost, flush=True)


def test_auto_takes_what_rank_0_has_measured() -> None:
    outcome = jobs.run_ranks(2, try_both, variables=GPU)
    assert outcome.status == 0, str(outcome)
    assert sorted(outcome.stdout.splitlines()) == [
        *2 * ["chosen 1 (1, 1, 1)"],
        *6 * ["chosen 2 (2, 2, 2)"],
        "measured gray-scott Float64  16x16x4 emulated GPU",
        "measured gray-scott Float64  16x16x8 host",
        "measured gray-scott Float64 noise 16x16x4 emulated GPU",
    ]


def test_reference_rows_are_reproduced_on_a_gpu(folder: Path) -> None:
    rows = {
        "adios2": ("preset=adios2", "2"),
        "dirichlet": ("preset=dirichlet", "2"),
        "grayscott-jl": ("preset=grayscott-jl", "2"),
        "noisy": ("noise=0.1", "1"),
        "float": ("precision=Float32", "10"),
    }
    cases = [f"{name}:device=cuda;L=32;k=0.048;{key}:{steps}" for name, (key, steps) in rows.items()]
    outcome = jobs.run_ranks(1, PROGRAM, str(settings_file(folder)), *cases, timeout=280, variables=GPU)
    verdicts = [line.split()[1:3] for line in outcome.stdout.splitlines() if line.startswith("case ")]
    assert verdicts == [[name, "True"] for name in rows], str(outcome)


# --- the command -----------------------------------------------------------------------------------------------------

SETTINGS = {**RATES, "L": 16, "steps": 9, "plotgap": 3, "noise": 0.1, "output": "gs.bp", "write_initial": True}


def gondwana(*arguments: object, cwd: Path, devices: int = 1, cuda: str = "emulated") -> jobs.Outcome:
    variables = {"GONDWANA_CUDA": cuda, "GONDWANA_EMULATED_DEVICES": str(devices)}
    command = [sys.executable, "-m", "gondwana.cli.main", *map(str, arguments)]
    return jobs.run_command(command, cwd=cwd, variables=variables, timeout=120)


def write_settings(folder: Path, **keys: object) -> None:
    (folder / "settings.json").write_text(json.dumps({**SETTINGS, **keys}))


def written(path: Path) -> dict[int, bytes]:
    """The fields of a dataset by step."""
    with Dataset(path) as data:
        return {
            int(step): b"".join(data.read(n, at).tobytes() for n in ("U", "V")) for at, step in enumerate(data.steps)
        }


@functools.cache
def from_the_host(folder: Path) -> dict[int, bytes]:
    write_settings(folder)
    outcome = gondwana("run", "gray-scott", "settings.json", cwd=folder)
    assert outcome.status == 0, str(outcome)
    return written(folder / "gs.bp")


@pytest.mark.parametrize(("ranks", "fused", "in_background"), [(1, 2, True), (2, "auto", True), (2, 2, False)])
def test_the_output_of_a_gpu_is_that_of_the_host(
    ranks: int, fused: object, in_background: bool, tmp_path: Path, folder: Path
) -> None:
    write_settings(tmp_path, fuse_steps=fused, async_write=in_background, backend="CPU")
    options = "--timing", "-n", ranks, "--device", "cuda"
    outcome = gondwana("run", *options, "gray-scott", "settings.json", "--json", "result.json", cwd=tmp_path)
    assert outcome.status == 0, str(outcome)
    assert written(tmp_path / "gs.bp") == from_the_host(folder)
    assert sorted(from_the_host(folder)) == [0, 3, 6, 9]
    with Dataset(tmp_path / "gs.bp") as data:
        assert data.attributes["gondwana_device"] == "emulated GPU"
    result = results.read(tmp_path / "result.json")[0]
    assert (result["device"], result["device_name"], result["ranks"]) == ("cuda", "emulated GPU", ranks)
    assert result["fuse_steps"] == (2 if fused == 2 else 1)
    assert (result["config"]["device"], result["config"]["backend"]) == ("cuda", None)
    assert result["cells_per_s"] > 0
    assert "to compile and tune for devices" in outcome.stderr
    assert outcome.stderr.count("1 GPU: emulated GPU") == 1


@pytest.mark.parametrize(("before", "after"), [("host", "cuda"), ("cuda", "host")])
def test_a_run_goes_on_elsewhere(before: str, after: str, tmp_path: Path, folder: Path) -> None:
    write_settings(tmp_path, fuse_steps=2, checkpoint=True, checkpoint_freq=5)
    run = "gray-scott", "settings.json"
    first = gondwana("run", "-n", 2, "--device", before, *run, "--set", "steps=5", cwd=tmp_path)
    assert first.status == 0, str(first)
    then = gondwana("run", "--device", after, *run, "--set", "restart=true", cwd=tmp_path)
    assert then.status == 0, str(then)
    assert "continuing after step 5" in then.stdout
    assert written(tmp_path / "gs.bp") == from_the_host(folder)


def test_auto_takes_the_gpu_that_is_there(tmp_path: Path) -> None:
    write_settings(tmp_path, device="auto", steps=1, output=None)
    there = gondwana("run", "gray-scott", "settings.json", cwd=tmp_path)
    assert "on emulated GPU" in there.stdout, str(there)
    missing = gondwana("run", "-n", 2, "gray-scott", "settings.json", cwd=tmp_path, devices=0)
    assert missing.status == 0, str(missing)
    assert missing.stderr.count('device "auto" is the host: ranks 0, 1: no device is visible') == 1
    assert "on the host" in missing.stdout


@pytest.mark.parametrize(
    ("arguments", "devices", "part"),
    [
        (["--device", "cuda", "gray-scott", "settings.json"], 0, 'device: "cuda" cannot be had: no device is visible'),
        (["gray-scott", "settings.json", "--set", "backend=CUDA"], 0, "no device is visible"),
        (["--device", "host", "gray-scott", "settings.json", "--set", "device=cuda"], 1, "contradict each other"),
        (["--device", "cuda", "settings.json"], 1, "a program decides itself where its arrays lie"),
        (["gray-scott", "settings.json", "--device", "moon"], 1, "invalid choice"),
        (["--device", "cuda", "gray-scott", "settings.json", "--set", "L=600"], 1, "on the emulated GPU of rank 0 and"),
    ],
)
def test_what_cannot_be_is_said_in_one_line(arguments: list[str], devices: int, part: str, tmp_path: Path) -> None:
    write_settings(tmp_path, output=None)
    outcome = gondwana("run", *arguments, cwd=tmp_path, devices=devices)
    assert outcome.status == 2, str(outcome)
    lines = [line for line in outcome.stderr.splitlines() if not line.startswith("gondwana: 1 rank of ")]
    assert len(lines) == 1, str(outcome)
    assert part in lines[0]
    assert outcome.stdout == ""
