"""CUDA devices: the driver's functions, and one object for each device that this process uses.

`bindings` is the CUDA driver itself, `emulated` executes what is meant for a GPU on the processor.
"""
