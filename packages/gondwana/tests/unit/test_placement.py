"""Which cores the threads of the ranks of a host get, and how that is reported."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from gondwana.cli import launch
from gondwana.errors import UsageError
from gondwana.runtime import cores
from gondwana.runtime.placement import binding, report, topology
from gondwana.runtime.placement.binding import Bind, Place, deal
from gondwana.runtime.placement.topology import Core, Topology

SOCKETS = {cpu: cpu % 16 // 8 for cpu in range(32)}
DOMAINS = {domain: f"{4 * domain}-{4 * domain + 3},{4 * domain + 16}-{4 * domain + 19}" for domain in range(4)}
"""Two sockets of two NUMA domains of four cores of two hardware threads: core c has c and c + 16."""


def made(folder: Path, sockets: Mapping[int, int | None], domains: Mapping[int, str]) -> Path:
    """A folder that describes such a host; where the socket of a thread is None, nothing is said of its core."""
    for cpu, socket in sockets.items():
        place = folder / f"cpu/cpu{cpu}/topology"
        if socket is not None:
            place.mkdir(parents=True)
            (place / "physical_package_id").write_text(f"{socket}\n")
            (place / "core_id").write_text(f"{cpu % 4}\n")  # the same in every NUMA domain, as with dies
            (place / "thread_siblings_list").write_text(f"{cpu % 16},{cpu % 16 + 16}\n")
    for domain, cpus in domains.items():
        (folder / f"node/node{domain}").mkdir(parents=True)
        (folder / f"node/node{domain}/cpulist").write_text(f"{cpus}\n")
    return folder


@pytest.fixture
def system(tmp_path: Path) -> Path:
    return made(tmp_path, SOCKETS, DOMAINS)


def read(system: Path, allowed: Iterable[int] = range(32)) -> Topology:
    return topology.read(set(allowed), system)


def texts(places: Iterable[Place]) -> list[str]:
    """For each rank the cores of its threads, a word for each thread."""
    return [" ".join(topology.shown(cpus) for cpus in place) for place in places]


# -- what the host has -----------------------------------------------------------------------------------------------


def test_a_host_is_read(system: Path) -> None:
    host = read(system)
    assert host.cores == tuple(Core((core, core + 16), core // 8, core // 4) for core in range(16))


def test_cores_of_a_socket_follow_each_other_whatever_their_numbers(tmp_path: Path) -> None:
    host = read(made(tmp_path, {cpu: cpu % 2 for cpu in range(32)}, {0: "0-31"}))
    assert [core.cpus[0] for core in host.cores] == [*range(0, 16, 2), *range(1, 16, 2)]


def test_only_allowed_hardware_threads_count(system: Path) -> None:
    host = read(system, {1, 2, 5, 17, 21, 30})
    assert host.cores == (Core((1, 17), 0, 0), Core((2,), 0, 0), Core((5, 21), 0, 1), Core((30,), 1, 3))


def test_a_host_that_says_nothing(tmp_path: Path) -> None:
    assert read(made(tmp_path, {0: None, 3: None}, {}), {0, 3}).cores == (Core((0,)), Core((3,)))


def test_firmware_that_names_no_socket_and_memory_without_cores(tmp_path: Path) -> None:
    host = read(made(tmp_path, {0: -1, 16: -1}, {0: "0,16", 1: ""}), {0, 16})
    assert host.cores == (Core((0, 16), None, 0),)


@pytest.mark.parametrize(
    ("text", "numbers"), [("", set()), ("7", {7}), ("0-3", {0, 1, 2, 3}), ("0,2-3,9-10", {0, 2, 3, 9, 10})]
)
def test_lists_of_linux(text: str, numbers: set[int]) -> None:
    assert topology.parse(f"{text}\n") == numbers
    assert topology.shown(numbers) == text


# -- who gets what ---------------------------------------------------------------------------------------------------


def test_threads_get_consecutive_cores(system: Path) -> None:
    places = deal(read(system), Bind.core, ranks=4, threads=2)
    assert texts(places) == ["0,16 1,17", "2,18 3,19", "4,20 5,21", "6,22 7,23"]


def test_hardware_threads_count_where_cores_are_too_few(system: Path) -> None:
    host = read(system)
    assert texts(deal(host, Bind.core, ranks=1, threads=16))[0] == " ".join(f"{core},{core + 16}" for core in range(16))
    pairs = " ".join(f"{core} {core + 16}" for core in range(8))
    assert texts(deal(host, Bind.core, ranks=1, threads=17))[0] == f"{pairs} 8"
    assert texts(deal(host, Bind.core, ranks=8, threads=4))[:2] == ["0 16 1 17", "2 18 3 19"]


def test_a_set_with_holes_is_dealt(system: Path) -> None:
    host = read(system, {1, 2, 5, 17, 21, 30})
    assert texts(deal(host, Bind.core, ranks=2, threads=2)) == ["1,17 2", "5,21 30"]
    assert texts(deal(host, Bind.core, ranks=6, threads=1)) == ["1", "17", "2", "5", "21", "30"]


@pytest.mark.parametrize(("ranks", "threads"), [(33, 1), (1, 33), (3, 11)])
def test_too_few_cores(system: Path, ranks: int, threads: int) -> None:
    with pytest.raises(UsageError) as raised:
        deal(read(system), Bind.core, ranks, threads)
    expected = f"--bind core: {ranks * threads} cores are needed for {ranks} rank"
    assert str(raised.value).startswith(expected)
    assert "but this job may use 32 (0-31); give fewer ranks (-n) or threads (-t)" in str(raised.value)


def test_sockets_take_turns(system: Path) -> None:
    first, second = "0-7,16-23", "8-15,24-31"
    places = deal(read(system), Bind.socket, ranks=3, threads=2)
    assert texts(places) == [f"{first} {first}", f"{second} {second}", f"{first} {first}"]


def test_numa_domains_take_turns(system: Path) -> None:
    places = deal(read(system), Bind.numa, ranks=5, threads=1)
    assert texts(places) == [*(DOMAINS[domain] for domain in range(4)), DOMAINS[0]]


def test_only_allowed_sockets_take_turns(system: Path) -> None:
    host = read(system, {9, 25, 12})
    assert texts(deal(host, Bind.socket, ranks=2, threads=1)) == ["9,12,25"] * 2
    assert texts(deal(host, Bind.numa, ranks=2, threads=1)) == ["9,25", "12"]


def test_none_gives_all_to_all(system: Path) -> None:
    assert texts(deal(read(system, {1, 2, 30}), Bind.none, ranks=2, threads=2)) == ["1-2,30 1-2,30"] * 2


@pytest.mark.parametrize(("bind", "what"), [(Bind.socket, "socket"), (Bind.numa, "NUMA domain")])
def test_a_host_that_does_not_say(tmp_path: Path, bind: Bind, what: str) -> None:
    host = read(made(tmp_path, {0: None, 1: None}, {}), {0, 1})
    with pytest.raises(UsageError, match=f"--bind {bind}: this host does not say to which {what} the cores 0-1 belong"):
        deal(host, bind, ranks=1, threads=1)
    assert texts(deal(host, Bind.core, ranks=2, threads=1)) == ["0", "1"]


# -- the ranks of a host ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("variables", "place"),
    [
        ({}, (0, 1)),
        ({"OMPI_COMM_WORLD_RANK": "5", "OMPI_COMM_WORLD_LOCAL_RANK": "1", "OMPI_COMM_WORLD_LOCAL_SIZE": "4"}, (1, 4)),
        ({"PMI_RANK": "5", "PMI_SIZE": "6", "MPI_LOCALRANKID": "2", "MPI_LOCALNRANKS": "3"}, (2, 3)),
        ({"PMIX_RANK": "9", "SLURM_LOCALID": "3", "SLURM_TASKS_PER_NODE": "2,4(x3)"}, (3, 4)),
    ],
)
def test_launchers_number_the_ranks_of_a_host(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], place: tuple[int, int]
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert cores.place_among_ranks() == place


def test_a_launcher_that_does_not_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLUX_TASK_RANK", "3")
    with pytest.raises(UsageError, match="flux does not say which ranks share this host"):
        cores.place_among_ranks()


# -- the report ------------------------------------------------------------------------------------------------------


def locations(
    monkeypatch: pytest.MonkeyPatch, *where: tuple[str, str, set[int]], bind: Bind | None = Bind.core
) -> None:
    monkeypatch.setattr(
        report, "_locations", [report.Location(host, machine, frozenset(cpus)) for host, machine, cpus in where]
    )
    monkeypatch.setattr(binding, "_bound", bind)


def test_ranks_on_two_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    locations(monkeypatch, ("n1", "a", {0, 1}), ("n1", "a", {2, 3}), ("n2", "b", {0, 1}), ("n2", "b", {2, 3}))
    assert report.describe(2) == {
        "pattern": "2x2x2",
        "simulated": False,
        "bind": "core",
        "cores": ["0-1", "2-3", "0-1", "2-3"],
    }
    assert report.table(2) == (
        "gondwana: placement 2x2x2: threads x ranks x nodes, --bind core\n"
        "gondwana: node  rank  threads  cores\n"
        "gondwana: n1       0        2  0-1\n"
        "gondwana: n1       1        2  2-3\n"
        "gondwana: n2       2        2  0-1\n"
        "gondwana: n2       3        2  2-3\n"
    )


def test_the_table_of_the_guide_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = set(range(8)), set(range(8, 16))
    locations(monkeypatch, *[(host, host, cores) for host in ("node07", "node08") for cores in (first, second)])
    guide = Path(__file__).parents[4] / "docs" / "guide" / "launching.md"
    assert f"--ranks-per-node 2 -t 8 --bind core heat.py\n{report.table(8)}```" in guide.read_text(encoding="utf-8")


def test_hosts_on_one_machine_are_simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    locations(monkeypatch, ("n1", "a", {0}), ("n2", "a", {0}), bind=None)
    placed = report.describe(1)
    assert placed is not None
    assert (placed["pattern"], placed["simulated"], placed["bind"]) == ("1x1x2", True, None)


def test_nodes_by_the_variable_are_simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    locations(monkeypatch, *[("n1", "a", {rank}) for rank in range(3)])
    monkeypatch.setenv("GONDWANA_RANKS_PER_NODE", "2")
    first, _, *rows = report.table(1).splitlines()
    assert first == "gondwana: placement 1x2x2: threads x ranks x nodes (simulated), --bind core"
    assert [row.split()[1:3] for row in rows] == [["n1/0", "0"], ["n1/0", "1"], ["n1/1", "2"]]


def test_a_long_table_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    for many in (report.MOST, report.MOST + 1, report.MOST + 936):
        locations(monkeypatch, *[("n1", "a", {rank}) for rank in range(many)])
        lines = report.table(1).splitlines()
        assert len(lines) == 2 + report.MOST + (many > report.MOST)
        assert lines[report.MOST + 1].split()[2] == str(report.MOST - 1)
    assert lines[-1] == "gondwana: ... and 936 more ranks"


def test_a_process_that_is_no_rank_has_no_placement() -> None:
    assert report.describe(1) is None


# -- commands of the launchers ---------------------------------------------------------------------------------------


@pytest.fixture
def vendor(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A host of 32 cores; `launch.mpi_library` is to be set."""
    monkeypatch.setattr(launch, "find_launcher", lambda library, python: "launcher")
    monkeypatch.setattr(launch, "cores", lambda: 32)
    for name in ("SLURM_JOB_ID", "GONDWANA_RANKS_PER_NODE", *launch.HOST_LISTS):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


