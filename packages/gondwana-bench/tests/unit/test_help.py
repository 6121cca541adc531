"""What the help of `gondwana` shows, and what a shell completes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = Path(sys.executable).with_name("gondwana")


def output_of(*words: str, **variables: str) -> str:
    """What `gondwana` prints at a terminal of 80 columns."""
    environment = {**os.environ, "COLUMNS": "80", **variables}
    done = subprocess.run([COMMAND, *words], env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert not done.stderr
    return done.stdout


@pytest.mark.parametrize("words", [(), ("bench",), ("model",)], ids=" ".join)
def test_lists_of_commands_have_whole_sentences(words: tuple[str, ...]) -> None:
    text = output_of(*words, "--help")
    listed = text.partition("Commands")[2]
    assert "..." not in listed
    assert listed.rstrip().endswith(".")
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("gondwana be", ["bench"]),
        ("gondwana bench ex", ["exchange"]),
        ("gondwana run --ra", ["--ranks", "--ranks-per-node"]),
        ("gondwana run gray", ["gray-scott"]),
        ("gondwana run npb", ["npb-cg", "npb-ft", "npb-mg"]),
    ],
)
def test_a_shell_completes_commands_options_and_programs(line: str, found: list[str]) -> None:
    count = len(line.split()) - 1
    words = output_of(_GONDWANA_COMPLETE="complete_bash", COMP_WORDS=line, COMP_CWORD=str(count))
    assert words.split() == found
