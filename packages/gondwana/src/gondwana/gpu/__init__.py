"""CUDA devices: what is asked of a driver, an object for each device, and the kernels that copy boxes."""
