"""The jobs in which marked tests run, one for all tests with equal settings, and their results."""

from __future__ import annotations

import faulthandler
import json
import os
import sys
from collections.abc import Container
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from gondwana.cli import launch
from gondwana.errors import LaunchError
from gondwana.testing import jobs
from gondwana.testing.plugin import Setting, setting_of, shared_over_modules

Key: TypeAlias = tuple[str, Setting]


@dataclass(frozen=True)
class Result:
    """The result of a test on one rank, or on all of them.

    Args:
        outcome: "failed", "xfailed", "passed" or "skipped".
        text: reason for a failure or a skip.
        sections: titles and texts of its output.
    """

    outcome: str
    text: str = ""
    sections: tuple[tuple[str, str], ...] = ()


Record: TypeAlias = dict[str, Result | None]

ORDER = ("failed", "xfailed", "passed", "skipped")
"""Outcomes: the result on one rank counts more than those later in this list."""


class Groups:
    """The jobs of a session and their results."""

    def __init__(self) -> None:
        self._results: dict[str, Result] = {}

    def report(self, item: pytest.Function, setting: Setting) -> None:
        """Give a test its result, as pytest wants it: return, or raise. Starts the job of its group if there is none.

        After a failure a job ends, because its ranks may no longer be at the same place; the later tests are run by
        another job when their turn comes.
        """
        while item.nodeid not in self._results:  # again if the job has only found that other modules are broken
            self._results |= _run(item, setting, self._results)
        result = self._results[item.nodeid]
        for title, text in result.sections:
            item.add_report_section("call", title.removeprefix("Captured ").replace(" call of", " of"), text)
        if result.outcome == "skipped":
            pytest.skip(result.text)
        if result.outcome == "xfailed":
            pytest.xfail(result.text)
        if result.outcome == "failed":
            pytest.fail(result.text, pytrace=False)


def _run(item: pytest.Function, setting: Setting, known: Container[str]) -> dict[str, Result]:
    """Run a job for a test and the later ones of its group whose results are not known."""
    items = item.session.items
    group = _key(item)
    waiting = [other for other in items[items.index(item) :] if _key(other) == group and other.nodeid not in known]
    factory: Any = item.funcargs["tmp_path_factory"]
    folder: Path = factory.mktemp(f"{setting.ranks}ranks")
    file = folder / "session.json"
    specification = _specification(waiting, setting, folder, item.config)
    file.write_text(json.dumps(specification), encoding="utf-8")
    ending = _job(file, setting, setting.timeout * len(specification["modules"]), item.config)
    found = [_read(folder / f"rank{rank}.jsonl") for rank in range(setting.ranks)]
    return _merge([one.nodeid for one in waiting], found, ending)


def _key(item: pytest.Item) -> Key | None:
    setting = setting_of(item)
    return None if setting is None else ("" if shared_over_modules(item.config) else str(item.path), setting)


def module_of(nodeid: str) -> str:
    """Return the module of a test from the start of its name. Local."""
    return nodeid.partition("::")[0]


def _specification(items: list[pytest.Item], setting: Setting, folder: Path, config: pytest.Config) -> dict[str, Any]:
    """The facts that the ranks need to run these tests as this session would."""
    option = config.option
    arguments = [f"--rootdir={config.rootpath}"]
    arguments += ["-c", str(config.inipath)] if config.inipath else []
    arguments += [f"--import-mode={option.importmode}", f"--capture={'no' if option.capture == 'no' else 'sys'}"]
    arguments += [word for name in option.plugins for word in ("-p", name)]
    arguments += [word for change in option.override_ini or () for word in ("-o", change)]
    arguments += [word for rule in option.pythonwarnings or () for word in ("-W", rule)]
    return {
        "folder": str(folder),
        "ranks": setting.ranks,
        "settings": [*dict.fromkeys(other.name for item in items if (other := setting_of(item)))],
        "limit": _until_report(setting.timeout),
        "modules": [*dict.fromkeys(str(item.path) for item in items)],
        "arguments": arguments,
        "tests": [item.nodeid for item in items],
        "options": {name: getattr(option, name) for name in ("tbstyle", "showlocals") if hasattr(option, name)},
    }


def _until_report(limit: float) -> float:
    """Seconds after which the ranks report where they stand."""
    return max(1.0, limit - jobs.REPORT_TIME)


