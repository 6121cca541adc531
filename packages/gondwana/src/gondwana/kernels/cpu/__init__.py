"""Kernels on host memory: compiled by LLVM, run by the threads of the rank."""
