"""Mapped files with huge pages: where they begin, what they keep, and what is said where there are none."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

from gondwana.runtime import shared_file
from gondwana.runtime.shared_file import HUGE, SharedFile, collapse, map_shared, pages_of_arrays


@given(st.integers(1, 3 * HUGE), st.integers(0, mmap.PAGESIZE - 1))
def test_a_mapping_with_huge_pages_begins_where_such_a_page_begins(nbytes: int, offset: int) -> None:
    file = SharedFile.create("gondwana-aligned", offset + nbytes)
    first, second = map_shared(file.descriptor, nbytes, offset=offset, huge=True), file.map(nbytes, offset=offset)
    os.close(file.descriptor)
    assert first.ctypes.data % HUGE == offset
    first[0], first[-1] = 1, 2
    assert (second.size, second[-1], bool(second[0])) == (nbytes, 2, True)
    del first, second
    assert "gondwana-aligned" not in Path("/proc/self/maps").read_text()


def test_pages_keep_what_they_hold_when_they_become_huge() -> None:
    file = SharedFile.create("gondwana-huge", 4 * HUGE)
    memory, other = (map_shared(file.descriptor, 4 * HUGE, huge=True) for _ in range(2))
    os.close(file.descriptor)
    memory[: 2 * HUGE] = np.arange(2 * HUGE) % 251
    memory[2 * HUGE + 5] = 7
    collapse(memory.ctypes.data, 3)
    expected = np.zeros(4 * HUGE, np.uint8)
    expected[: 2 * HUGE] = np.arange(2 * HUGE) % 251
    expected[2 * HUGE + 5] = 7
    assert np.array_equal(memory, expected)
    assert np.array_equal(other, expected)
    with open("/proc/self/smaps") as lines:
        text = lines.read()
    parts = [part.partition("VmFlags")[0] for part in text.split("gondwana-huge")[1:]]
    resident = [int(re.findall(r"Rss: +(\d+) kB", part)[0]) << 10 for part in parts]
    assert len(resident) == 2
    assert max(resident) <= 4 * HUGE  # of the last page, which was not named, only what the comparison has touched


@pytest.mark.parametrize(
    ("shmem", "error", "pages"),
    [
        ("never", 0, "2 MiB"),
        ("advise", errno.EINVAL, "2 MiB"),
        ("never", errno.EINVAL, "4 KiB: shmem_enabled is never"),
    ],
)
def test_it_is_said_which_pages_arrays_have(
    shmem: str, error: int, pages: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_file, "collapse", lambda address, count: error)
    monkeypatch.setattr(shared_file, "text_of", lambda path: f"always [{shmem}]" if "shmem" in path else "[never]")
    found = pages_of_arrays()
    assert found["shared"].startswith(pages)
    assert found["private"] == "4 KiB: transparent_hugepage/enabled is never"


def test_a_system_that_makes_no_huge_pages_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    class Old:
        @staticmethod
        def madvise(address: int, length: int, advice: int) -> int:
            ctypes.set_errno(errno.EINVAL)
            return -1

    memory = np.ones(2 * HUGE, np.uint8)
    monkeypatch.setattr(shared_file, "_c", Old)
    assert collapse(-(-memory.ctypes.data // HUGE) * HUGE, 1) == errno.EINVAL
    assert memory.all()