def _job(file: Path, setting: Setting, limit: float, config: pytest.Config) -> str | None:
    """Run the job for ``limit`` seconds at most; return None if it ended well, otherwise a description of its end."""
    faulthandler.cancel_dump_traceback_later()  # pytest's, for one test that takes too long
    here = ("", os.getcwd())
    alone = [] if any(place in here for place in sys.path) else ["-P"]  # the ranks find the modules of this session
    try:
        command = launch.command(
            setting.ranks,
            [*alone, "-m", "gondwana.testing.session", str(file)],
            threads=setting.threads,
            python=setting.python,
            time_limit=_until_report(limit),
            variables=setting.environment,
            oversubscribe=True,
        )
        outcome = jobs.run_command(
            command.argv, timeout=limit, variables=command.variables, cwd=config.invocation_params.dir
        )
    except (LaunchError, jobs.JobTimeoutError) as error:
        return str(error)
    if config.option.capture == "no":
        sys.stdout.write(outcome.stdout)
        sys.stderr.write(outcome.stderr)
    return None if outcome.status == 0 else f"The job of {setting.name} ended with {outcome}"


def _read(file: Path) -> Record:
    """The records of a rank: the results of tests by name, None for those that it began only."""
    record: Record = {}
    if file.exists():
        for line in file.read_text(encoding="utf-8").splitlines():
            entry = json.loads(line)
            sections = tuple((title, text) for title, text in entry.get("sections", ()))
            finished = Result(entry["outcome"], entry["text"], sections) if "outcome" in entry else None
            record[entry["test"]] = finished
    return record


def _merge(tests: list[str], ranks: list[Record], ending: str | None) -> dict[str, Result]:
    """The results of the tests that the job has reached."""
    results = {}
    for test in tests:
        on_ranks = [record.get(test) for record in ranks]
        if all(on_ranks):
            results[test] = of_all([result for result in on_ranks if result])
        elif any(test in record for record in ranks):
            results[test] = _interrupted(on_ranks, ending)
            return results
        else:
            break
    if not results:
        # The obstacle that kept the ranks from their first test would keep those of another job from it.
        problems = [result for record in ranks if (result := record.get("")) is not None]
        failure = of_all(problems) if problems else Result("failed", ending or "no rank has run the test")
        broken = {module for record in ranks for module in record}  # these alone cannot be imported
        return dict.fromkeys([test for test in tests if module_of(test) in broken] or tests, failure)
    if ending is not None and not any(result.outcome == "failed" for result in results.values()):
        results[tests[-1]] = Result("failed", f"All tests of the job had passed when it failed.\n{ending}")
    return results


def of_all(ranks: list[Result]) -> Result:
    """Return the result of a test on all ranks together: the worst, with one text for each reason. Local."""
    outcome = min((result.outcome for result in ranks), key=ORDER.index)
    words: dict[str, list[int]] = {}
    for rank, result in enumerate(ranks):
        if result.outcome == outcome:
            words.setdefault(_reason(result.text), []).append(rank)
    texts = [_titled(on, len(ranks), ranks[on[0]].text) for on in words.values()] if outcome == "failed" else [*words]
    sections = [(f"{title} of rank {rank}", text) for rank, one in enumerate(ranks) for title, text in one.sections]
    return Result(outcome, "\n".join(texts) if outcome == "failed" else texts[0], tuple(sections))


def _reason(text: str) -> str:
    """The first line of an error: often the same on all ranks, even if the values in it differ."""
    return next((line.removeprefix("E ").strip() for line in text.splitlines() if line.startswith("E ")), text)


def _titled(ranks: list[int], size: int, text: str) -> str:
    """A failure under a title, for summaries, with its ranks and its first words."""
    reason = _reason(text).partition("\n")[0]
    return f"On rank{'s' * (len(ranks) > 1)} {', '.join(map(str, ranks))} of {size}: {reason}\n{text}"


def _interrupted(ranks: list[Result | None], ending: str | None) -> Result:
    """The result of a test in which the job has ended."""
    late = [rank for rank, result in enumerate(ranks) if result is None]
    failed = of_all([result or Result("skipped") for result in ranks])
    parts = [failed.text] if failed.outcome == "failed" else []
    parts.append(_titled(late, len(ranks), f"the test had not ended when the job did\n{ending or ''}"))
    return Result("failed", "\n".join(parts), failed.sections)
