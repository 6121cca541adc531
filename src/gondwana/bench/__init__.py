"""Benchmarks: our kernels and exchanges beside native programs in C, interleaved in one run."""
