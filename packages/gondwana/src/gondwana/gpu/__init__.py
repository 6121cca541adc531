"""CUDA devices: the interface to a driver, an object for each device, and the kernels that copy boxes."""
