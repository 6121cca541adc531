"""``gondwana ls`` and ``gondwana plot`` as a user types them."""

from __future__ import annotations

import os
import re
import shutil
import sys

import pytest

from gondwana.io.adios import BPWriter
from support import jobs
from support.datasets import make_dataset

pytest.importorskip("adios2")
pytest.importorskip("matplotlib")


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return make_dataset(tmp_path_factory.mktemp("cli") / "gs.bp", steps=3)


def gondwana(*arguments):
    return jobs.run_command([sys.executable, "-m", "gondwana.cli.main", *map(str, arguments)], timeout=120)


def test_ls(path):
    done = gondwana("ls", "-l", path)
    assert done.status == 0, str(done)
    assert "  double   U     3*{6, 5, 4} = " in done.stdout
    assert "  int32_t  step  3*scalar = 10 / 30" in done.stdout
    done = gondwana("ls", "--verify", path)
    assert (done.status, done.stdout.splitlines()[-1]) == (0, f"{path}: verified, 3 steps with 9.9 KiB of data")


def test_plot_with_histograms_on_two_ranks(path):
    done = gondwana("plot", path, "--pdf", "-n", "2", "--steps", "first,last", "--plane", "yz")
    assert done.status == 0, str(done)
    folder = path.with_name("gs_plots")
    names = ["yz_00000010.png", "yz_00000030.png", "yz_montage.png", "pdf.bp", "pdf_U.png", "pdf_V.png", "pdf_U_V.png"]
    assert done.stdout.splitlines() == [str(folder / name) for name in names]
    assert sorted(entry.name for entry in folder.iterdir()) == sorted(names)


def test_plot_of_one_variable_elsewhere(path, tmp_path):
    done = gondwana("plot", path, "-v", "V", "--steps", "20", "--no-montage", "--out", tmp_path / "new" / "pictures")
    assert done.stdout.splitlines() == [str(tmp_path / "new" / "pictures" / "xy_00000020.png")], str(done)


@pytest.mark.parametrize("command", ["ls", "plot"])
def test_data_that_were_cut_off_are_one_line_and_status_1(path, tmp_path, command):
    copy = shutil.copytree(path, tmp_path / "cut.bp")
    os.truncate(copy / "data.0", (copy / "data.0").stat().st_size // 2)
    done = gondwana(command, copy)
    assert done.status == 1, str(done)
    assert re.fullmatch(r"gondwana: error: .*cut\.bp is damaged: data\.0 .*\n", done.stderr), str(done)
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["ls", "nowhere.bp"], "there is no dataset nowhere.bp"),
        (["plot", "nowhere.bp"], "there is no dataset nowhere.bp"),
        (["plot", "PATH", "-v", "u"], "no variable 'u': did you mean 'U'?"),
        (["plot", "PATH", "--steps", "11"], "--steps 11: the dataset has no such step; it has 10, 20, 30"),
        (["plot", "PATH", "--index", "9"], "z = 9 is outside of 'U'"),
        (["plot", "PATH", "--out", "FILE/x"], "cannot write pictures"),
        (["plot", "PATH", "--out", "PATH"], "is a dataset; choose a folder outside of it"),
        (["plot", "PATH", "--out", "PATH/pictures"], "is a dataset; choose a folder outside of it"),
        (["ls", "--verify", "FOREIGN"], "has no checksums (checksums.txt): it was not written by this library"),
        (["plot", "EMPTY"], "has no complete step yet: wait until the first one is written"),
    ],
)
def test_mistakes_are_one_line_and_status_2(path, tmp_path, arguments, message, monkeypatch, capsys):
    from gondwana.cli import main

    BPWriter(tmp_path / "empty.bp").close()
    (tmp_path / "file.bp").write_text("")
    (shutil.copytree(path, tmp_path / "foreign.bp") / "checksums.txt").unlink()
    names = {"PATH": path} | {name.upper(): tmp_path / f"{name}.bp" for name in ("empty", "file", "foreign")}
    given = [re.sub("|".join(names), lambda found: str(names[found[0]]), part) for part in arguments]
    monkeypatch.setattr(sys, "argv", ["gondwana", *given])
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as leaving:
        main.main()
    assert leaving.value.code == 2
    stderr = capsys.readouterr().err
    assert message in stderr
    assert stderr.count("\n") == 1
