"""Arithmetic of global arrays: formulas, the kernels that compute them, and reductions."""
