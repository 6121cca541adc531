"""The heat application on one rank: settings, official values, conservation, verdicts, the command line."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gondwana as gw
from gondwana.errors import UsageError
from gondwana_apps import gpus
from gondwana_apps.heat import app, division, fusing
from gondwana_apps.heat.settings import Settings, load, parser
from gondwana_apps.heat.simulation import Balance, Simulation
from gondwana_apps.heat.verify import GOLDEN, golden, verify
from support import heat_oracle, jobs

PHYSICS: dict[str, Any] = {"T0": 1.5, "dt": 0.05, "q": 0.7, "sigma": 0.02, "P": 3.0}


def settings(*words: str) -> Settings:
    return load(parser().parse_args(words))


def means(s: Settings) -> list[float]:
    return [value / s.cells for value in Simulation(s, gw.world).advance(s.N + 1).sums]


@pytest.mark.parametrize("N", [10, 100, 1000])
def test_the_oracle_and_the_program_have_the_official_values(N: int) -> None:
    s = Settings(X=20, Y=20, Z=20, N=N)
    assert means(s)[-1] * 1e9 == pytest.approx(GOLDEN[20, N], rel=1e-10)
    if N <= 100:
        assert heat_oracle.run(s.shape, N)[0][-1] * 1e9 == pytest.approx(GOLDEN[20, N], rel=1e-10)


@pytest.mark.parametrize("N", [10, 100])
def test_official_values_of_a_larger_box(N: int) -> None:
    assert means(Settings(X=100, Y=100, Z=100, N=N, reduce="interval"))[-1] * 1e9 == pytest.approx(
        GOLDEN[100, N], rel=1e-10
    )


@pytest.mark.parametrize("shape", [(7, 5, 9), (1, 6, 4), (5, 1, 1), (1, 1, 1), (2, 3, 33)])
def test_boxes_of_any_shape_and_other_constants(shape: tuple[int, int, int]) -> None:
    s = Settings(X=shape[0], Y=shape[1], Z=shape[2], N=25, **PHYSICS)
    expected, field = heat_oracle.run(shape, 25, **PHYSICS)
    run = Simulation(s, gw.world)
    np.testing.assert_allclose(run.advance(26).sums / s.cells, expected, rtol=1e-12)
    np.testing.assert_allclose(run.T.to_numpy(), field, rtol=1e-12)


def test_first_steps_are_exact() -> None:
    found = means(Settings(X=16, Y=8, Z=8, N=1))
    assert found[0] == 0.0
    assert found[1] == pytest.approx(0.1 * 1.0 / 16, rel=1e-14)  # the sum is rounded
    assert means(Settings(X=6, Y=6, Z=6, N=0, T0=2.5)) == [2.5]


def test_heat_is_conserved_without_power_and_radiation() -> None:
    run = Simulation(Settings(X=9, Y=8, Z=7, N=40, T0=0.0, sigma=0.0, P=0.0), gw.world)
    values = np.random.default_rng(1).random((9, 8, 7))
    run.T.local.copy_from(gw.Array(values, run.T.domain))
    sums = run.advance(40).sums
    np.testing.assert_allclose(sums, values.sum(), rtol=1e-13)
    assert np.ptp(run.T.to_numpy()) < np.ptp(values)


def test_each_step_adds_what_the_power_gives_and_radiation_takes() -> None:
    s = Settings(X=9, Y=8, Z=7, N=30, **PHYSICS)
    run = Simulation(s, gw.world)
    for _ in range(31):
        _, balance = run.last()
        assert balance.error < 1e-14
        assert balance.added != 0.0


def test_power_ends_after_half_of_the_steps() -> None:
    run = Simulation(Settings(X=4, Y=4, Z=4, N=5, sigma=0.0), gw.world)
    sums = [*run.advance(6).sums, float(run.T.to_numpy().sum())]
    added = np.diff(sums)
    np.testing.assert_allclose(added, [1.6, 1.6, 1.6, 0.0, 0.0, 0.0], atol=1e-12)


def test_sums_of_intervals() -> None:
    sums = Simulation(Settings(X=5, Y=5, Z=5, N=10, I=4, reduce="interval"), gw.world).advance(11).sums
    assert [step for step, value in enumerate(sums) if not math.isnan(value)] == [0, 4, 8, 10]
    every = Simulation(Settings(X=5, Y=5, Z=5, N=10, I=4), gw.world).advance(11).sums
    assert sums[[0, 4, 8, 10]].tolist() == every[[0, 4, 8, 10]].tolist()


def fields(steps: int, cut: int, **keys: Any) -> tuple[list[float], np.ndarray]:
    """Sums before all steps and the temperatures after them, where a sweep ends after `cut` steps."""
    run = Simulation(Settings(N=steps, **keys), gw.world)
    sums = [*run.advance(cut).sums, *run.advance(steps + 1 - cut).sums]
    return sums, run.T.to_numpy()


@pytest.mark.parametrize("shape", [(7, 5, 9), (1, 6, 4), (5, 1, 1), (1, 1, 1), (2, 3, 90)])
@pytest.mark.parametrize("reduce", ["step", "interval"])
def test_two_steps_in_one_sweep_have_the_bits_of_two(shape: tuple[int, int, int], reduce: str) -> None:
    """The power ends inside of a pair or between two; sums are those of either step, of both, or of none."""
    box = dict(zip("XYZ", shape, strict=True))
    for steps, cut in (18, 4), (21, 5):
        keys = {**box, **PHYSICS, "reduce": reduce, "I": 3}
        expected, field = fields(steps, cut, fuse_steps=1, **keys)
        for overlap in False, True:
            sums, found = fields(steps, cut, fuse_steps=2, overlap=overlap, **keys)
            np.testing.assert_allclose(sums, expected, rtol=1e-13)
            assert np.array_equal(found, field)


def test_two_steps_in_one_sweep_have_the_official_values_and_conserve_heat() -> None:
    keys = {"X": 20, "Y": 20, "Z": 20, "fuse_steps": 2}
    assert means(Settings(N=1000, **keys))[-1] * 1e9 == pytest.approx(GOLDEN[20, 1000], rel=1e-10)
    run = Simulation(Settings(N=11, **keys), gw.world)
    run.advance(11)
    assert run.last()[1].error < 1e-14


@pytest.mark.parametrize("pays", [False, True])
def test_a_trial_tells_whether_two_steps_in_one_sweep_pay(pays: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[int] = []
    really = fusing.measure

    def measure(settings: Settings, team: gw.Team, fuse_steps: int) -> float:
        assert really(settings, team, fuse_steps) > 0.0
        tried.append(fuse_steps)
        return float(fuse_steps if not pays else -fuse_steps)

    monkeypatch.setattr(fusing, "measure", measure)
    monkeypatch.setattr(fusing, "_WORTH", 9 * 8 * 7)
    for reduce in "step", "interval":
        run = Simulation(Settings(X=9, Y=8, Z=7, N=100, reduce=reduce), gw.world)
        assert (run.fuse_steps, run.T.ghost) == ((2, (2, 2, 2)) if pays else (1, (1, 1, 1)))
    assert tried == [1, 2, 1, 2]
    assert Simulation(Settings(X=9, Y=8, Z=6, N=100), gw.world).fuse_steps == 1  # too small for a trial
    assert Simulation(Settings(X=9, Y=8, Z=7, N=99), gw.world).fuse_steps == 1  # too short for one
    assert Simulation(Settings(X=9, Y=8, Z=7, N=100, fuse_steps=1), gw.world).fuse_steps == 1
    assert len(tried) == 4


def test_blocks_that_are_too_thin_for_two_steps() -> None:
    with pytest.raises(
        UsageError, match=r"fuse_steps is 2, and a block of a box of 5x1x1, divided as 3x1x1, has 1 cells"
    ):
        division.layout(Settings(X=5, Y=1, Z=1), 3, 2)
    assert division.layout(Settings(X=5, Y=1, Z=1), 2, 2).ghost == (2, 2, 2)
    assert division.layout(Settings(X=1, Y=1, Z=1), 1, 2).ghost == (2, 2, 2)
    with pytest.raises(UsageError, match="set fuse_steps = 1, start fewer ranks, or enlarge the box"):
        app.check(["-X", "5", "-Y", "1", "-Z", "1", "--set", "fuse_steps=2"], 3)
    app.check(["-X", "5", "-Y", "1", "-Z", "1"], 3)


def test_verdicts() -> None:
    s = Settings(X=20, Y=20, Z=20, N=10)
    good, bad = Balance(1.0, 1.5, 0.5), Balance(1.0, 1.5, 0.5001)
    assert verify(s, GOLDEN[20, 10], good).verified
    assert "the original program's is 28910001.659627" in verify(s, GOLDEN[20, 10] * (1 + 1e-9), good).reason
    assert not verify(s, GOLDEN[20, 10] * (1 + 1e-9), good).verified
    assert not verify(s, GOLDEN[20, 10], bad).verified
    assert not verify(s, math.nan, good).verified
    assert not verify(s, GOLDEN[20, 10], Balance(1.0, math.nan, 0.5)).verified
    assert golden(Settings(X=20, Y=20, Z=20, N=10, P=2.0)) is None
    assert golden(Settings(X=20, Y=20, Z=21, N=10)) is None
    assert golden(Settings(X=20, Y=20, Z=20, N=10, I=7, variant="two-sided")) is not None
    assert "not known" in verify(Settings(X=21, N=10), 1.0, good).reason


@pytest.mark.parametrize(
    ("ranks", "grid"),
    [(1, (1, 1, 1)), (2, (1, 1, 2)), (4, (1, 2, 2)), (5, (1, 5, 1)), (6, (1, 2, 3)), (8, (2, 2, 2)), (12, (2, 2, 3)),
     (16, (2, 2, 4)), (27, (3, 3, 3)), (64, (4, 4, 4)), (128, (8, 4, 4)), (768, (12, 8, 8))],
)  # fmt: skip
def test_grids_of_the_original(ranks: int, grid: tuple[int, int, int]) -> None:
    assert division.grid_of(ranks) == grid


def test_blocks_of_the_original_and_boxes_that_are_too_small() -> None:
    ceil = division.layout(Settings(X=4, Y=4, Z=7, blocks="ceil"), 2)
    assert [ceil.owned(rank).shape for rank in (0, 1)] == [(4, 4, 4), (4, 4, 3)]
    with pytest.raises(
        UsageError, match=r"ranks 3, 4 of 5 would have no cells of a box of 9x6x9.*set blocks = balanced, or"
    ):
        division.layout(Settings(X=9, Y=6, Z=9, blocks="ceil"), 5)
    assert division.layout(Settings(X=9, Y=6, Z=9), 5).owned(4).size > 0
    with pytest.raises(UsageError, match="start fewer ranks, or enlarge the box"):
        division.layout(Settings(X=1, Y=1, Z=3), 4)


def test_settings_of_file_and_command_line(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text('X = 30\nvariant = "two-sided"\nq = 0.5\n')
    s = settings(str(file), "--set", "overlap=true", "-Y", "10", "-Z", "11", "-T0", "0.5", "-dt", "0.2", "-q", "0.25")
    assert (s.X, s.Y, s.Z, s.T0, s.dt, s.q, s.variant, s.overlap) == (30, 10, 11, 0.5, 0.2, 0.25, "two-sided", True)
    assert settings().shape == (200, 200, 200)
    assert settings("--device", "cuda").device == "cuda"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("-X", "0"), r"-X: X is 0; legal is a whole number from 1 to 2147483647"),
        (("-X", "many"), r"-X: X is 'many'; legal is a whole number from 1"),
        (("-X", "1.5"), r"-X: X is 1.5; legal is a whole number from 1"),
        (("-dt", "0"), r"-dt: dt is 0; legal is a number above 0 and up to 1e\+300"),
        (("-dt", "0.2"), r"-dt: dt is 0.2 and q is 1, unstable: 6\*q\*dt is above 1; set dt to 0.166667"),
        (("-q", "inf"), r"-q: q is inf; legal is a number from 0 to 1e\+300"),
        (("-P", "nan"), r"-P: P is nan"),
        (("-N", "-1"), r"-N: N is -1|expected one argument"),
        (("--set", "variant=three-sided"), r"--set: variant is 'three-sided'; legal is \"one-sided\" or \"two-sided\""),
        (("--set", "varant=two-sided"), r"unknown key varant; did you mean variant\?"),
        (("--set", "blocks=ceiling"), "blocks is 'ceiling'"),
        (("--set", "fuse_steps=3"), 'fuse_steps is 3; legal is 1 or 2 or "auto"'),
        (
            ("--set", "fuse_steps=2", "--device", "cuda"),
            'fuse_steps is 2 and device is "cuda"; set fuse_steps to 1, or',
        ),
        (
            ("-T0", "1e78", "-sigma", "0"),
            r"-T0: T0 is 1e\+78 and P is 1, so the temperature may .* legal is up to 1e\+70",
        ),
        (
            ("-P", "1e70"),
            r"-P: T0 is 0 and P is 1e\+70, so the temperature may reach 5.001e\+72; legal is up to 1e\+70",
        ),
        (("-P", "1e300", "-N", "2147483647"), "-P: T0 is 0 and P is 1e"),
        (
            ("-T0", "3"),
            "-T0: T0 is 3, sigma is 1 and dt is 0.1, unstable: a cell with 3 outer faces radiates 8.1 times",
        ),
        (("-X", "1", "-T0", "1.4", "-sigma", "1"), "-T0: .* with 4 outer faces radiates 1.0976 times its heat in the"),
        (("--set", "T0=0.5", "-sigma", "1e300"), "--set: T0 is 0.5, sigma is 1e"),
        (("-W", "3"), "see gondwana run heat --help"),
        (("no-such-file.toml",), "no-such-file.toml"),
    ],
)
def test_illegal_settings(words: tuple[str, ...], message: str) -> None:
    with pytest.raises(UsageError, match=message) as error:
        settings(*words)
    assert "\n" not in str(error.value)


def test_a_cell_may_radiate_nearly_all_of_its_heat() -> None:
    """The hottest legal start ends well, and so does the hottest one without radiation."""
    for words in (("-T0", "1.49"), ("-T0", "9e69", "-sigma", "0", "-P", "0"), ("-T0", "9e69", "-sigma", "1e-210")):
        s = settings("-X", "8", "-Y", "8", "-Z", "8", "-N", "20", *words)
        run = Simulation(s, gw.world)
        run.advance(20)
        _, balance = run.last()
        assert balance.error < 1e-10
        assert run.T.min() >= 0.0


def test_gpus_are_asked_for_in_one_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpus, "lacking", lambda: "there is none")
    with pytest.raises(UsageError, match=r'device: "cuda" cannot be had: there is none; or set device to "host"$'):
        app.check(["--device", "cuda", "-X", "20"])
    app.check(["-X", "20"])
    monkeypatch.setenv("SLURM_JOB_ID", "7")  # a login node need not have what the ranks find
    app.check(["--device", "cuda", "-X", "20"])
    monkeypatch.setenv("PMI_RANK", "0")
    with pytest.raises(UsageError, match="cannot be had"):
        app.check(["--device", "cuda", "-X", "20"])


def test_what_cannot_run_is_refused_before_ranks_start(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"need .* of memory and .* are free: choose a smaller box"):
        app.check(["-X", "100000", "-Y", "100000", "-Z", "100000"])
    with pytest.raises(UsageError, match=r"--json .*: .*; name another file"):
        app.check(["--json", str(tmp_path / "missing" / "r.json")])
    with pytest.raises(UsageError, match=r"--record .*: .*; name another file"):
        app.check(["--record", str(tmp_path)])
    with pytest.raises(UsageError, match="would have no cells"):
        app.check(["-X", "1", "-Y", "1", "-Z", "3"], 4)
    app.check(["-X", "20"], 4)


def test_a_run_from_the_command_line(tmp_path: Path) -> None:
    words = ["-X", "20", "-Y", "20", "-Z", "20", "-N", "100", "-I", "30", "--json", "r.json", "--record", "steps.csv"]
    outcome = jobs.run_command(
        [sys.executable, "-m", "gondwana.cli.main", "run", "heat", *words], timeout=200, cwd=tmp_path
    )
    assert outcome.status == 0, str(outcome)
    lines = [line for line in outcome.stdout.splitlines() if " T=" in line]
    assert [int(line.split()[0]) for line in lines] == [0, 30, 60, 90, 100]
    assert lines[-1].startswith("100 T=101705231.2730")
    assert "verified: the mean agrees with the original program's to 1e-10" in outcome.stdout
    result = json.loads((tmp_path / "r.json").read_text())
    assert (result["app"], result["verified"], result["ranks"], result["steps"]) == ("heat", True, 1, 101)
    assert (result["variant"], result["fuse_steps"], result["config"]["X"]) == ("one-sided", 1, 20)
    assert result["value"] == pytest.approx(GOLDEN[20, 100], rel=1e-10)
    assert 0.0 < result["step_seconds"]["p1"] <= result["step_seconds"]["median"] <= result["seconds"]
    rows = (tmp_path / "steps.csv").read_text().splitlines()
    assert rows[0] == "step,rank_0_s"
    assert len(rows) == 102
    assert sum(float(row.split(",")[1]) for row in rows[1:]) == pytest.approx(result["seconds"], rel=1e-6)


def test_one_line_and_status_2_for_what_is_illegal(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "gondwana.cli.main", "run", "heat", "-X", "0", "--json", "r.json"]
    outcome = jobs.run_command(command, timeout=100, cwd=tmp_path)
    assert outcome.status == 2
    assert outcome.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())
