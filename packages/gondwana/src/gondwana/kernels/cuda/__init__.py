"""Kernels on the memory of CUDA devices: compiled by NVVM, run by the device of the rank."""
