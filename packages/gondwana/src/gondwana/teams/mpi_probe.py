"""The MPI library of mpi4py.

It is also a program that answers in JSON, for launchers: it imports nothing else of this package, so that asking takes
less time than starting a rank.
"""

from __future__ import annotations

import json
import os


def library() -> dict[str, str]:
    """Return the vendor, the version and the file of the MPI library, without starting MPI. Local."""
    import mpi4py

    mpi4py.rc.initialize = False
    from mpi4py import MPI

    vendor, version = MPI.get_vendor()
    with open("/proc/self/maps") as maps:
        loaded = {line.split()[-1] for line in maps if "/libmpi" in line}
    # The library itself has the shortest name: libmpi.so.40 beside libmpi_usempi.so.40 and the like.
    path = min(loaded, key=lambda name: (len(os.path.basename(name)), name), default="")
    return {"vendor": vendor, "version": ".".join(map(str, version)), "path": path}


if __name__ == "__main__":
    print(json.dumps(library()))
