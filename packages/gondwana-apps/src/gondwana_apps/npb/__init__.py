"""The NAS Parallel Benchmarks MG, FT and CG, verified by their own rules."""
