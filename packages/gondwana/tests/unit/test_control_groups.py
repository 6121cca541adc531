"""Limits of memory and processors as control groups of both versions set them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from gondwana.runtime import cores
from gondwana.runtime.placement import control_groups

GIB = 2**30
PHYSICAL = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


class Groups:
    """A tree of control groups in a folder, and the memberships of this process."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "groups"
        self.root.mkdir()
        self.memberships = folder / "memberships"

    def member_of(self, *lines: str) -> None:
        self.memberships.write_text("".join(f"{line}\n" for line in lines))
        forget()

    def set(self, path: str, text: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")
        forget()


def forget() -> None:
    control_groups.memory.cache_clear()
    control_groups.processors.cache_clear()


@pytest.fixture
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Groups]:
    made = Groups(tmp_path)
    monkeypatch.setattr(control_groups, "MOUNTED", made.root)
    monkeypatch.setattr(control_groups, "MEMBERSHIP", made.memberships)
    forget()
    yield made
    forget()


def test_without_groups_the_machine_is_the_limit(groups: Groups) -> None:
    assert control_groups.memory() == PHYSICAL
    assert control_groups.processors() is None
    groups.member_of("0::/")
    assert control_groups.memory() == PHYSICAL


def test_version_2(groups: Groups) -> None:
    groups.member_of("0::/slice/job")
    groups.set("slice/job/memory.max", "max")
    groups.set("slice/memory.max", str(GIB))
    groups.set("slice/job/cpu.max", "150000 100000")
    groups.set("slice/cpu.max", "max 100000")
    assert control_groups.memory() == min(PHYSICAL, GIB)
    assert control_groups.processors() == 2
    groups.set("slice/job/memory.max", str(GIB // 2))
    assert control_groups.memory() == GIB // 2


def test_version_1(groups: Groups) -> None:
    groups.member_of("5:cpu,cpuacct:/job", "4:memory:/job/step", "0::/")
    groups.set("memory/job/memory.limit_in_bytes", str(GIB))
    groups.set("memory/job/step/memory.limit_in_bytes", "9223372036854771712")
    groups.set("cpu/job/cpu.cfs_quota_us", "300000")
    groups.set("cpu/job/cpu.cfs_period_us", "100000")
    groups.set("cpu/cpu.cfs_quota_us", "-1")
    groups.set("cpu/cpu.cfs_period_us", "100000")
    assert control_groups.memory() == min(PHYSICAL, GIB)
    assert control_groups.processors() == 3


def test_in_a_container_the_groups_above_may_not_be_visible(groups: Groups) -> None:
    groups.member_of("4:memory:/docker/0123", "0::/../outside")
    groups.set("memory/memory.limit_in_bytes", str(GIB))
    groups.set("outside/memory.max", "1")
    assert control_groups.memory() == min(PHYSICAL, GIB)


def test_a_limit_of_time_is_one_of_cores(groups: Groups) -> None:
    groups.member_of("0::/")
    groups.set("cpu.max", "50000 100000")
    assert cores.count() == 1
    assert cores.count(frozenset(range(64))) == 1
