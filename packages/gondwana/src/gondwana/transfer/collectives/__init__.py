"""`gw.barrier`, `gw.bcast` and `gw.allreduce`: through the memory that the ranks of a node share, or through MPI.

`gw.migrate`: records to their owners.
"""
