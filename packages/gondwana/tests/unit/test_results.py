"""The schema of results: what applications and benchmarks write, and what is refused."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from gondwana import results
from gondwana.errors import UsageError
from gondwana.results.units import OF_THE_ROW, unit_of

ROOT = Path(__file__).parents[4]
STORED = sorted((ROOT / "docs" / "results").glob("*.json"))


def _application(**more: Any) -> dict[str, Any]:
    head = {"app": "heat", "version": "1", "verified": True, "ranks": 2, "threads": 1, "device": "host", "seconds": 0.5}
    return results.schema.application({**head, **more})


ODD = ['{"app": "\\ud800"}', '{"app": ' + "9" * 401 + "}", '{"app": 1e999}', '{"app": -Infinity}']
"""A lone surrogate, and numbers that no double can hold."""


def _benchmark() -> dict[str, Any]:
    return {
        "schema": results.VERSION, "benchmark": "rma", "command": ["gondwana"], "verified": True, "complete": True,
        "environment": results.environment(), "device": {}, "units": {"ours": OF_THE_ROW},
        "panels": {"rma": [{"ours": 1.0, "unit": "us", "verified": True}]}, "notes": [], "failures": [],
    }  # fmt: skip


def _written(folder: Path, content: Any) -> Path:
    path = folder / "result.json"
    path.write_text(json.dumps(content))
    return path


def test_an_application_has_the_head_and_units(tmp_path: Path) -> None:
    result = _application(grid=[2, 1], sample={"median": 1.0}, note="text", config={"X": 3})
    [read] = results.read(_written(tmp_path, result))
    assert read == json.loads(json.dumps(result))
    assert read["units"] == {"grid": "1", "ranks": "1", "sample": "1", "seconds": "s", "threads": "1"}
    assert read["environment"]["pages"].keys() == {"private", "shared"}
    assert read["environment"].keys() >= {"cpu", "caches", "compiler", "load_average", "commit", "mpi_library"}


def test_a_collection_has_several(tmp_path: Path) -> None:
    both = [_application(), _benchmark()]
    found = results.read(_written(tmp_path, {"schema": 1, "collection": "both", "results": both}))
    assert [result.get("app") for result in found] == ["heat", None]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda r: r.pop("environment"), "environment"),
        (lambda r: r.update(schema=2), "schema"),
        (lambda r: r.pop("benchmark"), "neither `app` nor `benchmark`"),
        (lambda r: r.update(app="rma"), "neither"),
        (lambda r: r.update(verified="yes"), "verified"),
        (lambda r: r["environment"].pop("commit"), "commit"),
        (lambda r: r["units"].clear(), "`units` lacks 'ours'"),
        (lambda r: r["panels"]["rma"].append({"ours": 2.0}), "different keys"),
        (lambda r: r.update(panels=[]), "panels"),
    ],
)
def test_other_files_are_refused_in_one_line(tmp_path: Path, damage: Any, message: str) -> None:
    result = copy.deepcopy(_benchmark())
    damage(result)
    with pytest.raises(UsageError) as caught:
        results.read(_written(tmp_path, result))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text", ["", "[]", "3", "null", '{"collection": 1}', "[" * 5000, '{"app": NaN}', "\udcff", *ODD]
)
def test_what_is_no_result_is_refused_in_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "result.json"
    path.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(UsageError, match="give files that --json wrote") as caught:
        results.read(path)
    assert "\n" not in str(caught.value)
    with pytest.raises(UsageError, match="No such file"):
        results.read(tmp_path / "absent")


@pytest.mark.parametrize("path", STORED, ids=[path.name for path in STORED])
def test_the_stored_results_have_the_schema(path: Path) -> None:
    assert results.read(path)


def test_the_documented_json_schema_is_that_of_the_library() -> None:
    stored = json.loads((ROOT / "docs" / "_static" / "results.schema.json").read_text())
    assert stored == results.json_schema()


def test_units_follow_from_the_names() -> None:
    keys = (
        "seconds",
        "c_seconds",
        "seconds_setup",
        "seconds_by_kernel",
        "official_milliseconds",
        "gb_per_s",
        "of_copy",
    )
    assert [unit_of("any", key) for key in keys] == ["s", "s", "s", "s", "ms", "GB/s", "1"]
    assert unit_of("rma", "ours") == OF_THE_ROW
