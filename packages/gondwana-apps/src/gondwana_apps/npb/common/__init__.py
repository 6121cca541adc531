"""What the benchmarks share: random numbers, timers, output and the command line."""
