"""The common parts of the benchmarks: random numbers, timers, output and the command line."""