def use(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(launch, "mpi_library", lambda python: launch.Library(name, "5", "libmpi.so"))


def test_open_mpi_is_told_the_ranks_of_a_node(vendor: pytest.MonkeyPatch, tmp_path: Path) -> None:
    use(vendor, "Open MPI")
    (tmp_path / "hosts").write_text("# two hosts\nn1 slots=4 # the first\n\nn2\nn1\n")
    vendor.setenv("PRTE_MCA_prte_default_hostfile", str(tmp_path / "hosts"))
    command = launch.command(8, ["x.py"], threads=2, ranks_per_node=4, bind=Bind.core)
    words = list(command.argv)
    assert words[:7] == ["launcher", "-n", "8", "--map-by", "ppr:4:node:OVERSUBSCRIBE", "--bind-to", "none"]
    assert "--oversubscribe" not in words
    assert words[words.index("GONDWANA_BIND") - 1] == "-x"
    assert command.variables["GONDWANA_BIND"] == "core"
    assert launch.command(8, ["x.py"], ranks_per_node=4).variables["GONDWANA_THREADS"] == "8"
    with pytest.raises(UsageError, match="8 ranks need 4 nodes, but this job has 2"):
        launch.command(8, ["x.py"], threads=1, ranks_per_node=2)
    vendor.setenv("PRTE_MCA_prte_default_hostfile", "/no/hosts")
    with pytest.raises(
        UsageError, match=r"/no/hosts: cannot be read \(No such file or directory\); it is the list of hosts"
    ):
        launch.command(8, ["x.py"], threads=1, ranks_per_node=2)


@pytest.mark.parametrize(
    ("name", "variables"),
    [("MPICH", {}), ("Intel MPI", {"I_MPI_PIN": "0"}), ("MVAPICH", {"MV2_ENABLE_AFFINITY": "0"})],
)
def test_hydra_is_told_the_ranks_of_a_node(vendor: pytest.MonkeyPatch, name: str, variables: dict[str, str]) -> None:
    use(vendor, name)
    command = launch.command(1 + 1, ["x.py"], threads=1, ranks_per_node=2, bind=Bind.none)
    assert command.argv[1:7] == ("-n", "2", "-ppn", "2", "-bind-to", "none")
    assert command.variables.items() >= {**variables, "GONDWANA_BIND": "none", "HYDRA_LAUNCHER": "fork"}.items()
    plain = launch.command(2, ["x.py"], threads=1)
    assert plain.argv[1:4] == ("-n", "2", launch.sys.executable)
    assert not {"GONDWANA_BIND", *variables} & plain.variables.keys()


@pytest.fixture
def slurm(vendor: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    srun = tmp_path / "srun"
    srun.write_text("#!/bin/sh\necho none pmi2 pmix; echo ranks 2; echo ranks 2\n")
    srun.chmod(0o755)
    vendor.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    vendor.setenv("SLURM_JOB_ID", "1")
    vendor.setenv("SLURM_JOB_NUM_NODES", "2")
    use(vendor, "MPICH")
    return vendor


def test_lists_of_hosts_are_honoured(vendor: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("n1\nn1\nn2\nn3\n")
    vendor.setenv("GONDWANA_CACHE_DIR", "/somewhere")
    vendor.setenv("HYDRA_HOST_FILE", str(tmp_path / "hosts"))
    use(vendor, "MPICH")
    assert "HYDRA_LAUNCHER" not in launch.command(3, ["x.py"], threads=1).variables  # which would be this host alone
    with pytest.raises(UsageError, match="this job has 3"):
        launch.command(8, ["x.py"], threads=1, ranks_per_node=2)
    launch.command(3 * 256, ["x.py"], threads=1)
    with pytest.raises(UsageError, match="more than 8 threads for each of 96 cores"):
        launch.command(3 * 256 + 1, ["x.py"], threads=1)
    use(vendor, "Open MPI")
    assert "-x GONDWANA_CACHE_DIR" not in str(launch.command(3, ["x.py"], threads=1))
    for name in ("PBS_NODEFILE", "LSB_DJOB_HOSTFILE"):
        vendor.setenv(name, str(tmp_path / "hosts"))
        words = str(launch.command(33, ["x.py"], threads=1))
        assert f"--hostfile {tmp_path / 'hosts'} " in words
        assert "-x GONDWANA_CACHE_DIR " in words
        assert "yield_when_idle" not in words
        vendor.delenv(name)


def test_slurm_is_told_the_ranks_of_a_node(slurm: pytest.MonkeyPatch) -> None:
    command = launch.command(8, ["x.py"], threads=40, ranks_per_node=4, bind=Bind.core)
    assert command.argv[:10] == (
        *("srun", "-n", "8", "-c", "40", "-N", "2"),
        *("--ntasks-per-node=4", "--distribution=block", "--cpu-bind=none"),
    )
    assert command.variables["GONDWANA_BIND"] == "core"


def test_slurm_has_too_few_nodes(slurm: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=r"8 ranks need 4 nodes, but this job has 2; give at most 4 ranks \(-n\)"):
        launch.command(8, ["x.py"], threads=1, ranks_per_node=2)


def test_one_host_is_one_node(vendor: pytest.MonkeyPatch) -> None:
    for name in ("Open MPI", "MPICH"):
        use(vendor, name)
        with pytest.raises(UsageError, match=r"--ranks-per-node 2: 4 ranks need 2 nodes, but this job has 1"):
            launch.command(4, ["x.py"], threads=1, ranks_per_node=2)


def test_simulated_nodes_are_on_one_host(vendor: pytest.MonkeyPatch) -> None:
    use(vendor, "Open MPI")
    vendor.setenv("GONDWANA_RANKS_PER_NODE", "2")
    assert launch.command(4, ["x.py"], threads=1, ranks_per_node=2).argv[:4] == (
        "launcher",
        "-n",
        "4",
        "--oversubscribe",
    )
    with pytest.raises(UsageError, match="--ranks-per-node 4: GONDWANA_RANKS_PER_NODE=2 simulates other nodes"):
        launch.command(4, ["x.py"], threads=1, ranks_per_node=4)


@pytest.mark.parametrize(
    ("ranks", "per_node", "do"), [(1, 2, "1 rank does"), (3, 2, "3 ranks do"), (2, 4, "2 ranks do")]
)
def test_nodes_are_full(ranks: int, per_node: int, do: str) -> None:
    with pytest.raises(UsageError, match=f"--ranks-per-node {per_node}: {do} not fill nodes of {per_node}"):
        launch.command(ranks, ["x.py"], threads=1, ranks_per_node=per_node)


def test_this_host_is_asked_before_any_rank_starts(vendor: pytest.MonkeyPatch, tmp_path: Path) -> None:
    use(vendor, "Open MPI")
    vendor.setattr(topology, "read", lambda allowed: Topology((Core((0, 1)),)))
    for ranks, bind, reason in (
        (3, Bind.core, "3 cores are needed"),
        (2, Bind.numa, "NUMA"),
        (1, Bind.socket, "socket"),
    ):
        with pytest.raises(UsageError, match=reason):
            launch.command(ranks, ["x.py"], threads=1, bind=bind)
    launch.command(2, ["x.py"], threads=1, bind=Bind.core)
    (tmp_path / "hosts").write_text("n1\nn2\n")
    vendor.setenv("PBS_NODEFILE", str(tmp_path / "hosts"))  # other hosts may have what this one lacks
    launch.command(3, ["x.py"], threads=1, bind=Bind.core)
