"""Benchmarks: our kernels and exchanges beside native programs in C, interleaved in one run.

`stencil`, `exchange`, `hpcg`, `triad` and the folders `rma`, `kinds`, `gpu`, `npb`, `clustering`, `tasks`, `pools` each
measure one thing, `stencil_on_ranks` the steps of `stencil` beside a program by hand; `native` has the programs in C.
Shared: `measure` (interleaved timing), `statistics`, `rows` (figures of two programs, tables) and `panels` (results).
"""

__version__ = "0.1.0"
