"""Run every reference case and print, for each listed step, the verdict and the bits of the result.

Usage: grayscott_rows.py CASE... where a case is preset:L:precision:F:k:dt:noise:seed:steps
"""

import hashlib
import sys

import numpy as np

import gondwana as gw
from gondwana_apps.grayscott.settings import resolve
from gondwana_apps.grayscott.simulation import Simulation
from gondwana_apps.grayscott.verify import verify

STEPS = (1, 2, 10, 100, 500, 1000)

for case in sys.argv[1:]:
    preset, side, precision, *rates, last = case.split(":")
    preset, side, precision, *rates, last = case.split(":")
    feed, kill, dt, noise, seed = rates
    settings = resolve(
        {"preset": preset, "L": int(side), "precision": precision, "F": float(feed), "k": float(kill), "dt": float(dt),
         "Du": 0.2, "Dv": 0.1, "noise": float(noise), "seed": int(seed), "output": None}
    )  # fmt: skip
    run = Simulation(settings, gw.world)
    while run.steps < int(last):
        run.advance()
        if run.steps in STEPS:
            summary = run.summary()
            verdict = verify(settings, run.steps, summary)
            fields = [field.to_numpy(0) for field in (run.u, run.v)]
            if gw.world.rank == 0:
                bits = hashlib.sha256(np.array(summary).tobytes() + b"".join(f.tobytes() for f in fields)).hexdigest()
                print("row", case, run.steps, verdict.verified, bits, flush=True)
