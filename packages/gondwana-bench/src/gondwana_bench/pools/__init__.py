"""Pools of workers beside those of the standard library, mpi4py and Dask."""
