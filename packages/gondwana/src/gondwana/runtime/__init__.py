"""How a process starts, waits and ends as one of the ranks of a job. Knows neither MPI nor arrays."""
