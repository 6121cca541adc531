"""Traces of kernels and copies, with the times of the device."""

from __future__ import annotations

from pathlib import Path

import pytest

from gondwana.gpu.device import Device
from support import jobs, trace_format

PROGRAM = """
import gondwana as gw
import numpy as np

@gw.foreach
def increment(p, a):
    a[p] += 1.0

a = gw.zeros(gw.RectDomain((0, 0), (256, 256)), kind=gw.cuda())
for _ in range(5):
    increment(a.owned, a)
twice = gw.capture(lambda: (increment(a.owned, a), increment(a.owned, a)))
twice()
with gw.span("read"):
    assert np.asarray(a.local.copy()).min() == 7.0
"""


def test_a_trace_has_what_the_device_does(gpu: Device, tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    outcome = jobs.run_ranks(1, PROGRAM, variables={"GONDWANA_TRACE": str(file)}, timeout=250)
    assert outcome.status == 0, str(outcome)
    trace = trace_format.read(file)
    launches = [span for span in trace_format.spans(trace, 0) if span["name"].endswith(".increment")]
    assert len(launches) == 5, "what is captured is not executed"
    (replay,) = trace_format.spans(trace, 0, "replay a graph")
    (read,) = trace_format.spans(trace, 0, "read")
    on_device = [span for span in trace_format.spans(trace, 0) if span["cat"] == "device"]
    assert {span["tid"] for span in launches} == {replay["tid"]} != {0}
    assert any(span["args"]["bytes"] == 256 * 256 * 8 for span in on_device if "args" in span), "the copy to the host"
    starts = [span["ts"] for span in (*launches, replay)]
    assert starts == sorted(starts)
    # The clock of the device is that of the host: all is done before the host has read the result.
    error = 100.0  # microseconds
    assert all(span["ts"] + span["dur"] <= read["ts"] + read["dur"] + error for span in on_device)
    assert sum(sum(seconds) for seconds in trace["gondwana"]["spans"].values()) == pytest.approx(
        trace["gondwana"]["seconds"][0]
    ), "what the device does takes no time of the rank"
