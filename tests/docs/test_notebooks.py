"""Every notebook runs from its source, cell by cell, and shows pictures."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from gondwana.cli import launch

NOTEBOOKS = sorted((Path(__file__).parents[2] / "examples" / "notebooks").glob("*.py"))

SHOWN = {
    "gray-scott": ["\r", "1200/1200", "Mcells/s"],
    "pools": ["[stdout:0] rank 0 of 2 has computed 100 rows", "[stdout:1] rank 1 of 2 has", "ValueError: only here"],
}
"""What the cells print: progress, what each rank says, and an exception of one rank."""


@pytest.mark.parallel
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("source", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook(source, tmp_path, monkeypatch):
    jupytext, nbclient, *_ = map(pytest.importorskip, ("jupytext", "nbclient", "ipykernel", "ipyparallel"))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv("GONDWANA_PROGRESS", raising=False)
    for name, value in launch.as_root().items():
        monkeypatch.setenv(name, value)
    notebook = jupytext.read(source)
    client = nbclient.NotebookClient(
        notebook, timeout=180, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    pictures = [output for output in outputs if "image/png" in output.get("data", {})]
    assert len(pictures) == 2
    texts = "".join(output.get("text", "") + output.get("data", {}).get("text/plain", "") for output in outputs)
    texts = re.sub(r"\x1b\[[0-9;]*m", "", texts)  # colours
    assert "identical" in texts
    for text in SHOWN[source.stem]:
        assert text in texts
    for noise in ("MPI_ABORT", "IPEngine", "Stopping", "stopped"):
        assert noise not in texts


def test_there_are_notebooks():
    assert NOTEBOOKS
