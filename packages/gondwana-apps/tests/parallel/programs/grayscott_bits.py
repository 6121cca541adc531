"""Run Gray-Scott cases and print, for each, the verdict and the bits of the result.

Usage: grayscott_bits.py NAME:SETTINGS:PORTIONS... where SETTINGS are KEY=VALUE,KEY=VALUE and PORTIONS are numbers of
steps that are done together, such as 2+1.
"""

import hashlib
import sys

import numpy as np

import gondwana as gw
from gondwana_apps.grayscott.settings import load
from gondwana_apps.grayscott.simulation import Simulation
from gondwana_apps.grayscott.verify import verify


def bits(run):
    """Digest of both fields and of their extremes and sums, on rank 0."""
    summary = run.summary()
    fields = [field.to_numpy(0) for field in (run.u, run.v)]
    if gw.world.rank:
        return None
    return hashlib.sha256(np.array(summary).tobytes() + b"".join(f.tobytes() for f in fields)).hexdigest()


base = sys.argv[1]
for case in sys.argv[2:]:
    name, keys, portions = case.split(":")
    settings = load(base, keys.split(";"))
    run = Simulation(settings, gw.world)
    if run.device is not None:
        run.prepare()
    for portion in map(int, portions.split("+")):
        run.advance(portion)
    verdict = verify(settings, run.steps, run.summary())
    found = bits(run)
    if gw.world.rank == 0:
        print("case", name, verdict.verified, found, flush=True)
