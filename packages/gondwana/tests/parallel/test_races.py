"""`GONDWANA_CHECK=races`: races are found in small wrong programs, in any schedule, and none in right ones."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from gondwana.races.listening import STATUS
from support import jobs

PROGRAMS = Path(__file__).parent / "programs" / "race_programs.py"
NAMES = re.findall(r"^def ((?:wrong|right)_\w+)", PROGRAMS.read_text(encoding="utf-8"), re.MULTILINE)
NEAR = (
    "wrong_neighbour_read_without_order",
    "wrong_compiled_store_to_a_neighbour",
    "wrong_compiled_item_of_a_channel_too_early",
    "wrong_compiled_room_of_a_channel_too_early",
)
"""Wrong programs that need one node."""
TOO_EARLY = """
import gondwana as gw

T = gw.zeros((64, 4), ghost=1, periodic=True, grid=(gw.world.size, 1))
T_next = gw.zeros_like(T)

@gw.foreach
def diffuse(p, T_next, T):
    T_next[p] = T[p] + 0.1 * (T[p + gw.X] + T[p - gw.X] - 2.0 * T[p])

ghosts = T.exchange()
diffuse(T.owned, T_next, T)
ghosts.wait()
"""
OF_THREADS = re.compile(
    r"thread (\d) of rank (\d) (\w+) byte 0 of the memory of rank \2 in hand_on \(race_programs\.py:(\d+), launched at "
    r"race_programs\.py:(\d+)\) while thread (?!\1)\d of rank \2 (?!\3)\w+ it in hand_on "
    r"\(race_programs\.py:(?!\4)\d+, launched at race_programs\.py:\5\): let the threads meet in between, by "
    r"barrier\(\) of their team, or give each elements of its own"
)
pytestmark = pytest.mark.parallel


def run(ranks: int, program: Path, races: Path, per_node: int = 0) -> jobs.Outcome:
    """Run a program under the detector."""
    variables = {"GONDWANA_CHECK": f"races:{races}"} | ({"GONDWANA_RANKS_PER_NODE": str(per_node)} if per_node else {})
    command = [sys.executable, "-m", "gondwana.cli.main", "run", "-n", str(ranks), str(program)]
    return jobs.run_command(command, variables=variables, timeout=280)


@pytest.mark.parametrize(("ranks", "per_node"), [(2, 0), (3, 0), (2, 1)])
def test_wrong_programs_are_found_and_right_ones_are_silent(ranks: int, per_node: int, tmp_path: Path) -> None:
    outcome = run(ranks, PROGRAMS, tmp_path / "races.json", per_node)
    assert outcome.status == STATUS, str(outcome)
    races = json.loads((tmp_path / "races.json").read_text(encoding="utf-8"))
    found = {access["function"]: race["text"] for race in races for access in race["accesses"]}
    wrong = {name for name in NAMES if name.startswith("wrong_")} - set(NEAR if per_node else ())
    assert wrong <= set(found), f"missed: {sorted(wrong - set(found))}"
    silent = {name: text for name, text in found.items() if name.startswith("right_")}
    assert not silent, silent
    assert "lacks records" not in outcome.stderr
    text = found["wrong_thread_publishes_too_early"]
    assert OF_THREADS.fullmatch(text), text


def test_a_report_names_accesses_order_and_remedy(tmp_path: Path) -> None:
    program = tmp_path / "early.py"
    program.write_text(TOO_EARLY, encoding="utf-8")
    outcome = run(2, program, tmp_path / "races.json")
    assert outcome.status == STATUS, str(outcome)
    (race,) = json.loads((tmp_path / "races.json").read_text(encoding="utf-8"))
    pattern = (
        r"rank (\d) reads ghost T\[(-1|31|32|64), 0\] of rank \1 in diffuse \(early\.py:7, launched at early\.py:12\) "
        r"while the exchange that rank (\d) has started \(early\.py:11\) writes it \(rank \d was last ordered behind "
        r"rank \d by a .* \(early\.py:\d+\)\): call wait\(\) on what exchange\(\) returned \(early\.py:11\) first"
    )
    assert re.fullmatch(pattern, race["text"]), race["text"]
    assert f"gondwana: race: {race['text']}" in outcome.stderr
    assert outcome.stderr.rstrip().endswith("gondwana: 1 race found")
    assert {access["writes"] for access in race["accesses"]} == {True, False}


def test_the_status_of_a_program_that_fails_stays(tmp_path: Path) -> None:
    program = tmp_path / "fails.py"
    program.write_text(f"{TOO_EARLY}\nraise SystemExit(7)\n", encoding="utf-8")
    assert run(1, program, tmp_path / "races.json").status == 7
    assert json.loads((tmp_path / "races.json").read_text(encoding="utf-8")) == []


def test_a_file_that_cannot_be_written_is_refused_first(tmp_path: Path) -> None:
    outcome = run(1, PROGRAMS, tmp_path / "missing" / "races.json")
    assert outcome.status == 2
    assert outcome.stderr.startswith("gondwana: error: GONDWANA_CHECK=races:")
