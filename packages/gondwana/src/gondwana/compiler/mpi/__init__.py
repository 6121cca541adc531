"""MPI by address: calls of MPI's C functions from compiled code, without the interpreter."""
