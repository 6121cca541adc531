"""Bandwidth of writing and reading blocks of all ranks, beside plain ADIOS2."""
