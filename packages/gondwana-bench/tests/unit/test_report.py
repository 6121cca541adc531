"""``gondwana report``: what is on the page, what is refused, and that a browser shows it without complaint."""

from __future__ import annotations

import functools
import html.parser
import json
import math
import re
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from gondwana.errors import UsageError
from gondwana_bench.report import Source, layouts, page, read
from gondwana_bench.report.comparisons import compare
from gondwana_bench.report.draw import figures
from gondwana_bench.report.rows import Panel, figure
from gondwana_bench.report.sources import load_in_words
from gondwana_bench.report.verdicts import verdicts
from support import browser, jobs
from support.result_files import application, benchmark, environment, model, row, trace, write

ROOT = Path(__file__).parents[4]
STORED = sorted((ROOT / "docs" / "results").glob("*.json"))
VOID = {"meta", "br", "link"}
SIZES = (8, 64, 4096)


class Reader(html.parser.HTMLParser):
    """What a page has: its elements, its texts, and whether all elements are closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not {"style", "script"} & set(self.open):
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(self.words)


def shown(*contents: Any) -> Reader:
    """The page of results that are in files result-0.json, result-1.json, ..."""
    kinds = [next(kind for kind in ("app", "benchmark", "model", "trace") if kind in content) for content in contents]
    sources = [
        Source(f"result-{number}.json", kind, content[kind], content)  # type: ignore[arg-type]
        for number, (kind, content) in enumerate(zip(kinds, contents, strict=True))
    ]
    text = page(sources)
    for drawing in re.findall(r"<svg .*?</svg>", text, re.DOTALL):
        ET.fromstring(drawing)
    return Reader(text)


def titles(panel: Panel) -> list[str]:
    return [figure.title for figure in figures(panel)]


def panel(rows: list[dict[str, Any]], name: str = "demo", units: dict[str, str] | None = None) -> Panel:
    return Panel(name, name, rows, units or benchmark(name, {name: rows})["units"])


@functools.cache
def stored_page() -> str:
    return page(read(STORED))


def test_the_stored_results_are_one_page() -> None:
    text = stored_page()
    read_page = Reader(text)
    assert text == page(read(STORED)), "the same results give the same bytes"
    assert read_page.tags.count("svg") > 50
    assert "times as fast as" in read_page.text
    assert not {"img", "link", "iframe", "object", "embed"} & set(read_page.tags)
    assert not [
        name for name, value in read_page.attributes if name == "src" or ("://" in (value or "") and name != "xmlns")
    ]
    for name in {source.name for source in read(STORED)}:
        assert any(name in words for words in read_page.words)


def test_sizes_become_curves_with_the_ratio_in_words() -> None:
    rows = [row(name, size) for name in ("put", "get") for size in SIZES]
    names = titles(panel(rows, units={"size": "B", "microseconds": "us", "rival_microseconds": "us"}))
    assert names == ["put: time", "put: times as fast", "get: time", "get: times as fast"]
    found = shown(benchmark("rma", {"rma": rows}))
    assert "ours is 2 times as fast as C, median 2, in 3 cases" in found.text
    assert "0 of 6 goals missed" in found.text
    assert "goal >= 1.5 x met" in found.text
    assert "Quiet" in found.text


def test_a_size_of_zero_is_in_the_table() -> None:
    rows = [row("put", size) for size in (0, *SIZES)]
    units = {"size": "B", "microseconds": "us"}
    assert figures(panel(rows, units=units))[0].caption == "Size 0 is in the table only."
    calls = [{"n": n, "ours_us": 1.0 + n, "rival_us": 1.0} for n in (0, 10, 20)]
    [linear] = figures(panel(calls, "fib", {"n": "1", "ours_us": "us", "rival_us": "us"}))
    assert not linear.caption
    assert ">0</text>" in linear.chart


def test_few_rows_become_bars_and_scatter() -> None:
    sample = {"n": 9, "median": 1.0, "low": 0.9, "high": 1.1, "minimum": 0.8, "p5": 0.85, "p95": 1.2, "p99": 1.3}
    rows = [row("put", 8, seconds=sample, c_seconds=sample), row("get", 8, seconds=sample, c_seconds=sample)]
    del rows[0]["rival"], rows[1]["rival"]
    units = {"seconds": "s", "c_seconds": "s"}
    assert titles(panel(rows, units=units)) == ["demo beside C", "demo: seconds"]


def test_many_bars_are_divided_by_their_subjects() -> None:
    rows = [row(f"case {number % 3}", 8, ranks=number) for number in range(30)]
    bars = [title for title in titles(panel(rows)) if "beside" in title]
    assert bars == ["case 0 beside C", "case 1 beside C", "case 2 beside C"]


def test_ranks_become_efficiency_and_speed_up() -> None:
    rows = [
        {
            "app": "heat", "kind": "strong", "ranks": n, "beyond_cores": n > 2, "efficiency": 1 / n,
            "efficiency_low": 0.9 / n, "efficiency_high": 1.1 / n, "min": 0.1, "median": 0.1, "max": 0.3,
            "verified": True,
        }
        for n in (1, 2, 4)
    ]  # fmt: skip
    found = figures(Panel("scaling", "heat, strong", rows, dict.fromkeys(("min", "median", "max"), "s")))
    assert [figure.title.removeprefix("heat, strong: ") for figure in found] == [
        "seconds of a step", "efficiency", "speed-up",
    ]  # fmt: skip
    assert ">slowest rank</text>" in found[0].chart
    assert all("Hollow: more ranks than cores" in one.caption for one in found)
    assert "ideal" in found[2].chart


def test_patterns_become_bars_of_speed_ups() -> None:
    rows = [
        {"pattern": name, "ranks": at, "efficiency": 1.0, "speedup": 1.0 * at, "speedup_low": 0.5, "speedup_high": None}
        for at, name in enumerate(("1x1x1", "2x1x1"), 1)
    ]
    [found] = figures(Panel("clustering", "pwc, speed-up", rows, {}))
    assert (found.title, ">2x1x1</text>" in found.chart) == ("pwc, speed-up: speed-up", True)


def test_speed_ups_are_beside_those_of_the_rival() -> None:
    rows = [{"variant": "slabs", "ranks": n, "speedup": 1.0 * n, "official_speedup": 0.9 * n} for n in (1, 2, 4)]
    [found] = figures(Panel("npb", "scaling", rows, {}))
    assert "NPB 3.4" in found.chart
    shares = [{"variant": name, "share": 0.25} for name in ("slabs", "pencils")]
    [found] = figures(Panel("npb", "communication", shares, {}))
    assert ">communication</text>" in found.chart


def test_shares_parts_and_samples() -> None:
    rows = [
        {"variant": name, "share_read": 0.5, "share_write": 0.25,
         "seconds_by_part": {"dot": 1.0, "total": 1.5, "wait": 0.5}, "seconds": [1.0 + 0.01 * i for i in range(200)],
         "gflops_by_part": {"dot": 1.0, "wait": 2.0}}
        for name in ("one", "two")
    ]  # fmt: skip
    names = titles(panel(rows, units={"seconds": "s", "seconds_by_part": "s", "gflops_by_part": "Gflop/s"}))
    assert names == ["demo: seconds", "one: seconds", "two: seconds", "demo: seconds by part", "demo: shares"]


def test_shares_of_the_rival_are_a_bar_of_their_own() -> None:
    rows = [
        {"operation": name, "rival": "C", "reads_share": 0.25, "rival_reads_share": 0.5, "communication": f"{at}%"}
        for at, name in enumerate(("put", "get"))
    ]
    [found] = figures(panel(rows, "ring"))
    for words in (">put</text>", ">put: C</text>", ">get: C</text>", ">25.0 %</text>", ">50.0 %</text>"):
        assert words in found.chart
    assert "rival" not in found.chart


def test_rows_of_two_rivals_are_not_called_ours() -> None:
    rows = [
        {"test": "latency", **row(name, size, rival=rival)}
        for name, rival in (("compiled", "C"), ("mpi4py", "C"), ("Python", "mpi4py"))
        for size in SIZES
    ]
    found = shown(benchmark("osu", {"osu": rows}))
    for words in (
        "ours is 2 times as fast as C",
        "mpi4py is 2 times as fast as C",
        "ours is 2 times as fast as mpi4py",
    ):
        assert words in found.text
    assert {"compiled", "mpi4py", "Python"} <= set(found.words)


def test_bounds_are_drawn_in() -> None:
    rows = [{"size": n, "gb_per_s": 1.0 * n, "c_gb_per_s": 2.0 * n, "bound_gb_per_s": 100.0} for n in SIZES]
    units = {"size": "B", **dict.fromkeys(("gb_per_s", "c_gb_per_s", "bound_gb_per_s"), "GB/s")}
    [figure] = figures(panel(rows, units=units))
    assert "bound: bound_gb_per_s" in figure.chart
    assert "curve bound" in figure.chart


def test_comparisons_are_in_words() -> None:
    rows = [{"benchmark": "FT", "ratio": 2.0, "ratio_low": 1.25, "ratio_high": 2.5}]
    [found] = compare(panel(rows), "ratio", layouts.Layout("NPB 3.4"))
    assert (found.label, found.words) == ("demo", "ours is 2 times as fast as NPB 3.4 (1.25-2.5)")


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_the_recorded_ratios_are_those_of_the_times(path: Path) -> None:
    for source in read([path]):
        for of in source.panels if source.kind == "benchmark" else ():
            measure = next((one for one in of.measures() if one.theirs is not None), None)
            for found in of.rows if measure is not None and "ratio" in of.ratios() else ():
                assert measure is not None
                ours, theirs = figure(found[measure.ours]), figure(found[measure.theirs or ""])
                if ours and theirs and found["ratio"]:
                    speed = theirs / ours if of.is_time(measure.ours, found) else ours / theirs
                    # The median of ratios is not the ratio of the medians, but near to it.
                    assert speed / 2.5 < found["ratio"] < speed * 2.5, (measure, found)


def test_layouts_are_of_benchmarks_that_exist() -> None:
    helped = jobs.run_command([sys.executable, "-m", "gondwana.cli.main", "bench", "--help"])
    assert {name for name, _ in layouts.LAYOUTS} <= {"model", *helped.stdout.split()}


def test_empty_and_odd_panels_get_a_table() -> None:
    found = shown(
        benchmark(
            "demo", {"none": [], "one": [{"a": None}], "odd": [{"b": {"c": [1, 2, 3, 4]}, "d": math.nan, "e": 10**400}]}
        )
    )
    assert "No rows." in found.text
    assert "not a number" in found.text
    assert "beyond 1e+200" in found.text
    assert found.tags.count("details") == 3


@pytest.mark.parametrize(
    "value", [0, -1.0, None, math.nan, math.inf, 1e308, 10**400, "text", [], {}, [None], {"median": None}]
)
def test_figures_that_are_none(value: Any) -> None:
    rows = [row("put", size) for size in SIZES]
    for key in ("ratio", "ratio_low", "microseconds", "rival_microseconds", "size", "goal", "met", "foreign_load"):
        shown(benchmark("rma", {"rma": [{**rows[0], key: value}, *rows[1:]]}))
        shown(benchmark("rma", {"rma": [{**one, key: value} for one in rows]}))


def test_what_a_file_says_is_text() -> None:
    hostile = "</title></script><script>alert(1)</script><img src=x onerror=alert(1)>\"'&\u202e\ud800"
    rows = [{**row(hostile, size, rival=hostile, goal=hostile), hostile: hostile} for size in SIZES]
    ours = benchmark(hostile, {hostile: rows}, command=[hostile], notes=[hostile], failures=[hostile])
    ours["environment"] = environment(cpu=hostile, time=hostile, placement={"pattern": hostile})
    runs = application(hostile, variant=hostile, config={hostile: hostile})
    traced = trace(1, trace=hostile, spans={hostile: [1.0]}, notes=[hostile], complete=False)["gondwana"]
    found = shown(ours, runs, runs, traced)
    assert found.tags.count("script") == 1
    assert "img" not in found.tags
    assert not [name for name, _ in found.attributes if name.startswith("on")]
    assert "alert(1)" in found.text


def test_the_page_may_run_its_own_script_only() -> None:
    [words] = re.findall('http-equiv="Content-Security-Policy" content="([^"]*)"', page([]))
    assert words.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in words


def test_results_of_several_machines_are_beside_each_other() -> None:
    one = benchmark("rma", {"rma": [row("put", size) for size in SIZES]})
    found = shown(one, {**one, "environment": environment(cpu="Processor Y")})
    assert "Measured on 2 different machines" in found.text
    assert "Processor X, 4 cores: result-0.json" in found.text
    assert "Processor Y, 4 cores: result-1.json" in found.text
    assert ("class", "beside") in found.attributes
    many = benchmark("rma", {"rma": [row(name, size) for name in ("put", "get", "flood") for size in SIZES]})
    assert ("class", "beside") not in shown(many, many).attributes


def test_a_model_is_no_measurement() -> None:
    rows = [{"app": "heat", "ranks": ranks, "milliseconds": 8.0 / ranks, "efficiency": 0.75} for ranks in (1, 64, 4096)]
    errors = [{"app": "heat", "measured": 1.0, "predicted": 1.0, "error": error} for error in (-3.0, 9.0)]
    found = shown(model("Frontier", {"heat, weak scaling": rows, "errors": errors}))
    for words in ("Predicted by models", "Model of Frontier", "median 9 %, largest 9 %", "Not measured"):
        assert words in found.text, words
    assert "Measured on" not in found.text
    assert found.tags.count("figure") == 2  # milliseconds and efficiency
    beside = shown(benchmark("rma", {"rma": []}), model("Frontier", {"heat, weak scaling": rows}))
    assert "Measured on Processor X, 4 cores." in beside.text
    assert "model of Frontier" in beside.text


def test_what_went_wrong_is_said() -> None:
    wrong = benchmark("rma", {"rma": []}, verified=False, complete=False, notes=["left out"], failures=["exploded"])
    found = shown(wrong)
    for words in ("left out", "FAILED: exploded", "NOT VERIFIED", "not complete"):
        assert words in found.text


def test_runs_of_an_application() -> None:
    steps = {"p1": 1e-3, "p25": 2e-3, "median": 3e-3, "p75": 4e-3, "p99": 5e-3}
    runs = [
        application("heat", ranks=n, seconds=1.0 / n, step_seconds=steps, config={"X": 32 * n, "N": 100})
        for n in (1, 2)
    ]
    found = shown(*runs)
    assert "2 runs" in found.text
    assert "500 ms to 1 s" in found.text
    assert "run 2, 2 ranks, X 64, result-1.json" in found.text
    assert "Application heat" in found.text
    assert "1 run" in shown(runs[0]).text


def test_a_trace_has_its_matrix_and_spans(tmp_path: Path) -> None:
    [source] = read([write(tmp_path, trace(3))])
    found = shown(source.content)
    for words in ("Bytes from rank to rank", "Messages from rank to rank", "75.0 %", "to 2", "1.95 KiB in 2000"):
        assert words in found.text
    assert "1 s: compute 75 %, waiting 25 %" in found.text
    assert "to 39" not in shown(trace(40)["gondwana"]).text, "large matrices are no table"


@pytest.mark.parametrize(
    ("rows", "given", "words"),
    [
        ([{"foreign_load": 0.0}], {}, "quiet"),
        (
            [{"foreign_load": 1.5}, {"foreign_load": 0.5}], {},
            "other programs kept up to 1.5 processors busy, 1 at the median",
        ),
        ([], {"load_average": [2.5, 1.0, 1.0]}, "load average 2.5 at the start"),
        ([], {"load_average": None}, "load not known"),
        ([{"foreign_load": "much"}], {"load_average": 3}, "load not known"),
    ],
)  # fmt: skip
def test_load_in_words(rows: list[dict[str, Any]], given: dict[str, Any], words: str) -> None:
    assert load_in_words(rows, given) == words


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("no JSON", "not JSON"),
        ({"a": 1}, "neither `app` nor `benchmark`"),
        ([1, 2], "not a result"),
        ({"gondwana": {}}, "not a trace"),
        (trace(2, seconds=[1.0]), "not those of 2 ranks"),
        (trace(2, spans={"wait": [1.0]}), "not those of 2 ranks"),
        (trace(2, matrix={"bytes": [[1]], "messages": [[1]]}), "not those of 2 ranks"),
        (trace(2, matrix={"bytes": [[-1, 0], [0, 0]], "messages": [[0, 0], [0, 0]]}), "not a trace"),
        (None, "No such file"),
        (trace(2, schema=2), "schema"),
        (benchmark("demo", {"rows": [{"a": "x"}, {"b": "x"}]}), "different keys"),
        (model("Frontier", {"rows": [{"a": "x"}, {"b": "x"}]}), "different keys"),
        (model("Frontier", {}, units={}) | {"panels": {"rows": [{"ranks": 1}]}}, "`units` lacks 'ranks'"),
        ({"model": "two_cores", "rows": []}, "schema"),
        ({"app": "heat", "benchmark": "heat"}, "or two of them"),
    ],
)
def test_refused_in_one_line(tmp_path: Path, content: Any, message: str) -> None:
    path = tmp_path / "result.json"
    if content is not None:
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    with pytest.raises(UsageError, match=re.escape(message)) as caught:
        read([path])
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


def report(*arguments: Any) -> jobs.Outcome:
    return jobs.run_command([sys.executable, "-m", "gondwana.cli.main", "report", *map(str, arguments)])


def test_the_command(tmp_path: Path) -> None:
    good = write(tmp_path, benchmark("rma", {"rma": [row("put", size) for size in SIZES]}))
    out = tmp_path / "page.html"
    done = report(good, "-o", out)
    assert (done.status, done.stdout.split()) == (0, [str(out)]), str(done)
    assert out.read_text(encoding="utf-8") == page(read([good]))
    assert {entry.name for entry in tmp_path.iterdir()} == {"result.json", "page.html"}


def test_the_command_refuses(tmp_path: Path) -> None:
    good = write(tmp_path, application("heat"))
    bad = write(tmp_path, {}, "bad.json")
    out = tmp_path / "page.html"
    for arguments, words in (((good, bad, "-o", out), "bad.json: not a result"), ((good, "-o", good), "is one of")):
        done = report(*arguments)
        assert done.status == 2, str(done)
        assert words in done.stderr
        assert done.stderr.count("\n") == 1
    assert not out.exists()
    assert json.loads(good.read_text())["app"] == "heat"


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 2**70) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(("median", "low", "p99", "a")), inner),
    max_leaves=5,
)
KEYS = (
    "operation", "rival", "size", "ranks", "kind", "unit", "ours", "theirs", "seconds", "c_seconds", "gb_per_s",
    "ratio", "ratio_low", "ratio_high", "read_ratio", "read_ratio_low", "efficiency", "speedup",
    "bound_gb_per_s", "of_triad", "share", "share_wait", "median", "p1", "p99", "goal", "met", "foreign_load",
    "samples",
)  # fmt: skip


@given(st.lists(st.sampled_from(KEYS), unique=True, min_size=1).flatmap(
    lambda keys: st.lists(st.fixed_dictionaries(dict.fromkeys(keys, VALUES)), max_size=5)
))  # fmt: skip
@settings(max_examples=25, deadline=None)
def test_any_rows_are_a_page(rows: list[dict[str, Any]]) -> None:
    shown(benchmark("rma", {"rma": rows}))


def test_rows_are_sorted_by_their_distance_from_the_goal() -> None:
    rows = [
        row("met", 8, ratio=0.93, ratio_low=0.92, ratio_high=0.94, goal=">= 0.91 x"),
        row("far", 8, ratio=0.5, ratio_low=0.4, ratio_high=0.6, goal=None, met=None),
        row("time", 8, unit="us", ours=8.0, theirs=16.0, goal="<= 2", met=False, foreign_load=0.7),
        row("number", 8, unit="us", ours=1.0, goal=3.0, met=None),
        row("odd", 8, goal="much", met=False),
        row("mpi4py", 8),
    ]
    [source] = [Source("a.json", "benchmark", "rma", benchmark("rma", {"rma": rows}))]
    found = verdicts([source])
    assert [one.label for one in found] == ["time", "far", "odd", "met", "number"], "rivals beside rivals are left out"
    assert [round(one.distance, 2) for one in found] == [0.25, 0.5, 1.0, 1.02, 3.0]
    assert [one.marks for one in found] == [["missed"], ["slower"], ["missed"], ["slower"], []]
    assert [one.load for one in found] == [0.7, None, None, None, None]
    read_page = shown(source.content)
    assert "2 of 4 rows with a goal miss it; 2 of 5 rows are slower than their rival, 3 faster" in read_page.text
    assert "goal <= 2 us MISSED, 25 % reached; foreign load 0.7" in read_page.text
    assert "1 under foreign load" in read_page.text


def test_benchmarks_are_sorted_by_their_worst_row() -> None:
    slow = {"ratio": 0.5, "ratio_low": 0.4, "ratio_high": 0.6, "goal": None, "met": None}
    names = {"good": {}, "bad": slow, "fair": {"ratio": 1.0, "ratio_low": 0.9, "goal": None, "met": None}}
    found = shown(*(benchmark(name, {name: [row("put", 8, **keys)]}) for name, keys in names.items()))
    assert sorted(names, key=found.words.index) == ["bad", "fair", "good"]


def test_what_has_changed_is_marked(tmp_path: Path) -> None:
    def results(name: str, *ratios: float, names: tuple[str, ...] = ("put", "get", "new")) -> Path:
        rows = [
            row(what, 8, ratio=ratio, ratio_low=0.95 * ratio, ratio_high=1.05 * ratio)
            for what, ratio in zip(names, ratios, strict=False)
        ]
        return write(tmp_path, benchmark("rma", {"rma": rows}), name)

    before, after = results("before.json", 2.0, 2.0), results("after.json", 2.05, 1.0, 3.0)
    found = {one.label: one for one in verdicts(read([after]), read([before]))}
    assert {name: one.marks for name, one in found.items()} == {"put": [], "get": ["changed"], "new": []}
    done = report(after, "--since", before, "-o", tmp_path / "page.html")
    assert done.status == 0, str(done)
    words = Reader((tmp_path / "page.html").read_text(encoding="utf-8")).text
    assert "1 of the 2 rows that were measured before have changed" in words
    assert "was 2 (1.9-2.1)" in words
    assert len(read([tmp_path])) == 2, "a folder stands for its files"


@browser.needed
def test_a_browser_filters_without_complaint(tmp_path: Path) -> None:
    slow = {"ratio": 0.5, "ratio_low": 0.4, "ratio_high": 0.6, "goal": None, "met": None}
    write(tmp_path, benchmark("rma", {"rma": [row("put", size) for size in SIZES]}), "a.json")
    write(tmp_path, benchmark("osu", {"osu": [row("put", size, **slow) for size in SIZES]}), "b.json")
    write(tmp_path, trace(3), "c.json")
    out = tmp_path / "page.html"
    out.write_text(page(read([tmp_path])), encoding="utf-8")
    found = browser.browse(f"{out.as_uri()}#slower", tmp_path)
    assert re.search(r'<button id="theme" type="button">(Dark|Light) colours</button>', found), "the script ran"
    assert '<main data-shown="slower">' in found
    assert re.search(r'<button type="button" data-filter="slower" aria-pressed="true">slower 3</button>', found)
    assert re.findall(r'<details class="(group[^"]*)" open="">', found) == ["group is-slower"]


@browser.needed
def test_the_stored_results_are_surveyed_on_few_screens(tmp_path: Path) -> None:
    text = re.sub(r"<meta http-equiv[^>]*>", "", stored_page())
    measure = "<script>document.title = document.documentElement.scrollHeight</script>"
    out = tmp_path / "page.html"
    out.write_text(text.replace("</body>", f"{measure}</body>"), encoding="utf-8")
    [height] = re.findall(r"<title>(\d+)</title>", browser.browse(out.as_uri(), tmp_path))
    assert int(height) < 2500
