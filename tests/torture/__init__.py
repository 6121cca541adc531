"""Random trials: malformed input, damaged files, kills, full disks. ``make torture MINUTES=60 SEED=1`` runs them all.

Every module of this folder is one part, and has the function

    def main(minutes: float, seed: int) -> Mapping[str, int]

It tries things at random for so many minutes, finishes the try that runs when they are over, cleans up, and returns
how many tries had which outcome. `support.trials.Trials` does the counting:

    def main(minutes: float, seed: int) -> Mapping[str, int]:
        trials = Trials(__name__, minutes, seed)
        for rng in trials:                      # random.Random of this try: the same for the same seed and number
            outcome = judge(["gondwana", "ls", damaged(rng)])
            trials.record(outcome.verdict, str(outcome))
        return trials.counts

- ``counts["tries"]`` counts all tries; every try has one more count, of any name: "ran", "refused", "recovered", ...
- The names in `support.trials.FAILURES` are what must not happen. One of them makes ``make torture`` fail, and is
  printed at once with what repeats it: the part, the seed and the number of the try.
- Tries do not depend on earlier ones: number 812 can be repeated without the 811 before it.
- A part leaves nothing behind: no process, no file outside its temporary folder, no shared memory.
- What is random comes from the ``rng`` of the try. Moments of kills may differ from run to run; what is killed may not.

One part alone: ``make torture PARTS=options MINUTES=5 SEED=1``; one try again: ``... TRY=812``.
"""
