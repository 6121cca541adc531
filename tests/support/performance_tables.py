"""The tables of docs/performance, each made of the rows of files of results."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from support.figures import RESULTS, rows

Cells = list[str]
Rows = Iterator[Cells]
Table = Callable[[], Rows]

NONE = "-"
RATIO = "{ratio_interval}"
MPIS = ("openmpi", "mpich", "intel")
WORDS = "compiled put of a word,compiled get of a word,compiled signal,compiled send/recv,compiled fetch_add"
WORDS += ",compiled AM round trip,compiled AM flood,Python put,Python get,Python put + signal,Python copy + notify"
WORDS += ",Python fetch_add,Python rpc round trip,Python rpc_ff flood"


class Entries(dict[str, Any]):
    """The entries of a row, and what follows from them.

    `x_interval` is x with its 95 % interval where there is one; `x_ms` and `x_us` are seconds x, or their median.
    """

    def __missing__(self, key: str) -> Any:
        """Return what is not in the row itself."""
        name, _, what = key.rpartition("_")
        if what == "interval":
            value, low, high = (self.get(f"{name}{end}") for end in ("", "_low", "_high"))
            if value is None:
                return NONE
            return f"{value:.2f}" if low in (None, high) else f"{value:.2f} ({low:.2f} to {high:.2f})"
        seconds = self[name]
        return {"ms": 1e3, "us": 1e6}[what] * (seconds["median"] if isinstance(seconds, dict) else seconds)


def table(files: str, label: str, *cells: tuple[str, dict[str, Any]], **wanted: str) -> Table:
    """Return what makes a table of the rows that are wanted.

    Args:
        files: Where they are.
        label: The first cells of a line, formatted with the entries of a row; rows with the same label are one line.
        cells: For further cells, how they are formatted, and what distinguishes their row from the others of the line.
        wanted: What all rows have.
    """

    def made() -> Rows:
        lines: dict[str, list[Entries]] = {}
        for row in map(Entries, rows(files, wanted)):
            lines.setdefault(" | ".join(formatted(label, row)), []).append(row)
        for name, line in lines.items():
            yield [*name.split(" | "), *(shown for form, one in cells for shown in cells_of(form, one, line))]

    return made


def cells_of(form: str, wanted: dict[str, Any], line: list[Entries]) -> Cells:
    """Return cells of a line, from the one row that has what is wanted."""
    found = [row for row in line if wanted.items() <= row.items()]
    assert len(found) <= 1, f"several rows have {wanted}"
    return formatted(form, found[0]) if found else [NONE] * len(form.split(" | "))


def formatted(form: str, row: Entries) -> Cells:
    """Return cells with the entries of a row; what is None there is not shown."""
    shown = []
    for cell in form.split(" | "):
        try:
            text = cell.format_map(row).replace(" us", " µs")
            shown.append(re.sub(r"[\d.]+e\+\d+", lambda large: f"{float(large[0]):.0f}", text))
        except TypeError:
            shown.append(NONE)
    return [NONE if cell == "None" else cell for cell in shown]


def each(*tables: Table) -> Table:
    """Return what makes the lines of one table after those of the other."""
    return lambda: (line for made in tables for line in made())


def by(form: str, key: str, *values: Any) -> list[tuple[str, dict[str, Any]]]:
    """Return cells that differ in one entry."""
    return [(form, {key: value}) for value in values]


def sweeps(file: str, *threads: int, **wanted: str) -> Table:
    """Return the table of sweeps by kernel and type, with a column for each size and number of threads."""
    sizes = dict.fromkeys(row["size"] for row in rows(file, wanted))
    form = "{ratio:.2f} ({ns_per_cell:.3g})"
    cells = [(form, {"size": size, "threads": count}) for size in sizes for count in threads]
    return table(file, "{kernel} | {dtype}", *cells, **wanted)


def by_mpi(benchmark: str, **wanted: str) -> Table:
    """Return the table of three MPIs."""
    files = [f"{benchmark}-{mpi}" for mpi in MPIS]
    cells = by("{seconds_us:.3g} ({ratio:.3g})", "file", *files)
    return table(",".join(files), f"{benchmark} | {{operation}} | {{rival}} | {{size}}", *cells, **wanted)


def round_trips(file: str) -> Table:
    """Return the table of round trips by size."""
    operations = "compiled", "compiled put + signal", "Python", "Python copy + notify"
    return table(file, "{size}", *by(f"{MESSAGE} | {RATIO}", "operation", *operations))


def clustering(key: str, panel: str) -> Table:
    """Return the table of the clustering programs with their data."""
    what = {
        "pattern": "{pattern} | {node_kind} | {median:.2f} | {speedup_interval} | {efficiency:.2f}",
        "program": "{program} | {median:.3g} | {ari:.2f} | {clusters} | {ratio:.3g}",
    }
    return each(
        *(
            table(file, f"`{program}`, {data} | {what[key]}", panel=f"{program}, {panel}")
            for file, program, data in (
                ("clustering-charge6", "davs", "`charge6`"),
                ("clustering-davs", "davs", "`charge5`"),
                ("clustering-charge2", "davs", "`charge2`"),
                ("clustering-pwc", "pwc", "2,000"),
                ("clustering-two-hosts", "pwc", "2,000, two hosts"),
                ("clustering-10000", "pwc", "10,000"),
            )
            if key == "pattern" or file != "clustering-two-hosts"
        )
    )


def switched(switch: str) -> Table:
    """Return the table of applications without and with what looks at them."""
    return table(
        "switches", "{program} | {rival_milliseconds:.3g} | {milliseconds:.3g} | {ratio_interval}", switch=switch
    )


def predictions() -> Rows:
    """Yield how far predictions for two cores are from steps, of which those of the first file were fitted."""
    from gondwana_bench.cli.model import GOAL, with_latency
    from gondwana_bench.model import fit, machine, observations

    shipped = machine.read(str(Path(machine.__file__).parent / "machines" / "two_cores.json"))
    for file, latency in {"fit": 20.0, "held-out": 20.0, "delay-100": 100.0, "delay-500": 500.0}.items():
        steps = observations.read([RESULTS / f"model-{file}.json"]).some_steps()
        errors = sorted(abs(row["error"]) for row in fit.errors(with_latency(shipped, latency), steps))
        within = sum(error <= GOAL for error in errors)
        applications = ", ".join(dict.fromkeys(step.app for step in steps))
        shown = f"{within} of {len(errors)}", f"{errors[len(errors) // 2]:.1f} %", f"{errors[-1]:.0f} %"
        yield [f"`model-{file}`", applications, f"{latency:.0f} µs", *shown]


MESSAGE = "{microseconds:.3g} ({rival_microseconds:.3g})"
COLLECTIVE = "{operation} | {rival} | {size} | {microseconds:.3g} | {rival_microseconds:.3g} | {ratio_interval}"
WORD = "{operation} | {ours:.3g} {unit} | {goal} | {rival} | {theirs:.3g} {unit} | {ratio_interval}"
RING = "{ranks} | {communications} | {operation} | {rival} | {microseconds:.3g} | {rival_microseconds:.3g}"
RING += " | {communication_us:.3g}, {communication} | {rival_communication_us:.3g}, {rival_communication}"
RING += " | {ratio_interval}"
NPB = "{benchmark} `{variant}` | {class} | {ranks} | {median:.3g} | {official_median:.3g} | {ratio_interval}"
NPB += " | {communication:.3f} | {official_communication:.3f} | {memory_ratio:.2f}"
HPCG = "{size}³ | {ranks} | {official_rating:.3g} | {rating:.3g} | {ratio_interval} | {official_milliseconds:.3g}"
HPCG += " | {milliseconds:.3g} | {bandwidth_gb_s:.3g} | {of_triad:.2f}"
TASK = "{case} | {ours_us:.3g} | {goal_us:.3g} | {rival} | {rival_us:.3g} | {ratio_interval} | {processor_us:.3g}"
TASK += " | {rival_processor_us:.3g}"
ON_ONE_RANK = "task create + schedule,task create + schedule + run,task switch,channel put,channel take,channel peek"
ON_ONE_RANK += ",channel put + take of two tasks, capacity 0"
ON_TWO_RANKS = "remote channel, object one way,remote channel, number one way,remote channel, compiled, number one way"
ON_TWO_RANKS += ",notification, waiter spinning,notification, waiter spinning, compiled,notification, waiter asleep"
ON_TWO_RANKS += ",spawn + fetch of a null task, median,spawn of many null tasks, then fetch"
ON_TWO_RANKS += ",processor time of an idle rank in a second"
GPU_CODE = "{kernel} | {capability} | {shape} | {registers} | {blocks} | {local_bytes} | {shared_bytes}"
GPU_CODE += " | {instructions:g} | {loads:g} | {stores:g} | {shared:g} | {floating:g}"
GPU_CODE += " | {moves:g} | {integers:g} | {control:g}"
SCALING = table(
    "scaling",
    "`{app}`, {kind}",
    ("{problem} | {median_ms:.3g}", {"ranks": 1}),
    *by("{efficiency_interval}", "ranks", 2, 4),
)
OUTPUT = [
    cell
    for act in ("write", "sync", "read")
    for cell in (
        *by(f"{{{act}:.0f}}", "way", "one dataset", "a file a rank"),
        *by(f"{{{act}_ratio_interval}}", "way", "one dataset"),
    )
]
START = [
    *by("{processor_seconds:.2f}", "program", "ours", "ours, used", "mpi4py", "C"),
    *by("{megabytes:.1f}", "program", "ours", "ours, used", "mpi4py", "C"),
    *by("{descriptors}", "program", "ours"),
    *by("{job_seconds:.2f}", "program", "ours", "ours, used", "mpi4py", "C"),
]

PERFORMANCE: dict[tuple[str, str], Table] = {
    ("performance/stencil.md", "# Stencil sweeps"): sweeps(
        "stencil", 1, 2, kernel="sweep7,sweep27,gray_scott,gray_scott_one,copy,triad"
    ),
    ("performance/stencil.md", "## Two compilers of C"): table(
        "stencil-clang",
        "{kernel} | {ns_per_cell:.3g}",
        *by(f"{{c_ns_per_cell:.3g}} | {RATIO}", "compiler", "cc", "clang"),
    ),
    ("performance/stencil.md", "## Two steps in one sweep"): table(
        "stencil",
        "{kernel}",
        *(
            ("{ratio:.2f} ({ns_per_cell:.3g})", {"dtype": dtype, "threads": threads})
            for dtype in ("float64", "float32")
            for threads in (1, 2)
        ),
        kernel="sweep7,sweep7_pair,gray_scott,gray_scott_pair",
        size="256",
    ),
    ("performance/stencil.md", "## Steps on two ranks"): table(
        "stencil-by-hand", "{kernel} | {ns_per_cell:.3g} | {rival_ns_per_cell:.3g} | {ratio_interval}"
    ),
    ("performance/stencil.md", "## Exact sums"): sweeps("exact-sums", 1, 2),
    ("performance/loops.md", "# Irregular loops"): table(
        "loops",
        "{loop} | {ranks} | {size:,} | {c_ms:.3g}",
        *by(RATIO, "variant", "foreach", "jit", "jit, reassociate", "Numba"),
    ),
    ("performance/initialisation.md", "# Initialisation of an array"): table(
        "init",
        "{memory} | {threads} | {c_ms:.3g}",
        *by(RATIO, "variant", "foreach", "parallel", "pthread in C", "NumPy"),
        panel="init",
    ),
    ("performance/recursion.md", "# Recursive calls"): table(
        "fib",
        "{n} | {ours_us:.3g}",
        *by("{rival_us:.3g} | {ratio_interval}", "rival", "C", "C, clang", "Python"),
        case="call",
    ),
    ("performance/recursion.md", "## On other ranks and in pools"): table(
        "fib",
        "{case} | {ranks} | {n} | {ours_us:.3g}",
        *by("{rival_us:.3g} | {ratio_interval}", "rival", "pthread in C", "multiprocessing Pool.apply"),
        case="spawn + fetch,pool, submit + result",
    ),
    ("performance/initialisation.md", "## By worker processes"): table(
        "init", "{memory} | {workers} | {variant} | {ms:.3g} | {c_ms:.3g} | {ratio_interval}", panel="workers"
    ),
    ("performance/exchange.md", "# Ghost exchange"): table(
        "exchange", "{size}³ | {fields} | {faces} | {microseconds:.3g} | {c_microseconds:.3g} | {ratio_interval}"
    ),
    ("performance/exchange.md", "## Between two hosts"): table(
        "exchange-two-hosts",
        "{size}³ | {fields} | {faces} | {microseconds:.3g} | {c_microseconds:.3g} | {ratio_interval}",
    ),
    ("performance/collectives.md", "# Collectives"): table("collectives", COLLECTIVE),
    ("performance/collectives.md", "## Cores that share no cache"): table(
        "collectives-distant-cores", COLLECTIVE, size="0,8,64,512,1024,8192"
    ),
    ("performance/collectives.md", "## Between two hosts"): table("collectives-two-hosts", COLLECTIVE),
    ("performance/messages.md", "# Messages"): round_trips("ping-pong"),
    ("performance/messages.md", "## Between two hosts"): round_trips("ping-pong-two-hosts"),
    ("performance/messages.md", "## A ring of supersteps"): table("ring", RING),
    ("performance/messages.md", "### A ring over two hosts"): table("ring-two-hosts", RING),
    ("performance/messages.md", "## Messages and sums by OSU's procedure"): table(
        "osu",
        "{test} | {size}",
        *by(f"{MESSAGE} | {RATIO}", "operation", "compiled", "Python"),
        size="0,8,64,1024,8192,65536,1048576,8388608",
        operation="compiled,Python",
    ),
    ("performance/address-space.md", "# One address space"): each(
        table("rma", WORD, size="8", operation="compiled put + signal", goal="<= 0.25"),
        table("rma", WORD, size="8", operation=WORDS),
    ),
    ("performance/address-space.md", "## One transfer after the other"): table(
        "rma",
        "{size}",
        ("{ours:.3g} ({theirs:.3g})", {"operation": "compiled put", "rival": "C MPI_Put"}),
        ("{ours:.3g} ({theirs:.3g})", {"operation": "compiled get", "rival": "C MPI_Get"}),
        ("{ours:.3g} ({theirs:.3g})", {"operation": "compiled put + signal", "goal": None}),
        ("{ours:.3g}", {"operation": "compiled AM with payload"}),
        operation="compiled put,compiled get,compiled put + signal,compiled AM with payload",
        panel="rma",
    ),
    ("performance/address-space.md", "## Floods"): table(
        "rma",
        "{size}",
        *by("{ours:.3g} | {theirs:.3g}", "rival", "C memcpy flood"),
        *by("{theirs:.3g}", "rival", "C MPI_Put flood", "C Isend flood"),
        operation="compiled put flood",
        panel="rma",
    ),
    ("performance/address-space.md", "### Floods from Python"): table(
        "rma",
        "{size}",
        *by("{ours:.3g} | {theirs:.3g}", "rival", "mpi4py Put flood"),
        *by("{ratio:.2f}", "rival", "C memcpy flood"),
        operation="Python copy flood",
        panel="rma",
    ),
    ("performance/address-space.md", "### Peaks"): table(
        "rma",
        "{operation} | {peak_gb_per_s:.3g} | {peak_nbytes} | {half_nbytes:.0f} | {nine_tenths_nbytes:.0f}",
        panel="peaks",
    ),
    ("performance/address-space.md", "## While more ranks wait"): table(
        "rma-4-ranks", "{operation} | {ranks} | {ours:.3g} {unit} | {theirs:.3g} {unit} | {ratio_interval}"
    ),
    ("performance/address-space.md", "## Between two hosts"): table(
        "rma-two-hosts",
        "{operation} | {size} | {ours:.3g} {unit} | {rival} | {theirs:.3g} {unit} | {ratio_interval}",
        unit="us,M/s",
    ),
    ("performance/address-space.md", "## With other MPIs"): each(
        by_mpi("rma", size="8", operation="compiled put + signal", goal="<= 0.25"),
        by_mpi("rma", size="8", operation="compiled fetch_add,compiled AM round trip,Python put,Python get"),
        by_mpi("rma", size="8", operation="Python copy + notify,Python rpc round trip"),
        by_mpi("rma", size="4096,65536", operation="compiled put,compiled put + signal"),
        by_mpi("ping-pong", operation="compiled,Python"),
        by_mpi("collectives"),
    ),
    ("performance/nas.md", "# NAS benchmarks"): table("npb", NPB, panel="time"),
    ("performance/nas.md", "## The same transforms on both sides"): table("npb-fftw", NPB, panel="time"),
    ("performance/nas.md", "## Class C"): table("npb-class-c", NPB, panel="time"),
    ("performance/nas.md", "## MPICH beside Open MPI"): table(
        "npb-cg-openmpi,npb-cg-mpich",
        "`{variant}`",
        *by("{median:.3g} | {communication:.3f}", "file", "npb-cg-openmpi", "npb-cg-mpich"),
        panel="time",
    ),
    ("performance/hpcg.md", "# HPCG"): table("hpcg", HPCG),
    ("performance/hpcg.md", "## With more bandwidth for one core"): table("hpcg-avx512", HPCG),
    ("performance/hpcg.md", "## Long runs"): table(
        "hpcg-60-seconds,hpcg-60-seconds-avx512",
        "{ranks}",
        *by("{rating_gflops:.3g}", "file", "hpcg-60-seconds", "hpcg-60-seconds-avx512"),
    ),
    ("performance/heat.md", "# Heat conduction"): table(
        "heat", "{size}³ | {variant} | {median:.4g} us | {iqr:.3g} us | {speed_interval} | {spread_interval}"
    ),
    ("performance/heat.md", "## Beside the original program"): table(
        "heat-against-1,heat-against-2", "{edge}³ | {ranks} | {ours:.4g} | {theirs:.4g} | {ratio_interval}"
    ),
    ("performance/clustering.md", "# Clustering"): clustering("pattern", "speed-up"),
    ("performance/clustering.md", "## Beside scikit-learn"): clustering("program", "beside scikit-learn"),
    ("performance/scaling.md", "# Scaling"): SCALING,
    ("performance/scaling.md", "## Output"): table(
        "io-small,io,io-larger", "{panel} | {ranks}", *OUTPUT, ranks="1,2,4"
    ),
    ("performance/threads.md", "# Several threads that communicate"): table(
        "injection", "{operation} | {threads} | {ours_per_s:.3g} | {rival} | {rival_per_s:.3g} | {ratio_interval}"
    ),
    ("performance/traces.md", "# Traces"): switched("--trace FILE"),
    ("performance/races.md", "# Looking for races"): switched("GONDWANA_CHECK=races"),
    ("performance/stencil.md", "## Checked indices"): switched("GONDWANA_CHECK=1"),
    ("performance/start.md", "# Start"): table("start", "{ranks}", *START),
    ("performance/start.md", "## The first start"): table(
        "start",
        "{ranks}",
        *by("{processor_seconds:.2f}", "program", "ours, first steps", "ours, steps"),
        *by("{job_seconds:.2f}", "program", "ours, first steps", "ours, steps"),
    ),
    ("performance/tasks.md", "# Tasks and channels"): table("tasks", TASK, case=ON_ONE_RANK),
    ("performance/tasks.md", "## Creations a second"): table(
        "creation", "{case} | {ours_per_s:,.0f} | {rival} | {rival_per_s:,.0f}"
    ),
    ("performance/tasks.md", "## Between two ranks"): table("tasks", TASK, case=ON_TWO_RANKS),
    ("performance/tasks.md", "## Pools of workers"): table(
        "pools",
        "{case} | {workers} | {name} | {ours:.3g} {unit} | {goal:.3g} {unit} | {rival} | {theirs:.3g} {unit}"
        " | {ratio_interval} | {processor:.3g} {unit} | {rival_processor:.3g} {unit}",
    ),
    ("performance/model.md", "# The model of larger machines"): predictions,
    ("performance/gpus.md", "## Code for GPUs"): table("gpu-code", GPU_CODE, when="now"),
}
