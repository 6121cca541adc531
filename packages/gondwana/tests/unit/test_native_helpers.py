"""Gondwana's own machine code links without Numba, which would cost each rank that uses it 30 MB and a second."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

import gondwana
from gondwana.compiler.native import Native
from gondwana.runtime.shared_file import SharedFile, map_shared

FOLDER = Path(gondwana.__file__).parent


def helpers() -> list[tuple[str, str, int]]:
    """Module, name and number of arguments of the helpers that the sources name."""
    found = []
    for file in sorted(FOLDER.rglob("*.py")):
        text = file.read_text()
        [module] = re.findall(r'^_MODULE = "(gondwana\.[\w.]+_native)"', text, re.MULTILINE) or [""]
        for given, name, count in re.findall(r'\b(?:Native\(("[\w.]+"|_MODULE), |_native\()"(\w+)", (\d+)', text):
            found.append((module if given in ("_MODULE", "") else given.strip('"'), name, int(count)))
        for name, count in re.findall(r'\brings\.native\("(\w+)", (\d+)', text):
            found.append(("gondwana.sync.rings_native", name, int(count)))
    return sorted(set(found))


@pytest.mark.parametrize(("module", "name", "arguments"), helpers())
def test_a_helper_needs_no_numba_at_run_time(module: str, name: str, arguments: int) -> None:
    code = Native(module, name, arguments).code()
    assert not code.needs_numba, "it has an error path, as of min(), `in` and calls that are not inlined"


def test_the_sources_name_the_helpers_of_all_rooms() -> None:
    assert {"calls", "compiler", "sync", "tasks", "transfer"} <= {module.split(".")[1] for module, _, _ in helpers()}


def test_mapped_memory_is_shared_and_goes_with_its_last_array() -> None:
    file = SharedFile.create("gondwana-mapped", 100_000)
    first, second = (map_shared(file.descriptor, 100_000) for _ in range(2))
    first[99_999] = 7
    assert (second.size, second[99_999]) == (100_000, 7)
    tail = map_shared(file.descriptor, 10, offset=99_990)
    assert tail.tolist() == 9 * [0] + [7]
    assert tail[2:].base is tail  # so whoever keeps a view keeps the array
    os.close(file.descriptor)
    part = second[:10].view("u2")
    del first, second, tail
    assert Path("/proc/self/maps").read_text().count("gondwana-mapped") == 1
    part[0] = 1
    del part
    assert "gondwana-mapped" not in Path("/proc/self/maps").read_text()


def test_what_cannot_be_mapped_is_an_error_of_the_system() -> None:
    with pytest.raises(OSError, match="Bad file descriptor"):
        map_shared(10**6, 1)


def test_a_helper_that_reports_has_machine_code_of_its_own_there(monkeypatch: pytest.MonkeyPatch) -> None:
    module = "gondwana.calls.active_messages.message_native"
    silent = Native(module, "serve_messages", 2, brief=True, reports=True)
    monkeypatch.setattr("gondwana.compiler.native.reporter", object())
    assert Native(module, "serve_messages", 2, brief=True, reports=True)._key != silent._key
    assert Native(module, "serve_messages", 2, brief=True)._key == silent._key
