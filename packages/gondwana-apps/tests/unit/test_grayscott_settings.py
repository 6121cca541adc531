"""Settings files of the Gray-Scott app: what is read, and the one line that is said about what is not."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, strategies as st

import gondwana as gw
from gondwana.errors import UsageError
from gondwana.io import checkpoint
from gondwana_apps.free_memory import available_memory
from gondwana_apps.grayscott import resources
from gondwana_apps.grayscott.settings import Settings, load, notices, resolve
from gondwana_apps.grayscott.settings_file import parse_object

EXAMPLES = Path(__file__).parents[4] / "examples" / "gray-scott"


def one_line_of(error: pytest.ExceptionInfo[UsageError]) -> str:
    text = str(error.value)
    assert "\n" not in text
    assert text.isprintable()
    assert len(text) < 1000
    return text


# --- files that are not a settings object ----------------------------------------------------------------------------

MALFORMED: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "the file is empty"),
    "blank": (b" \n\t\n", "the file is empty"),
    "only a byte-order mark": (b"\xef\xbb\xbf", "the file is empty"),
    "not json": (b"hello", "not JSON at line 1, column 1"),
    "yaml": (b"L: 64\nsteps: 10\n", "not JSON at line 1"),
    "xml": (b"<settings/>", "not JSON at line 1"),
    "python": (b"{'L': 64}", "strings take double quotes"),
    "python constant": (b'{"checkpoint": True}', "write true in lower case"),
    "python none": (b'{"output": None}', "write null"),
    "comment": (b'{\n  // size\n  "L": 64\n}', "line 2, column 3: found '//'; JSON has no comments"),
    "shell comment": (b'{\n  "L": 64\n  # size\n}', "JSON has no comments"),
    "trailing comma": (b'{\n  "L": 64,\n}', "trailing comma"),
    "trailing comma in list": (b'{"dims": [1, 1, 2,]}', "trailing comma"),
    "missing comma": (b'{"L": 64 "steps": 1}', "not JSON at line 1, column 10"),
    "missing colon": (b'{"L" 64}', "not JSON at line 1, column 6"),
    "unclosed object": (b'{"L": 64', "ends too early|expecting"),
    "unclosed string": (b'{"output": "gs.bp}', "not JSON at line 1"),
    "two objects": (b'{"L": 64} {"L": 32}', "text follows after the object"),
    "plus sign": (b'{"F": +0.1}', "no leading plus"),
    "bare fraction": (b'{"F": .1}', "start with a digit"),
    "leading zero": (b'{"L": 064}', "not JSON at line 1"),
    "hexadecimal": (b'{"L": 0x40}', "not JSON at line 1"),
    "control character": (b'{"output": "a\nb"}', "not JSON at line 1"),
    "null": (b"null", "holds null; legal is one JSON object"),
    "number": (b"64", "holds an integer"),
    "fraction": (b"6.4", "holds a number"),
    "string": (b'"L"', "holds a string"),
    "boolean": (b"true", "holds a boolean"),
    "list": (b'[{"L": 64}]', "holds a list"),
    "not utf-8": (b'{\n"output": "\xff\xfe.bp"}', "not UTF-8 at line 2"),
    "latin-1": ('{"output": "größe.bp"}'.encode("latin-1"), "not UTF-8"),
    "utf-16": ('{"L": 64}'.encode("utf-16"), "NUL bytes"),
    "nul bytes": (b'{"L": 64}\0\0\0', "NUL bytes"),
    "binary": (b"\x7fELF\x02\x01\x01\0\0\0", "NUL bytes"),
    "huge": (b'{"output": "' + b"x" * (1 << 20) + b'"}', "larger than 1 MiB"),
    "deep lists": (b'{"L": ' + b"[" * 100_000, "nested too deeply"),
    "deep objects": (b'{"L":' * 100_000, "nested too deeply"),
    "key twice": (b'{"L": 64, "steps": 1, "L": 32}', 'key "L" is given twice'),
    "NaN": (b'{"F": NaN}', "NaN is not a number that JSON has"),
    "Infinity": (b'{"F": Infinity}', "Infinity is not"),
    "minus Infinity": (b'{"F": -Infinity}', "-Infinity is not"),
    "overflow": (b'{"F": 1e999}', "1e999 is too large"),
    "endless integer": (b'{"L": ' + b"9" * 5000 + b"}", "5000 digits is too long"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_file_gets_one_line(name: str, tmp_path: Path) -> None:
    content, expected = MALFORMED[name]
    path = tmp_path / "case.json"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=expected) as error:
        load(path)
    assert one_line_of(error).startswith(str(path))


# --- objects with an illegal key or value ----------------------------------------------------------------------------

ILLEGAL: dict[str, tuple[dict[str, Any], str]] = {
    "unknown key": ({"stepz": 10}, "unknown key \"stepz\"; did you mean 'steps'"),
    "wrong case": ({"l": 64}, "did you mean 'L'"),
    "wrong case two": ({"du": 0.1}, "did you mean 'Du'"),
    "no such key": ({"qqqqqq": 1}, "legal keys are L, steps"),
    "key with newline": ({"a\nb": 1}, r'unknown key "a\\nb"'),
    "empty key": ({"": 1}, "unknown key"),
    "compressor": ({"compress": "zfp"}, "no compressor; remove the key"),
    "gpu": ({"device": "gpu"}, 'device is "gpu"; legal is "host" or "cuda" or "auto"'),
    "device in capitals": ({"device": "CUDA"}, 'did you mean "cuda"'),
    "two devices": ({"device": "cuda", "backend": "CPU"}, "contradict each other; leave out backend"),
    "automatic and not": ({"device": "auto", "backend": "CUDA"}, "contradict each other"),
    "steps as string": ({"fuse_steps": "2"}, 'legal is 1 or 2 or "auto"; write 2 without quotes'),
    "three steps": ({"fuse_steps": 3}, "fuse_steps is 3"),
    "two steps at a wall": ({"fuse_steps": 2, "boundary": "fixed"}, 'needs a periodic boundary, not "fixed"'),
    "two steps at Julia's wall": ({"fuse_steps": 2, "preset": "grayscott-jl"}, 'set fuse_steps to 1 or "auto"'),
    "number as string": (
        {"L": "64"},
        'L is "64"; legal is a whole number from 1 to 2147483647; write 64 without quotes',
    ),
    "fraction for integer": ({"L": 64.5}, "L is 64.5; legal is a whole number"),
    "whole fraction for integer": ({"steps": 64.0}, "legal is a whole number .*; write 64"),
    "boolean for integer": ({"L": True}, "L is true; legal is a whole number"),
    "boolean for number": ({"F": False}, "F is false; legal is a number from 0 to 1"),
    "null for number": ({"dt": None}, "dt is null; legal is a number above 0"),
    "list for number": ({"dt": [1]}, "dt is \\[1\\]"),
    "object for string": ({"output": {}}, "output is {}; legal is a string or null"),
    "integer for string": ({"output": 5}, "output is 5"),
    "number for boolean": ({"checkpoint": 1}, "checkpoint is 1; legal is true or false"),
    "string for boolean": ({"restart": "True"}, "write true without quotes"),
    "zero cells": ({"L": 0}, "from 1 to"),
    "negative cells": ({"L": -64}, "L is -64"),
    "smaller than the seed": ({"L": 11}, "the seed is 12 cells wide, so L is at least 12"),
    "smaller than the wide seed": ({"L": 13, "preset": "dirichlet"}, "L is at least 14"),
    "too many cells": ({"L": 10**10}, "to 2147483647"),
    "astronomic": ({"L": 10**300}, "to 2147483647"),
    "negative steps": ({"steps": -1}, "steps is -1; legal is a whole number from 0"),
    "no gap": ({"plotgap": 0}, "plotgap is 0; legal is a whole number from 1"),
    "no checkpoint gap": ({"checkpoint_freq": 0}, "checkpoint_freq is 0"),
    "no checkpoint kept": ({"checkpoint_keep": 0}, "checkpoint_keep is 0"),
    "negative feed": ({"F": -0.01}, "F is -0.01; legal is a number from 0 to 1"),
    "feed above one": ({"F": 4}, "F is 4"),
    "kill above one": ({"k": 1.5}, "k is 1.5"),
    "negative diffusion": ({"Du": -0.1}, "Du is -0.1"),
    "negative noise": ({"noise": -1e-7}, "noise is -1e-07"),
    "no time step": ({"dt": 0}, "dt is 0; legal is a number above 0"),
    "unstable diffusion": (
        {"dt": 6, "Du": 0.2},
        "dt is 6, unstable: dt.max.Du, Dv. = 1.2 is above 1; set dt to at most 5",
    ),
    "unstable reaction": ({"dt": 9, "F": 0.1, "k": 0.1}, "dt.*F . k. = 1.8 is above 1; set dt to at most 5"),
    "half precision": ({"precision": "Float16"}, 'too few digits.*legal is "Float64" or "Float32"'),
    "other precision": ({"precision": "float32"}, 'did you mean "Float32"'),
    "C precision": ({"precision": "double"}, 'precision is "double"'),
    "backend": ({"backend": "AMDGPU"}, 'NVIDIA GPUs only; legal is "CPU" or "CUDA" or null'),
    "other backend": ({"backend": "cuda"}, 'did you mean "CUDA"'),
    "mesh": ({"mesh_type": "structured"}, "uniform grid"),
    "preset": ({"preset": "adios"}, 'did you mean "adios2"'),
    "boundary": ({"boundary": "dirichlet"}, '"periodic" or "fixed" or "alternating"'),
    "negative seed": ({"seed": -1}, "seed is -1"),
    "seed of 64 bits": ({"seed": 2**63}, "seed is 9223372036854775808"),
    "dims of two": ({"dims": [2, 2]}, "dims is \\[2, 2\\]; legal is a list of 3 numbers"),
    "dims with zero": ({"dims": [0, 1, 2]}, "each a whole number from 1"),
    "dims too fine": ({"dims": [65, 1, 1], "L": 64}, "takes at most 64 ranks"),
    "no time": ({"stop_after_seconds": 0}, "a number above 0 and up to 1e\\+09 or null"),
    "other schema": ({"schema_version": 2}, "schema_version is 2; legal is 1"),
    "newline in name": ({"output": "a\nb"}, "printable text"),
    "surrogate in name": ({"output": "\ud800"}, "printable text"),
    "long name": ({"output": "x" * 5000}, "at most 1000 characters"),
    "same names": ({"checkpoint": True, "output": "a.bp", "checkpoint_output": "./a.bp"}, "the same as output"),
    "no checkpoint name": ({"checkpoint": True, "checkpoint_output": ""}, "needs a name"),
    "no restart name": ({"restart": True, "restart_input": ""}, "needs a name"),
}


@pytest.mark.parametrize("name", ILLEGAL)
def test_illegal_value_gets_one_line(name: str, tmp_path: Path) -> None:
    keys, expected = ILLEGAL[name]
    path = tmp_path / "case.json"
    path.write_text(json.dumps(keys))
    with pytest.raises(UsageError, match=expected) as error:
        load(path)
    assert one_line_of(error).startswith(str(path))


# --- paths -----------------------------------------------------------------------------------------------------------


def test_paths_that_are_no_settings_file(tmp_path: Path) -> None:
    (tmp_path / "folder.json").mkdir()
    (tmp_path / "settings.json").write_text("{}")
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "loop.json").symlink_to(tmp_path / "loop.json")
    for name, expected in {
        "settings.yaml": "ends in .json",
        "settings": "ends in .json",
        "": "ends in .json",
        "folder.json": "this is a directory",
        "setings.json": "no such file; did you mean .*/settings.json",
        "other/absent.json": "no such file; check the path",
        "pipe.json": "not a regular file",
        "loop.json": "no such file|cannot be read",
        "x" * 300 + ".json": "cannot be read",
        "a\nb.json": r"a\\nb.json\": no such file",
    }.items():
        with pytest.raises(UsageError, match=expected) as error:
            load(tmp_path / name)
        one_line_of(error)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_unreadable_file(tmp_path: Path) -> None:
    path = tmp_path / "secret.json"
    path.write_text("{}")
    path.chmod(0)
    with pytest.raises(UsageError, match="cannot be read"):
        load(path)


# --- what is read ----------------------------------------------------------------------------------------------------

CPP_FILES = """{
    "L": 64, "Du": 0.2, "Dv": 0.1, "F": 0.01, "k": 0.05, "dt": 2.0, "plotgap": 10, "steps": 1000, "noise": 0.0000001,
    "output": "gs.bp", "checkpoint": true, "checkpoint_freq": 700, "checkpoint_output": "ckpt.bp", "restart": false,
    "restart_input": "ckpt.bp", "adios_config": "adios2.xml", "adios_span": false, "adios_memory_selection": false,
    "mesh_type": "image"
}"""
CPP_STAGING = """{
    "L": 64, "Du": 0.2, "Dv": 0.1, "F": 0.01, "k": 0.05, "dt": 2.0, "plotgap": 10, "steps": 60000, "noise": 0.0000001,
    "output": "gs.bp", "checkpoint": false, "checkpoint_freq": 1000, "checkpoint_output": "ckpt.bp",
    "adios_config": "adios2.xml", "adios_span": false, "adios_memory_selection": true, "mesh_type": "image"
}"""
JULIA = """{
    "L": 64, "Du": 0.2, "Dv": 0.1, "F": 0.02, "k": 0.048, "dt": 1.0, "plotgap": 10, "steps": 1000, "noise": 0.1,
    "output": "gs-julia-1MPI-64L-F32.bp", "checkpoint": false, "checkpoint_freq": 700, "checkpoint_output": "ckpt.bp",
    "restart": false, "restart_input": "ckpt.bp", "adios_config": "adios2.yaml", "adios_span": false,
    "adios_memory_selection": false, "mesh_type": "image", "precision": "Float32", "backend": "CPU"
}"""


@pytest.mark.parametrize("text", [CPP_FILES, CPP_STAGING, JULIA], ids=["files", "staging", "julia"])
def test_legacy_file_is_read_unchanged(text: str, tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_text(text)
    resolved = load(path).resolved()
    for key, value in json.loads(text).items():
        assert resolved[key] == value


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.json")), ids=lambda path: path.stem)
def test_examples_are_legal(path: Path) -> None:
    settings = load(path)
    resources.check_ranks(settings, 2)
    assert resources.needs(settings).output_steps > 0


def test_defaults_are_those_of_the_reference_programs() -> None:
    cpp, julia = resolve({}), resolve({"preset": "grayscott-jl"})
    shared = (128, 20000, 200, 0.04, 0.2, 0.05, 0.1, 0.0, "foo.bp", False, 2000, "ckpt.bp")
    for s in (cpp, julia):
        values = (s.L, s.steps, s.plotgap, s.F, s.dt, s.Du, s.Dv, s.noise, s.output, s.checkpoint, s.checkpoint_freq)
        assert (*values, s.checkpoint_output) == shared
    assert (cpp.k, cpp.boundary, cpp.seed_width) == (0.06075, "periodic", 12)
    assert (julia.k, julia.boundary, julia.seed_width) == (0.0, "alternating", 13)
    assert resolve({"preset": "dirichlet"}).boundary == "fixed"
    assert Settings() == cpp


def test_keys_win_over_the_preset() -> None:
    settings = resolve({"preset": "grayscott-jl", "k": 0.05, "boundary": "periodic", "seed_width": 12})
    assert (settings.k, settings.boundary, settings.seed_width) == (0.05, "periodic", 12)


def test_seed_range_follows_the_references() -> None:
    assert resolve({"L": 64}).seed_range == (26, 38)
    assert resolve({"L": 64, "preset": "dirichlet"}).seed_range == (26, 39)
    assert resolve({"L": 31}).seed_range == (9, 21)


def test_utf8_with_byte_order_mark_and_accents(tmp_path: Path) -> None:
    path = tmp_path / "größe.json"
    path.write_bytes(b"\xef\xbb\xbf" + '{"output": "größe.bp"}'.encode())
    assert load(path).output == "größe.bp"
    path.write_text('{"L": -1}')
    with pytest.raises(UsageError, match=r"größe\.json: L is -1"):
        load(path)


def test_integers_are_numbers(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_text('{"dt": 1, "F": 0, "stop_after_seconds": 60}')
    settings = load(path)
    assert (settings.dt, settings.F, settings.stop_after_seconds) == (1.0, 0.0, 60.0)
    assert isinstance(settings.dt, float)


# --- overrides -------------------------------------------------------------------------------------------------------


def test_overrides_replace_keys_of_the_file() -> None:
    settings = load(
        EXAMPLES / "demo.json",
        [
            *("L=32", "F = 0.03", "output=other.bp", 'restart_input="my ckpt"', "precision=Float32"),
            *("dims=[1,1,2]", "checkpoint=true", "preset=dirichlet", "L=48"),
        ],
    )
    assert (settings.L, settings.F, settings.output, settings.restart_input) == (48, 0.03, "other.bp", "my ckpt")
    assert (settings.precision, settings.dims, settings.checkpoint) == ("Float32", (1, 1, 2), True)
    assert (settings.boundary, settings.steps) == ("fixed", 3000)


@pytest.mark.parametrize(("text", "output"), [("output=", ""), ("output=null", None), ("output=12", "12")])
def test_output_can_be_switched_off(text: str, output: str | None) -> None:
    assert load(EXAMPLES / "demo.json", [text]).output == output


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("L", "there is no '='"),
        ("", "there is no '='"),
        ("=5", 'unknown key ""'),
        ("l=5", "did you mean 'L'"),
        ("L=abc", "--set L: not JSON"),
        ("L=", "--set L: not JSON"),
        ("L=1.5", "--set: L is 1.5"),
        ("F=NaN", "NaN is not a number"),
        ("precision=float64", 'did you mean "Float64"'),
        ("dt=100", "--set: dt is 100, unstable"),
        ("dims=[1,2", "--set dims: not JSON"),
        ("schema_version=2", "legal is 1"),
        ("fuse_steps=3", "--set: fuse_steps is 3; legal is 1 or 2"),
        ("fuse_steps=atuo", 'did you mean "auto"'),
        ("device=gpu", "--set: device is"),
        ("output=\x1b[31m", "printable text"),
        ("steps=" + "[" * 100_000, "nested too deeply"),
    ],
)
def test_bad_override_gets_one_line(text: str, expected: str) -> None:
    with pytest.raises(UsageError) as error:
        load(EXAMPLES / "demo.json", [text])
    assert expected in one_line_of(error)


# --- where the kernels run -------------------------------------------------------------------------------------------


def test_backend_is_the_device_of_old_files() -> None:
    assert (resolve({}).device, resolve({}).backend) == ("host", None)
    assert resolve({"backend": "CPU"}).device == "host"
    assert resolve({"backend": "CUDA"}).device == "cuda"
    assert resolve({"backend": "CUDA", "device": "cuda"}).backend == "CUDA"
    assert resolve({"backend": None, "device": "auto"}).device == "auto"


def test_the_command_line_decides_where_the_kernels_run(tmp_path: Path) -> None:
    path = tmp_path / "old.json"
    path.write_text('{"backend": "CPU"}')
    assert load(path).device == "host"
    assert load(path, ["device=cuda"]).device == "cuda"
    assert load(path, ["backend=CUDA"]).device == "cuda"
    assert load(path, [], "cuda").device == "cuda"
    assert load(path, ["device=cuda"], "cuda").device == "cuda"
    for override in ("device=host", "device=auto", "backend=CPU"):
        with pytest.raises(UsageError, match="contradict each other") as error:
            load(path, [override], "cuda")
        one_line_of(error)


def test_steps_in_a_sweep() -> None:
    assert resolve({}).fuse_steps == "auto"
    assert resolve({"fuse_steps": 2}).fuse_steps == 2
    assert resolve({"fuse_steps": "auto", "preset": "dirichlet"}).fuse_steps == "auto"
    for text, value in (
        ("fuse_steps=2", 2),
        ("fuse_steps=1", 1),
        ("fuse_steps=auto", "auto"),
        ('fuse_steps="auto"', "auto"),
    ):
        assert load(EXAMPLES / "demo.json", [text]).fuse_steps == value


# --- provenance, restart, notices ------------------------------------------------------------------------------------


def test_resolved_settings_are_json_and_resolve_to_themselves() -> None:
    settings = resolve({"preset": "grayscott-jl", "dims": [1, 2, 3], "output": None})
    assert resolve(json.loads(json.dumps(settings.resolved()))) == settings


def test_physics_are_what_decides_the_fields() -> None:
    base = resolve({})
    same = resolve(
        {"steps": 5, "output": "x.bp", "dims": [2, 1, 1], "restart": True, "checkpoint": True, "device": "cuda"}
    )
    assert base.physics() == same.physics()
    for change in (
        {"L": 64}, {"F": 0.1}, {"k": 0.1}, {"dt": 0.1}, {"Du": 0.1}, {"Dv": 0.2}, {"noise": 0.1}, {"seed": 1},
        {"boundary": "fixed"}, {"seed_width": 10}, {"precision": "Float32"}, {"preset": "dirichlet"},
    ):  # fmt: skip
        assert resolve(change).physics() != base.physics()


def test_notices_name_what_has_no_effect() -> None:
    assert notices(resolve({})) == []
    lines = notices(resolve({"adios_config": "adios2.xml", "adios_span": True, "adios_memory_selection": True}))
    assert [line.split(":")[0] for line in lines] == ["adios_config", "adios_span", "adios_memory_selection"]
    assert "nothing will be written" in notices(resolve({"steps": 10, "plotgap": 20}))[0]


# --- resources -------------------------------------------------------------------------------------------------------


def test_needs_count_the_output() -> None:
    need = resources.needs(resolve({"L": 64, "steps": 1000, "plotgap": 300, "write_initial": True}))
    assert need.output_steps == 4
    assert need.output == 4 * 2 * 64**3 * 8
    assert need.checkpoints == 0
    assert resources.needs(resolve({"L": 64, "output": ""})).output == 0
    on_gpus = resources.needs(resolve({"L": 64}), on_gpus=True)
    assert on_gpus.device_memory == 4 * 66**3 * 8
    assert on_gpus.memory == 2 * 64**3 * 8
    assert "of GPU memory" in str(on_gpus)
    assert "GPU" not in str(need)
    single = resources.needs(resolve({"L": 64, "steps": 5000, "checkpoint": True, "precision": "Float32"}))
    assert single.checkpoints == 3 * 2 * 64**3 * 4


def test_ranks_that_make_no_grid_are_refused() -> None:
    for ranks in (1, 2, 3, 6, 8, 64, 64**3):
        resources.check_ranks(resolve({"L": 64}), ranks)
    with pytest.raises(UsageError, match=r"67 ranks make no grid.*start 66 ranks"):
        resources.check_ranks(resolve({"L": 64}), 67)
    with pytest.raises(UsageError, match=r"the grid \[2, 2, 1\] has 4 ranks and the run has 3"):
        resources.check_ranks(resolve({"dims": [2, 2, 1]}), 3)
    resources.check_ranks(resolve({"dims": [3, 1, 1]}), 3)


def test_memory_is_compared_with_what_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    assert available_memory() > 2**20
    resources.check_memory(resolve({"L": 32}))
    with pytest.raises(
        UsageError, match=r"1000000000\^3 cells in Float64 need [\d,]+ GiB .* are free; set L to at most"
    ):
        resources.check_memory(resolve({"L": 10**9}))
    monkeypatch.setattr(resources, "available_memory", lambda: 2**30)
    resources.check_memory(resolve({"L": 256, "output": ""}))
    with pytest.raises(UsageError, match="1 GiB are free"):
        resources.check_memory(resolve({"L": 512, "output": ""}))
    resources.check_memory(resolve({"L": 512, "output": ""}), nodes=8)


def test_disk_and_names_are_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def check(**keys: Any) -> None:
        resources.check_files(resolve({"L": 64, "steps": 1000, **keys}))

    monkeypatch.chdir(tmp_path)
    check()
    check(output=None)
    with pytest.raises(UsageError, match=r"output: cannot write 'foo\.bp': it needs .* write fewer steps"):
        check(L=2000, steps=10**9, plotgap=1)
    with pytest.raises(UsageError, match=r"checkpoint_output: cannot write 'ckpt\.bp': it needs"):
        check(L=10**6, checkpoint=True, output="")
    with pytest.raises(UsageError, match="is no legal file name"):
        check(output="x" * 500)
    with pytest.raises(UsageError, match=r"restart_input: there is no complete checkpoint ckpt\.bp"):
        check(restart=True)
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "notes.txt").write_text("mine")
    for name in ("precious", "precious/notes.txt", ".", "..", str(tmp_path)):
        with pytest.raises(UsageError, match="output: "):
            check(output=name, overwrite=True)
    (tmp_path / "gs.bp").mkdir()
    (tmp_path / "gs.bp" / "md.idx").write_bytes(b"")
    with pytest.raises(UsageError, match=r"'gs\.bp' exists: remove it or choose another name, or set overwrite=true"):
        check(output="gs.bp")
    check(output="gs.bp", overwrite=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["gs.bp", "precious"]


def test_checkpoints_of_another_job_and_beyond_the_last_step_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    box = gw.RectDomain((0, 0), (4, 4))
    checkpoint.save("ckpt.bp", {"U": gw.zeros(box)}, step=40)
    with pytest.raises(UsageError, match=r"steps: is 30 and the checkpoint ckpt\.00000040\.bp is from step 40; steps "):
        resources.check_files(resolve({"restart": True, "steps": 30}))
    resources.check_files(resolve({"restart": True, "steps": 40}))
    with (tmp_path / ".ckpt.bp.lock").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        other.write("process 1 on elsewhere")
        other.flush()
        resources.check_files(resolve({"checkpoint_output": "ckpt.bp"}))
        with pytest.raises(UsageError, match=r"checkpoint_output: another job \(process 1 on elsewhere\) writes"):
            resources.check_files(resolve({"checkpoint": True}))
    resources.check_files(resolve({"checkpoint": True}))


# --- anything else ---------------------------------------------------------------------------------------------------

scalars = st.none() | st.booleans() | st.integers() | st.integers(-(10**400), 10**400) | st.floats() | st.text()
values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=10)
keys = st.sampled_from(Settings.__struct_fields__) | st.text(max_size=10)


def refusal_of(action: Callable[[], object]) -> str | None:
    try:
        action()
    except UsageError as error:
        return str(error)
    return None


def is_one_line(text: str) -> bool:
    return text.isprintable() and len(text) < 1000


@given(st.dictionaries(keys, values, max_size=4))
@example({"L": 10**5000})
@example({"F": float("nan")})
@example({"dt": 1e6, "Du": 5e-324})
def test_any_json_value_gives_settings_or_one_line(given_keys: dict[str, Any]) -> None:
    refusal = refusal_of(lambda: resolve(given_keys))
    if refusal is None:
        settings = resolve(given_keys)
        assert resolve(settings.resolved()) == settings
    else:
        assert is_one_line(refusal)


@given(st.text() | st.text(alphabet='{}[]":,0123456789eE+-. Ltruefalsn\n'))
def test_any_text_gives_an_object_or_one_line(text: str) -> None:
    refusal = refusal_of(lambda: parse_object(text, "x.json"))
    assert refusal is None or is_one_line(refusal)
