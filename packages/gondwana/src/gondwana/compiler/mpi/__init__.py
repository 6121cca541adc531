"""MPI by address: what compiled code needs to call MPI's C functions without the interpreter."""
