"""What MPI is started with."""

from __future__ import annotations

from pathlib import Path

import pytest

from gondwana.teams import mpi


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
    assert ("OMPI_MCA_btl" in mpi.settings()) == without
    assert mpi.settings().items() >= mpi.SETTINGS.items()
