"""Benchmarks: our kernels and exchanges beside native programs in C, interleaved in one run.

`stencil`, `exchange`, `hpcg`, `triad` and the folders `rma`, `kinds`, `gpu`, `npb`, `clustering`, `tasks`, `pools` each
measure one thing; `native` has the programs in C. Shared: `measure` (interleaved timing), `statistics`, `report` (one
table) and `panels` (several tables).
"""

__version__ = "0.1.0"
