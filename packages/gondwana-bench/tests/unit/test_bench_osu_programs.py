"""What `gondwana bench ping-pong`, `ring` and `osu` compute from their samples and read of other programs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gondwana.errors import UsageError
from gondwana_bench import disturbance
from gondwana_bench.measure import interleave
from gondwana_bench.messages import official, osu, ping_pong, ring
from gondwana_bench.messages.ping_pong import harmonic_rate
from gondwana_bench.statistics import summarize

TABLE = """
# OSU MPI Allreduce Latency Test v5.3
# Size         Avg Latency(us)     Min Latency(us)     Max Latency(us)  Iterations
4                         0.62                0.58                0.67        1000
8                         0.00                0.68                0.69        1000
1048576                  96.63
"""


def test_the_harmonic_mean_is_all_bytes_over_all_seconds() -> None:
    times = [1e-6, 2e-6, 4e-6]
    rates = [2 * 1000 / seconds for seconds in times]
    harmonic = len(rates) / sum(1 / rate for rate in rates)
    assert harmonic_rate(1000, {"mean": summarize(times).mean}) == pytest.approx(harmonic * 1e-6)


def test_fixed_numbers_of_calls_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disturbance, "_busy_machine", lambda: 0.0)  # no round is disturbed
    calls: list[int] = []

    def variant(number: int) -> float:
        calls.append(number)
        return 1e-6 * number

    samples = interleave({"a": variant}, repeat=3, calls=(20, 100))
    assert calls == [2, *[20, 100] * 3]
    assert samples["a"] == pytest.approx([1e-6] * 3)


def test_tables_of_official_programs_are_read() -> None:
    assert official.read(TABLE) == {4: 0.62, 8: 0.0, 1048576: 96.63}
    assert official.read("mpirun: no such file\n") == {}


@pytest.mark.parametrize("place", [".", "pt2pt", "pt2pt/standard"])
def test_official_programs_are_found_where_the_build_puts_them(place: str, tmp_path: Path) -> None:
    folder = tmp_path / place
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "osu_latency").touch(mode=0o755)
    assert official.find(tmp_path, [osu.LATENCY]) == {osu.LATENCY: (folder / "osu_latency").resolve()}
    with pytest.raises(UsageError, match=r"osu_allreduce is not there; .* leave allreduce out of --tests"):
        official.find(tmp_path, list(osu.PAIRS))


def test_what_is_not_executable_is_no_program(tmp_path: Path) -> None:
    (tmp_path / "osu_latency").touch(mode=0o644)
    with pytest.raises(UsageError, match="osu_latency is not there"):
        official.find(tmp_path, [osu.LATENCY])


def test_official_programs_get_the_counts_of_our_loops() -> None:
    assert official.options_of(osu.LATENCY, [0, 8]) == ["-i", "1000", "-x", "200"]
    assert official.options_of(osu.ALLREDUCE, [8, 64]) == ["-i", "1000", "-x", "200", "-m", "64"]


@pytest.mark.parametrize(
    ("refused", "message"),
    [
        (lambda: ping_pong.check(1, [8]), "--ranks 1: messages travel between 2 ranks"),
        (lambda: ping_pong.check(2, [0, 8]), "--sizes 0,8: give numbers of bytes from 1"),
        (lambda: ring.check([1, 2], [10], ring.Work()), "--ranks 1,2: a ring has at least 2 ranks"),
        (lambda: ring.check([2], [0], ring.Work()), "--communications 0: give numbers of supersteps"),
        (lambda: ring.check([2], [10], ring.Work(size=12)), "--size 12: give a multiple of 8 bytes"),
        (lambda: osu.check(1, [osu.LATENCY], None), "--ranks 1: messages and sums need at least 2 ranks"),
        (lambda: osu.check(2, ["bandwidth"], None), "--tests bandwidth: legal are latency, allreduce"),
        (lambda: osu.check(2, [osu.ALLREDUCE], [6]), "--sizes 6: sums are of floats"),
        (lambda: official.find(Path("no/such/folder"), [osu.LATENCY]), "--against no/such/folder: there is no such"),
    ],
)
def test_what_cannot_be_measured_is_refused(refused: Callable[[], object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        refused()
